package runs_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// TestRefusesInputWhileItWaits: a run with new input, on a thread of a graph that refuses it while it waits, fails
// at the first attempt and changes nothing: the question still waits, and its answer is taken. A run whose worker
// died behind its question is no new input, and an input that waits in line behind the answer is taken.
func TestRefusesInputWhileItWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var ahead atomic.Int64 // of the clock
	const lease = time.Minute
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{LeaseTime: lease, Clock: clock}))
	h.graphs["g"] = must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).Node("ask", func(ctx context.Context, _ any) (any, error) {
		said, err := pregel.AskFor[string](ctx, "more?")
		return map[string]any{"log": []string{said}}, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(graph.Options{Name: "g", Saver: h.saver, RefuseWaiting: true}))
	q := &silent{Queue: h.queue, died: func() { ahead.Add(int64(lease)) }}
	w := h.worker()
	w.Queue = q
	stop := h.start(w)
	q.lost.Store(true)
	if r := h.wait(h.submit(runs.Request{Input: in("first")}), runs.Success); !r.Waiting || r.Attempt < 2 {
		t.Fatalf("%+v", r)
	}
	for range 2 {
		r := h.wait(h.submit(runs.Request{Input: in("second")}), runs.Error)
		if r.Attempt != 1 || !strings.Contains(r.Error, pregel.ErrWaiting.Error()) {
			t.Errorf("attempt %d: %s", r.Attempt, r.Error)
		}
		if st := must(h.graphs["g"].GetState(t.Context(), pregel.Thread("t"))); len(st.Interrupts) != 1 || fmt.Sprint(st.Values) != "map[log:[first]]" {
			t.Fatalf("%d questions wait, and the state is %v", len(st.Interrupts), st.Values)
		}
	}
	stop()
	answer, next := h.submit(runs.Request{Input: pregel.Command{Resume: "yes"}}), h.submit(runs.Request{Input: in("third")})
	h.start(h.worker())
	h.wait(answer, runs.Success)
	if r := h.wait(next, runs.Success); !r.Waiting {
		t.Errorf("%+v", r)
	}
	h.log("first", "yes", "third")
}
