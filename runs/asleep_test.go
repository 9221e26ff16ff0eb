package runs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// Runs that the queue, whose clock is ahead, calls due although they sleep have no places at a worker: another run
// gets one, also if there are fewer places than such runs.
func TestEarlySleepersHaveNoPlaces(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ahead := func() time.Time { return time.Now().Add(3 * time.Hour) }
	h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: ahead}))
	h.add("g", func(ctx context.Context, _ []string) (string, error) { return "woke", pregel.Sleep(ctx, time.Hour) })
	h.add("work", says("done"))
	w := h.worker()
	w.Concurrency = 2
	h.start(w)
	for i := range 7 {
		r := must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("t", i), Graph: "g"}, Input: map[string]any{"log": []string{"in"}}}))
		changed, stop := h.queue.Watch(r.ID)
		for !must(h.queue.Get(t.Context(), r.ID)).Asleep() {
			<-changed
		}
		stop()
	}
	for i := range 3 {
		r := must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("w", i), Graph: "work"}, Input: map[string]any{"log": []string{"in"}}}))
		if r = must(runs.Wait(t.Context(), h.queue, r.ID)); r.Status != runs.Success {
			t.Errorf("%+v", r)
		}
	}
}
