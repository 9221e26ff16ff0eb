package runs_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
)

// slowly is encoded long after the node that emits it is given up.
type slowly struct{ encoding *atomic.Int32 }

func (s slowly) MarshalJSON() ([]byte, error) {
	s.encoding.Add(1)
	defer s.encoding.Add(-1)
	time.Sleep(300 * time.Millisecond)
	return []byte(`"late"`), nil
}

// TestLeftover: a run is not over while a node that was given up for its timeout still shows something.
func TestLeftover(t *testing.T) {
	h := newHouse(t)
	var encoding atomic.Int32
	h.graphs["g"] = must(graph.New(graph.Key("x", nil)).Node("n", func(ctx context.Context, _ any) (any, error) {
		return nil, pregel.Emit(ctx, slowly{&encoding})
	}, graph.NodeOptions{Timeout: pregel.Timeout(20*time.Millisecond, 0)}).Edge(graph.Start, "n").Compile(graph.Options{Name: "g", Saver: h.saver}))
	h.start(h.worker())
	r := h.submit(runs.Request{Spec: runs.Spec{Modes: []pregel.Mode{pregel.ModeCustom}}, Input: map[string]any{"x": "y"}})
	h.wait(r, runs.Error)
	if encoding.Load() != 0 {
		t.Error("an event is being encoded when its run is over")
	}
	events := must(h.queue.Events(t.Context(), r.ID, 0, 0))
	if !slices.ContainsFunc(events, func(ev runs.Event) bool { return ev.Kind == runs.Kind(pregel.ModeCustom) }) {
		t.Errorf("what the node showed is lost: %+v", events)
	}
}
