package runs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// deposable is a saver whose place another leader may take.
type deposable struct {
	saver.Saver
	fenced chan struct{}
}

func (d *deposable) Fenced() <-chan struct{} { return d.fenced }

// TestWorkerIsDeposed: when another leader takes over, a node under way sees by its context why it stops, the worker ends at once, and it
// tells the queue nothing of the run.
func TestWorkerIsDeposed(t *testing.T) {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &deposable{memory.New(memory.Options{}), make(chan struct{})}
	began, saw := make(chan struct{}), make(chan error, 1)
	g, err := graph.New(graph.Key("x", channel.LastValue[string]())).Node("wait", func(ctx context.Context, _ any) (any, error) {
		close(began)
		<-ctx.Done()
		saw <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}).Sequence(graph.Start, "wait").Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &runs.Worker{Queue: q, Saver: s, Graphs: map[string]*pregel.Graph{"g": g}}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, Input: map[string]any{"x": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	<-began
	close(s.fenced)
	if err := <-saw; !errors.Is(err, fault.ErrFenced) {
		t.Errorf("the node's context ended for %v", err)
	}
	if err := <-ended; !errors.Is(err, fault.ErrFenced) {
		t.Errorf("the worker ended with %v", err)
	}
	if r, err = q.Get(t.Context(), r.ID); err != nil || r.Status != runs.Running || r.Attempt != 1 {
		t.Errorf("%v %+v", err, r)
	}
}
