package pregel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// TestAskAfter: a question waits for what comes before it, and no longer than its context.
func TestAskAfter(t *testing.T) {
	g := fan(t, pregel.Options{}, node("a", func(ctx context.Context, _ any) (any, error) {
		first := make(chan struct{})
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := pregel.Ask(pregel.AskAfter(cancelled, []chan struct{}{first}), "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("a question whose turn never comes: %v", err)
		}
		close(first)
		var asked *pregel.InterruptError
		if _, err := pregel.Ask(pregel.AskAfter(ctx, []chan struct{}{first}), "x"); !errors.As(err, &asked) {
			t.Errorf("a question whose turn has come: %v", err)
		}
		return nil, nil
	}))
	if _, err := g.Invoke(context.Background(), pregel.Address{}, map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := pregel.ReadState(context.Background()); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("the state outside of a task: %v", err)
	}
}
