package pregel_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// What the Command that begins a thread writes is in the state of the run and in every state that is
// read back, in a delta channel as in another, whether the thread waits or has ended. With LangGraph's
// ways the run applies the update twice, and its delta channel is read back without one of the two, as
// LangGraph's is, except under Exit.
func TestCommandBeginsAThread(t *testing.T) {
	appended := func(v []string, ws [][]string) ([]string, error) { return append(v, slices.Concat(ws...)...), nil }
	for _, langGraph := range []bool{false, true} {
		for _, d := range allDurabilities {
			t.Run(fmt.Sprint(langGraph, "/", d), func(t *testing.T) {
				both := func(v string) m { return m{"log": []string{v}, "plain": []string{v}} }
				g := compiled(t, graph.New(graph.Key("log", channel.Delta(50, appended)), graph.Key("plain", channel.Reduce(channel.Append[string]))).
					Node("a", func(context.Context, any) (any, error) { return both("a"), nil }).
					Node("b", func(ctx context.Context, _ any) (any, error) {
						_, err := pregel.Ask(ctx, "go on?")
						return both("b"), err
					}).Sequence(graph.Start, "a", "b"), graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
				check := func(when string, values map[string]any, log, plain string) {
					t.Helper()
					if fmt.Sprint(values["log"]) != log || fmt.Sprint(values["plain"]) != plain {
						t.Errorf("%s: %v, want log %s, plain %s", when, values, log, plain)
					}
				}
				ran, stored := "x", "x"
				if langGraph {
					ran = "x x"
					if d == pregel.Exit {
						stored = ran
					}
				}
				at := pregel.Thread("t")
				for i, input := range []pregel.Command{{Update: both("x"), Goto: "a"}, {Resume: "yes"}} {
					res, err := g.Invoke(ctx, at, input, pregel.RunOptions{Durability: d})
					if err != nil {
						t.Fatal(err)
					}
					state, err := g.GetState(ctx, at)
					if err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						check("the run that began", res.Map(), "["+ran+" a]", "["+ran+" a]")
						check("read back", state.Map(), "["+stored+" a]", "["+ran+" a]")
						continue
					}
					check("the next run", res.Map(), "["+stored+" a b]", "["+ran+" a b]")
					check("read back", state.Map(), "["+stored+" a b]", "["+ran+" a b]")
				}
			})
		}
	}
}
