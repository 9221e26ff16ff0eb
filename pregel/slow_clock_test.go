package pregel_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// TestForkWithSlowClock: where the clock was set back, a fork of an older checkpoint and an
// update of one are still the newest of their thread, of graphs inside too. Else what was
// acknowledged would not be what the next run finds.
func TestForkWithSlowClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	build := func(s saver.Saver, at time.Time, word string, stops ...string) *pregel.Graph {
		env := pregel.Environment{IDs: pregel.NewIDSource(func() time.Time { at = at.Add(time.Second); return at }, nil)}
		says := func(who string) pregel.Func {
			return func(context.Context, any) (any, error) {
				return map[string]any{"steps": []string{who + " " + word}}, nil
			}
		}
		inner := compiled(t, graph.New(steps()).Node("i", says("i")).Node("j", says("j")).Sequence(graph.Start, "i", "j"),
			graph.Options{Name: "inner", Env: env, Checkpointing: pregel.Stable, InterruptBefore: stops})
		return compiled(t, graph.New(steps()).Node("a", says("a")).Subgraph("sub", inner).Node("b", says("b")).Sequence(graph.Start, "a", "sub", "b"),
			graph.Options{Name: "g", Saver: s, Env: env})
	}
	for name, fork := range map[string]func(g *pregel.Graph, at pregel.Address) (pregel.Address, error){
		"run": func(g *pregel.Graph, at pregel.Address) (pregel.Address, error) {
			_, err := g.Invoke(ctx, at, nil)
			return at, err
		},
		"update": func(g *pregel.Graph, at pregel.Address) (pregel.Address, error) {
			return g.UpdateState(ctx, at, pregel.StateUpdate{Values: map[string]any{"steps": []string{"b late"}}, AsNode: "b"})
		},
		"copy": func(g *pregel.Graph, at pregel.Address) (pregel.Address, error) {
			return g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: pregel.Copy})
		},
	} {
		for _, stops := range [][]string{nil, {"j"}} { // where it stops, the newest inside is newer than the newest around
			t.Run(fmt.Sprint(name, stops), func(t *testing.T) {
				s := memory.New(memory.Options{})
				early := build(s, now, "early", stops...)
				thread := pregel.Thread("t")
				if _, err := early.Invoke(ctx, thread, map[string]any{}); err != nil {
					t.Fatal(err)
				}
				head := map[string]string{}
				var old pregel.Address
				for tup, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
					if err != nil {
						t.Fatal(err)
					}
					if ns := tup.Config.Namespace; head[ns] == "" {
						head[ns] = tup.Checkpoint.ID
					}
					if step, _ := tup.Metadata.Step(); tup.Config.Namespace == "" && step == 0 {
						old = pregel.Address{ThreadID: "t", CheckpointID: tup.Checkpoint.ID}
					}
				}
				late := build(s, now.Add(-time.Hour), "late")
				if _, err := fork(late, old); err != nil {
					t.Fatal(err)
				}
				for ns, was := range head {
					tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t", Namespace: ns})
					if err != nil {
						t.Fatal(err)
					}
					if moved := tup.Checkpoint.ID > was; moved != (ns == "" || name == "run") {
						t.Errorf("namespace %q: the newest was %s, is %s", ns, was, tup.Checkpoint.ID)
					}
				}
			})
		}
	}
}

// TestMissingCheckpointWithSlowClock: what begins at a checkpoint that is not there, where that is
// taken for an empty thread, is the newest of its thread too.
func TestMissingCheckpointWithSlowClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, begin := range map[string]func(g *pregel.Graph, at pregel.Address) error{
		"run": func(g *pregel.Graph, at pregel.Address) error {
			_, err := g.Invoke(ctx, at, 2)
			return err
		},
		"update": func(g *pregel.Graph, at pregel.Address) error {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: 2, AsNode: pregel.Input})
			return err
		},
	} {
		s := memory.New(memory.Options{})
		at := func(clock time.Time) *pregel.Graph {
			env := pregel.Environment{IDs: pregel.NewIDSource(func() time.Time { clock = clock.Add(time.Second); return clock }, nil)}
			return fan(t, pregel.Options{Saver: s, Env: env, LangGraph: true}, node("a", returns("a")))
		}
		thread := pregel.Thread("t")
		if _, err := at(now).Invoke(ctx, thread, 1); err != nil {
			t.Fatal(err)
		}
		was, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := begin(at(now.Add(-time.Hour)), thread.At("missing")); err != nil {
			t.Fatal(err)
		}
		is, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
		if err != nil || is.Checkpoint.ID <= was.Checkpoint.ID {
			t.Errorf("%s: the newest was %s, is %s, %v", name, was.Checkpoint.ID, is.Checkpoint.ID, err)
		}
	}
}
