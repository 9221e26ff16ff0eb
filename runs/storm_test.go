package runs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
)

// TestStorm: clients submit runs to a few threads with all strategies, and cancel each run by interrupt
// and rollback while it begins and ends. Every run ends, none is executed twice at once, nor two of a
// thread, and no thread is busy at the end. STELE_SEED repeats the choices, STELE_STORM_RUNS makes it longer.
func TestStorm(t *testing.T) {
	seed := environment("STELE_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("STELE_SEED=%d", seed)
	const clients, threads, cancels = 16, 3, 8
	each := environment("STELE_STORM_RUNS", 12)
	h := newHouse(t)
	var under [threads]atomic.Int32
	for i := range threads {
		h.add(fmt.Sprint("g", i), func(ctx context.Context, _ []string) (string, error) {
			if n := under[i].Add(1); n > 1 {
				t.Errorf("%d runs of thread %d are executed at once", n, i)
			}
			defer under[i].Add(-1)
			select {
			case <-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond):
				return "a", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}, says("b"))
	}
	h.start(h.worker())
	h.start(h.worker())
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for client := range clients {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(client)))
		wg.Go(func() {
			for range each {
				at := random.IntN(threads)
				r, err := h.queue.Submit(t.Context(), runs.Request{Input: in("x"), Spec: runs.Spec{ThreadID: fmt.Sprint("t", at), Graph: fmt.Sprint("g", at),
					Multitask: []runs.Strategy{runs.Enqueue, runs.Enqueue, runs.Reject, runs.Interrupt, runs.Rollback}[random.IntN(5)]}})
				if errors.Is(err, runs.ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, r.ID)
				mu.Unlock()
				if random.IntN(2) == 0 {
					continue
				}
				var storm sync.WaitGroup
				for range cancels {
					how, wait := []runs.Strategy{runs.Interrupt, runs.Rollback}[random.IntN(2)], time.Duration(random.IntN(3000))*time.Microsecond
					storm.Go(func() {
						time.Sleep(wait)
						if _, err := h.queue.Cancel(t.Context(), r.ID, how); err != nil {
							t.Error(err)
						}
					})
				}
				storm.Wait()
			}
		})
	}
	wg.Wait()
	for _, id := range all {
		r, err := runs.Wait(t.Context(), h.queue, id)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains([]runs.Status{runs.Success, runs.Interrupted}, r.Status) || r.Ended.IsZero() || r.Attempt > 1 {
			t.Errorf("run %s: %s, attempt %d, %q", id, r.Status, r.Attempt, r.Error)
		}
		events, err := h.queue.Events(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for i, ev := range events {
			if ev.Kind == runs.KindEnd {
				ends++
			}
			if ev.Seq != int64(i+1) {
				t.Errorf("run %s: event %d behind %d", id, ev.Seq, i)
			}
		}
		if ends != 1 || events[len(events)-1].Kind != runs.KindEnd {
			t.Errorf("run %s ends %d times", id, ends)
		}
	}
	for _, status := range []runs.Status{runs.Pending, runs.Running} {
		for r, err := range h.queue.List(t.Context(), runs.Query{Status: status}) {
			t.Errorf("run %s is %s: %v", r.ID, r.Status, err)
		}
	}
}
