package pregel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestRefuseWaiting: with RefuseWaiting, of a run or of its graph, new input on a thread that waits is refused and
// nothing of it is stored, whatever the thread waits for; without it, and on any other thread, it is taken.
func TestRefuseWaiting(t *testing.T) {
	ask := func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, "more?")
		return map[string]any{"log": []any{answer}}, err
	}
	state := func() *graph.Builder { return graph.New(graph.Key("log", channel.Reduce(channel.Append[any]))) }
	inside := must(state().Node("ask", ask).Edge(graph.Start, "ask").Compile(graph.Options{}))
	for name, g := range map[string]func(o graph.Options) (*pregel.Graph, error){
		"a question":        state().Node("n", ask).Edge(graph.Start, "n").Compile,
		"a question inside": state().Subgraph("n", inside).Edge(graph.Start, "n").Compile,
		"a breakpoint": func(o graph.Options) (*pregel.Graph, error) {
			o.InterruptBefore = []string{"n"}
			return state().Node("n", func(context.Context, any) (any, error) { return map[string]any{"log": []any{"ran"}}, nil }).Edge(graph.Start, "n").Compile(o)
		},
	} {
		for _, way := range []struct{ langGraph, always bool }{{}, {langGraph: true}, {always: true}, {true, true}} {
			g := must(g(graph.Options{Saver: memory.New(memory.Options{}), LangGraph: way.langGraph, RefuseWaiting: way.always}))
			at, refuses := pregel.Thread("t"), pregel.RunOptions{RefuseWaiting: !way.always}
			input := func(s string) map[string]any { return map[string]any{"log": []any{s}} }
			must(g.Invoke(t.Context(), at, input("first"), refuses)) // no thread waits yet
			before := must(g.GetState(t.Context(), at))
			if _, err := g.Invoke(t.Context(), at, input("second"), refuses); !errors.Is(err, pregel.ErrWaiting) {
				t.Errorf("%s, %+v: %v", name, way, err)
			}
			if after := must(g.GetState(t.Context(), at)); after.Address.CheckpointID != before.Address.CheckpointID || len(after.Interrupts) != len(before.Interrupts) {
				t.Errorf("%s, %+v: %v waits, %v before", name, way, after.Address, before.Address)
			}
			if _, err := g.Invoke(t.Context(), at, input("third")); way.always && !errors.Is(err, pregel.ErrWaiting) || !way.always && err != nil {
				t.Errorf("%s, %+v: without RunOptions.RefuseWaiting: %v", name, way, err)
			}
			resume := any(pregel.Command{Resume: "yes"})
			if name == "a breakpoint" {
				resume = nil
			}
			must(g.Invoke(t.Context(), at, resume, refuses))
			if _, err := g.Invoke(t.Context(), at, input("fourth"), refuses); err != nil {
				t.Errorf("%s, %+v: on a thread that is done: %v", name, way, err)
			}
		}
	}
}
