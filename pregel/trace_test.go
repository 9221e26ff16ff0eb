package pregel_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
)

type spanKey struct{}

// Spans begin and end in the order of the work, each inside of the one around it, and
// the context of a task is cancelled as without spans.
func TestSpans(t *testing.T) {
	var mu sync.Mutex
	var log []string
	var inside context.Context
	h := pregel.Hooks{Span: func(ctx context.Context, s pregel.Span) (context.Context, func(error)) {
		around, _ := ctx.Value(spanKey{}).(string)
		name := around + "/" + string(s.Kind)
		if s.Task != nil {
			inside = ctx
		}
		mu.Lock()
		defer mu.Unlock()
		log = append(log, "begin "+name)
		return context.WithValue(ctx, spanKey{}, name), func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				name += " failed"
			}
			log = append(log, "end "+name)
		}
	}}
	fail := errors.New("fails")
	steps := 0
	g := loopGraph(t, pregel.Options{Hooks: h}, 2, func() { steps++ })
	if _, err := g.Invoke(ctx, pregel.Address{}, 0); err != nil {
		t.Fatal(err)
	}
	step := []string{"begin /run/superstep", "begin /run/superstep/task", "end /run/superstep/task", "end /run/superstep"}
	want := slices.Concat([]string{"begin /run"}, slices.Repeat(step, steps), []string{"end /run"})
	if !slices.Equal(log, want) || steps == 0 {
		t.Errorf("spans %q, want %q", log, want)
	}
	if inside.Err() == nil {
		t.Error("the context of the tasks outlives the run")
	}
	log = nil
	g = loopGraph(t, pregel.Options{Hooks: h}, 2, func() { panic(fail) })
	if _, err := g.Invoke(ctx, pregel.Address{}, 0); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	want = []string{"begin /run", "begin /run/superstep", "begin /run/superstep/task",
		"end /run/superstep/task failed", "end /run/superstep failed", "end /run failed"}
	if !slices.Equal(log, want) {
		t.Errorf("spans of a failure %q, want %q", log, want)
	}
}
