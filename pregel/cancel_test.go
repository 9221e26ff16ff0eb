package pregel_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/memory"
)

// A task that ends because the run is cancelled has not ended, also if its end
// reaches the loop before the cancellation does: the two race here, over and
// over.
func TestCancelledTaskIsNeverTakenForFinished(t *testing.T) {
	for i := range 60 {
		s := memory.New(memory.Options{})
		c, cancel := context.WithCancel(ctx)
		g := fan(t, pregel.Options{Saver: s}, node("a", returns("a")), node("b", func(tc context.Context, _ any) (any, error) {
			if c.Err() != nil {
				return "b", nil
			}
			cancel()
			<-tc.Done()
			return nil, tc.Err()
		}))
		cfg := pregel.Config{ThreadID: "t", Durability: allDurabilities[i%3]}
		if _, err := g.Invoke(c, 1, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		state, err := g.GetState(ctx, cfg, false)
		if err != nil || !slices.Contains(state.Next, "b") {
			t.Fatalf("%s: next %v, %v; b has not run", cfg.Durability, state.Next, err)
		}
		res, err := g.Invoke(ctx, nil, cfg)
		wantOut(t, res, err, "a", "b")
	}
}
