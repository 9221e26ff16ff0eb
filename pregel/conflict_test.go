package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// A run that loses before its first superstep starts over from the new head,
// however it is run, and nobody is shown the attempt that lost.
func TestConflictStartsOver(t *testing.T) {
	for name, run := range map[string]func(g *pregel.Graph, cfg pregel.Config) (events int, err error){
		"invoke": func(g *pregel.Graph, cfg pregel.Config) (int, error) {
			_, err := g.Invoke(ctx, "outer", cfg)
			return 0, err
		},
		"stream": func(g *pregel.Graph, cfg pregel.Config) (events int, err error) {
			for _, err = range g.Stream(ctx, "outer", cfg, pregel.ModeUpdates, pregel.ModeCheckpoints) {
				if err == nil {
					events++
				}
			}
			return events, err
		},
	} {
		for retries := range 2 {
			t.Run(fmt.Sprint(name, "/", retries), func(t *testing.T) {
				var g *pregel.Graph
				raced := false
				s := watch(func(_ context.Context, op string) error {
					if !strings.HasPrefix(op, "put") || raced {
						return nil
					}
					raced = true // somebody else gets in between load and store
					_, err := g.Invoke(context.Background(), "inner", pregel.Config{ThreadID: "t"})
					return err
				})
				g = fan(t, pregel.Options{Saver: s}, node("a", func(_ context.Context, v any) (any, error) { return v, nil }))
				events, err := run(g, pregel.Config{ThreadID: "t", Exclusive: true, ConflictRetries: retries})
				if retries == 0 {
					if !errors.Is(err, pregel.ErrConflict) || events > 0 {
						t.Errorf("%d events, %v", events, err)
					}
					return
				}
				if err != nil || name == "stream" && events != 3 { // two checkpoints and an update
					t.Fatalf("%d events, %v", events, err)
				}
				state, err := g.GetState(ctx, pregel.Config{ThreadID: "t"}, false)
				if err != nil || fmt.Sprint(state.Map()["out"]) != "[inner outer]" {
					t.Errorf("state %v, %v", state, err)
				}
			})
		}
	}
}
