package pregel

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
)

// How often a pending write is gone over does not grow with the calls of a superstep: neither while calls
// end, nor when the run stores them, nor when the body runs again and finds them.
func TestCallsAreGoneOverOnce(t *testing.T) {
	plain := NewTask("plain", func(_ context.Context, n int) (int, error) { return n, nil })
	keyed := NewTask("keyed", func(ctx context.Context, n int) (int, error) {
		_, err := IdempotencyKey(ctx, "k")
		return n, err
	})
	for _, d := range []Durability{Sync, Async, Exit} {
		for name, task := range map[string]*TaskFunc[int, int]{"plain": plain, "keyed": keyed} {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				var most [2]int // of a run, with few calls and with many
				for i, calls := range []int{20, 100} {
					g, err := Entrypoint("flow", func(ctx context.Context, _ int) (int, error) {
						for n := range calls {
							if _, err := task.Call(ctx, n); err != nil {
								return 0, err
							}
						}
						_, err := Ask(ctx, "go on?")
						return calls, err
					}, EntrypointOptions{Options: Options{Saver: memory.New(memory.Options{})}})
					if err != nil {
						t.Fatal(err)
					}
					at := Thread("t")
					for _, input := range []any{1, Command{Resume: "yes"}} {
						var shown atomic.Bool
						l, err := g.run(t.Context(), &at, input, &RunOptions{Durability: d}, &shown, func(*loop) {})
						if err != nil {
							t.Fatal(err)
						}
						most[i] = max(most[i], l.pos.scanned/calls)
					}
				}
				if most[1] > most[0]+1 {
					t.Errorf("each write was gone over %d times, and %d times among five times as many", most[0], most[1])
				}
			})
		}
	}
}

// What calls ask is gone over once for each task, however many tasks and calls of a superstep ask.
func TestQuestionsAreGoneOverOnce(t *testing.T) {
	const n = 60
	asks := NewTask("asks", func(ctx context.Context, _ int) (any, error) { return Ask(ctx, "call?") })
	for name, ask := range map[string]Func{
		"tasks": func(ctx context.Context, _ any) (any, error) { return Ask(ctx, "task?") },
		"calls": func(ctx context.Context, _ any) (any, error) { return asks.Call(ctx, 1) },
	} {
		spec := Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[int]()}, Input: One("in")}
		for i := range n {
			spec.Nodes = append(spec.Nodes, &Node{Name: fmt.Sprint("n", i), Triggers: []string{"in"}, Reads: One("in"), Run: ask})
		}
		g, err := New(spec, Options{Saver: memory.New(memory.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		var shown atomic.Bool
		at := Thread("t")
		l, err := g.run(t.Context(), &at, 1, &RunOptions{}, &shown, func(*loop) {})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"tasks": 0, "calls": n}[name]; l.pos.asked.found != want || l.pos.scanned > n {
			t.Errorf("%s: %d calls and %d writes were gone over for %d tasks, want %d calls", name, l.pos.asked.found, l.pos.scanned, n, want)
		}
	}
}
