package runs_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// Workers execute runs that sleep.
func TestSleepers(t *testing.T) {
	runstest.Sleepers(t, func(t *testing.T, clock func() time.Time) runstest.Home {
		q := must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock}))
		return runstest.Home{Saver: memory.New(memory.Options{}), Queue: q, Items: must(store.NewMemory(store.Options{}))}
	})
}

// Twenty thousand runs sleep. When the clock jumps, those that are due are claimed, each once, and no other.
func TestManySleep(t *testing.T) {
	const many, due = 20_000, 100
	clock := waittest.NewClock()
	q := must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock.Now}))
	graphs, goroutines := []string{"g"}, runtime.NumGoroutine()
	begun := clock.Now()
	for i := range many {
		if _, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint(i), Graph: "g"}}); err != nil {
			t.Fatal(err)
		}
		c, _, err := q.Claim(t.Context(), "w", graphs)
		if err != nil || c == nil {
			t.Fatalf("%+v, %v", c, err)
		}
		place := (i*7919)%many + 1 // in another order than that of their submission
		if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Pending, Waiting: true, After: begun.Add(time.Duration(place) * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	claimed := map[string]bool{}
	for range 2 {
		for {
			c, next, err := q.Claim(t.Context(), "w", graphs)
			if err != nil {
				t.Fatal(err)
			}
			if c == nil {
				if want := begun.Add(time.Duration(len(claimed)+1) * time.Minute).Truncate(time.Microsecond); !next.Equal(want) && len(claimed) == 0 {
					t.Errorf("the next is due at %v, want %v", next, want)
				}
				break
			}
			if claimed[c.ID] || c.After.After(clock.Now()) {
				t.Errorf("claimed: %+v", c)
			}
			claimed[c.ID] = true
		}
		clock.Move(due * time.Minute)
	}
	if len(claimed) != due {
		t.Errorf("%d were claimed, want %d", len(claimed), due)
	}
}
