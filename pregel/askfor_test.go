package pregel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/memory"
)

// An answer of the wrong type fails the node, and the question can be answered again:
// by a plain answer or by id, after any number of wrong ones, in every durability, also
// where an earlier question of the node was answered well.
func TestAskForAnswersAgain(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, langGraph := range []bool{false, true} {
			for _, byID := range []bool{false, true} {
				t.Run(fmt.Sprint(d, "/langgraph ", langGraph, "/by id ", byID), func(t *testing.T) {
					g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph}, node("a", func(ctx context.Context, _ any) (any, error) {
						first, err := pregel.AskFor[string](ctx, "first?")
						if err != nil {
							return nil, err
						}
						second, err := pregel.AskFor[string](ctx, "second?")
						return first + second, err
					}))
					at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
					res, err := g.Invoke(ctx, at, "in", cfg)
					if err != nil {
						t.Fatal(err)
					}
					for _, good := range []string{"one", "two"} {
						if len(res.Interrupts) != 1 {
							t.Fatalf("%d questions before %q", len(res.Interrupts), good)
						}
						answer := func(v any) pregel.Command {
							if byID {
								v = map[string]any{res.Interrupts[0].ID: v}
							}
							return pregel.Command{Resume: v}
						}
						for _, wrong := range []any{5, []any{"x"}} {
							if _, err := g.Invoke(ctx, at, answer(wrong), cfg); err == nil {
								t.Fatalf("%v was taken for %q", wrong, good)
							}
						}
						if res, err = g.Invoke(ctx, at, answer(good), cfg); err != nil {
							t.Fatalf("%q after wrong ones: %v", good, err)
						}
					}
					if out, _ := res.Value.([]any); len(res.Interrupts) != 0 || len(out) != 1 || out[0] != "onetwo" {
						t.Errorf("the run ended with %v, %v", res.Value, res.Interrupts)
					}
				})
			}
		}
	}
}
