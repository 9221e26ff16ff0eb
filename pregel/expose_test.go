package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestExposedInARetry: a retry that exposes again what the failed attempt did changes nothing, and what cannot be
// stored, or has no name, is refused.
func TestExposedInARetry(t *testing.T) {
	attempts := 0
	g := must(graph.New(graph.Key("n", channel.LastValue[int]())).Node("n", func(ctx context.Context, _ any) (any, error) {
		attempts++
		if err := pregel.Expose(ctx, "attempt", attempts); err != nil {
			return nil, err
		}
		var bad *pregel.ArgumentError
		if err := pregel.Expose(ctx, "", 1); !errors.As(err, &bad) {
			t.Errorf("without a name: %v", err)
		}
		if err := pregel.Expose(ctx, "bad", func() {}); err == nil {
			t.Error("a function was exposed")
		}
		if attempts < 3 {
			return nil, errors.New("again")
		}
		_, err := pregel.Ask(ctx, "?")
		return nil, err
	}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 3, InitialInterval: time.Millisecond, RetryOn: func(error) bool { return true }}}}).Edge(graph.Start, "n").
		Compile(graph.Options{Name: "g", Saver: memory.New(memory.Options{})}))
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(must(g.GetState(t.Context(), pregel.Thread("t"))).Exposed); attempts != 3 || got != "map[attempt:1]" {
		t.Errorf("%d attempts, exposed %s", attempts, got)
	}
	bare := must(graph.New(graph.Key("n", channel.LastValue[int]())).Node("n", func(ctx context.Context, _ any) (any, error) {
		return nil, pregel.Expose(ctx, "n", 1)
	}).Edge(graph.Start, "n").Compile(graph.Options{Name: "bare"}))
	if _, err := bare.Invoke(t.Context(), pregel.Address{}, map[string]any{"n": 1}); !errors.Is(err, pregel.ErrNoSaver) {
		t.Errorf("without a saver: %v", err)
	}
}
