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

// A fork of a thread with a delta channel has what its own branch wrote, and the branch that it left
// keeps what it had, as in LangGraph since its issues 8443, 8538 and 8551. A channel that is stored
// whole, and that takes the same writes, tells what each checkpoint holds: those that were there
// before a fork as they were, and the new ones too.
func TestForksOfDeltas(t *testing.T) {
	appended := func(v []string, ws [][]string) ([]string, error) { return append(v, slices.Concat(ws...)...), nil }
	both := func(v string) m { return m{"log": []string{v}, "plain": []string{v}} }
	for name, fork := range map[string]func(g *pregel.Graph, at pregel.Address, o pregel.RunOptions) error{
		"a run with new input": func(g *pregel.Graph, at pregel.Address, o pregel.RunOptions) error {
			_, err := g.Invoke(ctx, at, both("fork"), o)
			return err
		},
		"a run that goes on": func(g *pregel.Graph, at pregel.Address, o pregel.RunOptions) error {
			_, err := g.Invoke(ctx, at, nil, o)
			return err
		},
		"an update": func(g *pregel.Graph, at pregel.Address, _ pregel.RunOptions) error {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: both("fork"), AsNode: "a"})
			return err
		},
		"an update that a run follows": func(g *pregel.Graph, at pregel.Address, o pregel.RunOptions) error {
			to, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: both("fork"), AsNode: "a"})
			if err == nil {
				_, err = g.Invoke(ctx, to, nil, o)
			}
			return err
		},
		"several updates": func(g *pregel.Graph, at pregel.Address, _ pregel.RunOptions) error {
			_, err := g.BulkUpdateState(ctx, at, [][]pregel.StateUpdate{{{Values: both("fork"), AsNode: "a"}}, {{Values: both("more"), AsNode: "b"}}})
			return err
		},
		"input by an update": func(g *pregel.Graph, at pregel.Address, _ pregel.RunOptions) error {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: both("fork"), AsNode: pregel.Input})
			return err
		},
	} {
		for _, langGraph := range []bool{false, true} {
			for _, d := range allDurabilities {
				t.Run(fmt.Sprint(name, "/", langGraph, "/", d), func(t *testing.T) {
					node := func(name string) pregel.Func {
						return func(context.Context, any) (any, error) { return both(name), nil }
					}
					g := compiled(t, graph.New(graph.Key("log", channel.Delta(50, appended)), graph.Key("plain", channel.Reduce(channel.Append[string]))).
						Node("a", node("a")).Node("b", node("b")).Sequence(graph.Start, "a", "b"), graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
					o := pregel.RunOptions{Durability: d}
					for _, in := range []string{"one", "two", "three"} {
						if _, err := g.Invoke(ctx, pregel.Thread("t"), both(in), o); err != nil {
							t.Fatal(err)
						}
					}
					states := func() (at []pregel.Address, plain map[string]string) {
						plain = map[string]string{}
						for s, err := range g.GetStateHistory(ctx, pregel.Thread("t"), pregel.HistoryQuery{}) {
							if err != nil {
								t.Fatal(err)
							}
							log, whole := fmt.Sprint(s.Map()["log"]), fmt.Sprint(s.Map()["plain"])
							if log != whole && (s.Map()["log"] != nil || s.Map()["plain"] != nil) {
								t.Errorf("checkpoint %s: log %s, plain %s", s.Address.CheckpointID, log, whole)
							}
							at, plain[s.Address.CheckpointID] = append(at, s.Address), whole
						}
						return at, plain
					}
					places, before := states()
					for _, at := range places {
						if err := fork(g, at, o); err != nil {
							t.Logf("from %s: %v", at.CheckpointID, err)
						}
						_, after := states()
						for id, plain := range before {
							if after[id] != plain {
								t.Errorf("after a fork checkpoint %s has %s, and had %s", id, after[id], plain)
							}
						}
						if t.Failed() {
							return
						}
					}
				})
			}
		}
	}
}
