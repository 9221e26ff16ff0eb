package runs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// TestLostClaim: the queue loses the first claim of a run with the power, and the saver, which does
// not share its log, keeps what the claim had led to. The run does not begin again, also if it
// begins at a checkpoint.
func TestLostClaim(t *testing.T) {
	h := newHouse(t)
	var firsts atomic.Int32
	h.add("g", func(context.Context, []string) (string, error) {
		firsts.Add(1)
		return "a", nil
	}, says("b"))
	for _, fork := range []bool{false, true} {
		before := must(store.NewMemory(store.Options{}))
		h.queue = must(runs.NewLocal(t.Context(), before, runs.LocalOptions{}))
		spec := runs.Spec{}
		if fork {
			spec.CheckpointID = must(h.graphs["g"].GetState(t.Context(), pregel.Thread("t"))).Address.CheckpointID
		}
		r := h.submit(runs.Request{Input: in("x"), Spec: spec})
		after := must(store.NewMemory(store.Options{})) // what is durable
		for found, err := range before.Scan(t.Context(), store.Query{}) {
			if err == nil {
				_, err = after.Batch(t.Context(), store.PutOp{Namespace: found.Namespace, Key: found.Key, Value: found.Value})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan bool)
		once := sync.OnceFunc(func() { close(ended) })
		w := h.worker()
		w.Queue = &finisher{h.queue, func(runs.Outcome) error { once(); return runs.ErrFenced }}
		stop := h.start(w)
		<-ended
		stop()
		h.queue = must(runs.NewLocal(t.Context(), after, runs.LocalOptions{}))
		stop = h.start(h.worker())
		if r = h.wait(r, runs.Success); r.Epoch != 1 {
			t.Errorf("epoch %d: the claim was not lost", r.Epoch)
		}
		stop()
		if n := firsts.Swap(0); n != 1 {
			t.Errorf("fork %t: the first node ran %d times", fork, n)
		}
	}
	h.log("x", "a", "b", "x", "a", "b")
}
