package pregel_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store/cache"
)

// holding is a cache that holds the loop at the end of a task.
type holding struct {
	cache.Cache
	until <-chan struct{}
}

func (h *holding) Set(context.Context, ...cache.Entry) error {
	<-h.until
	for range 10 {
		runtime.Gosched()
	}
	return nil
}

// A task that ends because the run is cancelled has not ended, also if its end
// reaches the loop before the cancellation does: the two race here, over and
// over.
func TestCancelledTaskIsNeverTakenForFinished(t *testing.T) {
	for i := range 60 {
		s := memory.New(memory.Options{})
		c, cancel := context.WithCancel(ctx)
		gone := make(chan struct{})
		hooks := pregel.Hooks{TaskEnd: func(info pregel.TaskInfo, _ time.Duration, err error) {
			if info.Node == "b" && err != nil {
				close(gone)
			}
		}}
		g := fan(t, pregel.Options{Saver: s, Hooks: hooks, Cache: &holding{Cache: newCache(t, cache.Options{}), until: gone}}, node("a", returns("a")).Cache(pregel.CachePolicy{}),
			node("b", func(tc context.Context, _ any) (any, error) {
				if c.Err() != nil {
					return "b", nil
				}
				cancel()
				<-tc.Done()
				return nil, tc.Err()
			}))
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: allDurabilities[i%3]}
		if _, err := g.Invoke(c, at, 1, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		state, err := g.GetState(ctx, at)
		if err != nil || !slices.Contains(state.Next, "b") {
			t.Fatalf("%s: next %v, %v; b has not run", cfg.Durability, state.Next, err)
		}
		res, err := g.Invoke(ctx, at, nil, cfg)
		wantOut(t, res, err, "a", "b")
	}
}
