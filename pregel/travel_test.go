package pregel_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// voyage is a graph with depth graphs inside each other, of which the innermost runs a, b and review, which
// asks. ran has the nodes that were run.
type voyage struct {
	depth  int
	called bool // graphs inside are run by the body of a node, as its second
	asks   bool // that body asks before it runs them
	mu     sync.Mutex
	ran    []string
}

func (v *voyage) node(name string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		v.mu.Lock()
		v.ran = append(v.ran, name)
		v.mu.Unlock()
		word := name
		if name == "review" {
			a, err := pregel.AskFor[string](ctx, "fine?")
			if err != nil {
				return nil, err
			}
			word += "=" + a
		}
		return m{"steps": []string{word}, "log": []string{word}}, nil
	}
}

func (v *voyage) fields() []graph.Field {
	log := channel.Delta(1000, func(v []string, writes [][]string) ([]string, error) {
		return append(slices.Clone(v), slices.Concat(writes...)...), nil
	})
	return []graph.Field{stepsField(), graph.Key("log", log)}
}

func (v *voyage) graph(t *testing.T, o graph.Options) *pregel.Graph {
	t.Helper()
	g := compiled(t, graph.New(v.fields()...).Node("a", v.node("a")).Node("b", v.node("b")).Node("review", v.node("review")).
		Sequence(graph.Start, "a", "b", "review"), graph.Options{})
	for i := range v.depth {
		b := graph.New(v.fields()...)
		name := fmt.Sprint("in", i)
		if v.called {
			inner, first := g, compiled(t, graph.New(v.fields()...).Node("x", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "x"), graph.Options{})
			b.Node(name, func(ctx context.Context, s any) (any, error) {
				if v.asks {
					if _, err := pregel.Ask(ctx, name+"?"); err != nil {
						return nil, err
					}
				}
				if _, err := first.Invoke(ctx, pregel.Inside(), m{"steps": []string{}}); err != nil {
					return nil, err
				}
				res, err := inner.Invoke(ctx, pregel.Inside(), m{"steps": []string{}, "log": []string{}})
				if err != nil {
					return nil, err
				}
				return m{"steps": res.Map()["steps"], "log": res.Map()["log"]}, nil
			}, graph.NodeOptions{Subgraphs: []*pregel.Graph{inner}})
		} else {
			b.Subgraph(name, g)
		}
		opts := graph.Options{}
		if i == v.depth-1 {
			opts = o
		}
		after := fmt.Sprint("after", i)
		g = compiled(t, b.Node(after, v.node(after)).Sequence(graph.Start, name, after), opts)
	}
	return g
}

// placesIn are the addresses of the newest checkpoints in the innermost graph of a thread, by the node that is
// next.
func placesIn(t *testing.T, s saver.Saver, g *pregel.Graph) map[string]pregel.Address {
	t.Helper()
	places := map[string]pregel.Address{}
	for tup, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		n := tup.Note.Next
		if len(n) == 1 && slices.Contains([]string{"a", "b", "review"}, n[0]) && places[n[0]].CheckpointID < tup.Config.CheckpointID {
			state, err := g.GetState(ctx, pregel.Address{ThreadID: "t", Namespace: tup.Config.Namespace, CheckpointID: tup.Config.CheckpointID})
			if err != nil {
				t.Fatal(err)
			}
			places[n[0]] = state.Address
		}
	}
	if len(places) != 3 {
		t.Fatalf("places %v", places)
	}
	return places
}

// A run that goes back to a checkpoint inside a graph inside goes on from there, whether or not that graph
// keeps its history across calls: what came before it does not run again. What is behind it does, and
// its questions are asked again. With LangGraph's ways the graph inside runs from its beginning.
func TestTravelInside(t *testing.T) {
	way := []string{"a", "b", "review"}
	for depth := 1; depth <= 3; depth++ {
		for _, called := range []bool{false, true} {
			for _, ended := range []bool{false, true} {
				for kind, open := range kept {
					for _, d := range allDurabilities {
						for i, to := range way {
							t.Run(fmt.Sprint("depth ", depth, "/called ", called, "/ended ", ended, "/", kind, "/", d, "/to ", to), func(t *testing.T) {
								s := open(t)
								v := &voyage{depth: depth, called: called}
								g := v.graph(t, graph.Options{Saver: s})
								at, o := pregel.Thread("t"), pregel.RunOptions{Durability: d}
								if _, err := g.Invoke(ctx, at, m{"steps": []string{"in"}, "log": []string{"in"}}); err != nil {
									t.Fatal(err)
								}
								places := placesIn(t, s, g)
								whole, err := &pregel.Result{}, error(nil)
								if ended {
									if whole, err = g.Invoke(ctx, at, pregel.Command{Resume: "yes"}); err != nil {
										t.Fatal(err)
									}
								}
								v.ran = nil
								res, err := g.Invoke(ctx, places[to], nil, o)
								if err != nil || len(res.Interrupts) != 1 || !slices.Equal(v.ran, way[i:]) {
									t.Fatalf("ran %q, want %q; %+v, %v", v.ran, way[i:], res, err)
								}
								v.ran = nil
								if _, err := g.Invoke(ctx, placesIn(t, s, g)["review"], nil, o); err != nil || !slices.Equal(v.ran, way[2:]) {
									t.Fatalf("from the branch: ran %q, %v", v.ran, err)
								}
								again, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, o)
								if err != nil || ended && fmt.Sprint(again.Value) != fmt.Sprint(whole.Value) {
									t.Fatalf("%+v, %v; without travel %+v", again, err, whole)
								}
								if n := len(again.Map()["log"].([]string)); n != len(again.Map()["steps"].([]string)) {
									t.Errorf("the delta channel has %v, the other %v", again.Map()["log"], again.Map()["steps"])
								}
							})
						}
					}
				}
			}
		}
	}
	s := memory.New(memory.Options{})
	v := &voyage{depth: 1}
	g := v.graph(t, graph.Options{Saver: s, LangGraph: true})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), m{"steps": []string{"in"}}); err != nil {
		t.Fatal(err)
	}
	to := placesIn(t, s, g)["b"]
	v.ran = nil
	if _, err := g.Invoke(ctx, to, nil); err != nil || !slices.Equal(v.ran, way) {
		t.Errorf("with LangGraph's ways: ran %q, %v", v.ran, err)
	}
}

// A run that goes back to a checkpoint inside a graph inside may stop before that graph has begun. The runs
// that go on from there still begin where it was told to, and only once.
func TestTravelInsideStopsBefore(t *testing.T) {
	way := []string{"a", "b", "review"}
	for depth := 1; depth <= 3; depth++ {
		for kind, open := range kept {
			for _, d := range allDurabilities {
				for i, to := range way {
					t.Run(fmt.Sprint("depth ", depth, "/", kind, "/", d, "/to ", to), func(t *testing.T) {
						s, at, o := open(t), pregel.Thread("t"), pregel.RunOptions{}
						v := &voyage{depth: depth, called: true, asks: true}
						g := v.graph(t, graph.Options{Saver: s})
						// goOn answers all that is asked until the innermost graph asks, or to the end.
						goOn := func(in any, where pregel.Address, questions int) {
							t.Helper()
							v.ran = nil
							res, err := g.Invoke(ctx, where, in, o)
							for range questions {
								if err != nil || len(res.Interrupts) != 1 {
									t.Fatalf("%+v, %v", res, err)
								}
								sameStatus(t, "asks", g, s, saver.StatusWaiting)
								res, err = g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, o)
							}
							if err != nil {
								t.Fatal(err)
							}
						}
						o.Durability = pregel.Sync // Exit stores no place before review
						goOn(m{"steps": []string{"in"}, "log": []string{"in"}}, at, depth)
						o.Durability = d
						goOn(nil, placesIn(t, s, g)[to], depth)
						if !slices.Equal(v.ran, way[i:]) {
							t.Fatalf("ran %q, want %q", v.ran, way[i:])
						}
						goOn(nil, placesIn(t, s, g)["review"], depth) // from the branch
						if !slices.Equal(v.ran, way[2:]) {
							t.Fatalf("from the branch: ran %q", v.ran)
						}
						goOn(pregel.Command{Resume: "yes"}, at, 0)
						if len(v.ran) != 1+depth {
							t.Errorf("after the answer: ran %q", v.ran)
						}
					})
				}
			}
		}
	}
}

// lossy lacks a checkpoint.
type lossy struct {
	saver.Saver
	lost string
}

func (s *lossy) GetTuple(ctx context.Context, at saver.Config) (*saver.Tuple, error) {
	if at.CheckpointID == s.lost && s.lost != "" {
		return nil, saver.ErrNotFound
	}
	return s.Saver.GetTuple(ctx, at)
}

// TestTravelInsideIsForgotten: where a run is told to go on inside holds until a later run travels to the same
// checkpoint without being told; and a place inside that is gone fails the run, which does not begin anew there.
func TestTravelInsideIsForgotten(t *testing.T) {
	s, at := &lossy{Saver: memory.New(memory.Options{})}, pregel.Thread("t")
	v := &voyage{depth: 1, called: true, asks: true}
	g := v.graph(t, graph.Options{Saver: s})
	yes := pregel.Command{Resume: "yes"}
	must(g.Invoke(ctx, at, m{"steps": []string{"in"}, "log": []string{"in"}}))
	must(g.Invoke(ctx, at, yes)) // the innermost graph asks
	to := placesIn(t, s, g)["b"]
	must(g.Invoke(ctx, to, nil)) // asks before the graph inside begins

	s.lost = to.CheckpointMap[to.Namespace]
	v.ran = nil
	if _, err := g.Invoke(ctx, at, yes); err == nil || len(v.ran) > 0 || s.lost == "" {
		t.Errorf("without the place inside %q: %v, ran %q", s.lost, err, v.ran)
	}
	s.lost = ""

	fork := must(g.GetState(ctx, at)).Address.CheckpointID
	must(g.Invoke(ctx, pregel.Address{ThreadID: "t", CheckpointID: fork}, nil))
	v.ran = nil
	if _, err := g.Invoke(ctx, at, yes); err != nil || !slices.Equal(v.ran, []string{"a", "b", "review"}) {
		t.Errorf("after travel that named no place inside: ran %q, %v", v.ran, err)
	}
}

// TestTravelInsideBehindAnotherClock: a process whose clock is behind that of the one that was told where to go on
// inside still knows when the graph inside has begun.
func TestTravelInsideBehindAnotherClock(t *testing.T) {
	s, at, yes := memory.New(memory.Options{}), pregel.Thread("t"), pregel.Command{Resume: "yes"}
	v := &voyage{depth: 1, called: true, asks: true}
	here := v.graph(t, graph.Options{Saver: s})
	ticks := time.Now().Add(time.Hour).UnixNano()
	clock := func() time.Time { ticks += int64(time.Second); return time.Unix(0, ticks) }
	ahead := v.graph(t, graph.Options{Saver: s, Env: pregel.Environment{IDs: pregel.NewIDSource(clock, nil)}})
	must(here.Invoke(ctx, at, m{"steps": []string{"in"}, "log": []string{"in"}}))
	must(here.Invoke(ctx, at, yes))
	must(ahead.Invoke(ctx, placesIn(t, s, here)["b"], nil)) // the node asks before the graph inside begins
	must(here.Invoke(ctx, at, yes))
	v.ran = nil
	if _, err := here.Invoke(ctx, at, nil); err != nil || !slices.Equal(v.ran, []string{"review"}) {
		t.Errorf("ran %q again, %v", v.ran, err)
	}
}
