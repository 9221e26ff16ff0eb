package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// wantAsked checks that a run ended with one question, and returns its id.
func wantAsked(t *testing.T, res *pregel.Result, err error, question string) string {
	t.Helper()
	if err != nil || len(res.Interrupts) != 1 || res.Interrupts[0].Value != question {
		t.Fatalf("%+v, %v; want the question %q", res, err, question)
	}
	return res.Interrupts[0].ID
}

// An answer is for a question that waits in what is stored. A node that failed
// before it asked has shown none, and the answer that comes next is refused: it
// would be taken by a question that nobody saw.
func TestAnswerNobodyAskedFor(t *testing.T) {
	for _, d := range allDurabilities {
		for _, way := range []string{"", "LangGraph"} {
			t.Run(fmt.Sprint(d, "/", way), func(t *testing.T) {
				failing := true
				s := watch(nil)
				g := fan(t, pregel.Options{Saver: s, LangGraph: way == "LangGraph"}, node("send", func(ctx context.Context, _ any) (any, error) {
					if failing {
						return nil, errBoom
					}
					return pregel.Ask(ctx, "send it?")
				}))
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				if _, err := g.Invoke(ctx, at, 1, cfg); !errors.Is(err, errBoom) {
					t.Fatal(err)
				}
				failing = false
				before := len(s.acked(""))
				res, err := g.Invoke(ctx, at, pregel.Command{Resume: true}, cfg)
				if way != "" {
					wantOut(t, res, err, true)
					return
				}
				wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
				_, err = g.Invoke(ctx, at, pregel.Command{Resume: true, Update: map[string]any{"in": 2}, Goto: "send"}, cfg)
				wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
				if after := len(s.acked("")); after != before {
					t.Errorf("refused answers made %d saves", after-before)
				}
				res, err = g.Invoke(ctx, at, nil, cfg)
				wantAsked(t, res, err, "send it?")
				res, err = g.Invoke(ctx, at, pregel.Command{Resume: true}, cfg)
				wantOut(t, res, err, true)
			})
		}
	}
}

// A question has one answer. The same once more is no error, as whoever sent it may not know that it
// arrived; another one is refused, also beside one that is waited for, and nothing runs.
func TestAnotherAnswer(t *testing.T) {
	for _, way := range []string{"", "LangGraph"} {
		t.Run(way, func(t *testing.T) {
			var asked atomic.Int32
			ask := func(ctx context.Context, _ any) (any, error) {
				asked.Add(1)
				return pregel.Ask(ctx, "send it?")
			}
			s := watch(nil)
			g := fan(t, pregel.Options{Saver: s, LangGraph: way == "LangGraph"}, node("one", ask), node("two", ask))
			at := pregel.Thread("t")
			res, err := g.Invoke(ctx, at, 1)
			if err != nil || len(res.Interrupts) != 2 {
				t.Fatal(res, err)
			}
			one, two := res.Interrupts[0].ID, res.Interrupts[1].ID
			answer := func(resume map[string]any) (*pregel.Result, error) {
				return g.Invoke(ctx, at, pregel.Command{Resume: resume})
			}
			if res, err = answer(map[string]any{one: "yes"}); err != nil || len(res.Interrupts) != 1 {
				t.Fatal(res, err)
			}
			ran, saves := asked.Load(), len(s.acked(""))
			for _, other := range []map[string]any{{one: "no"}, {one: "no", two: "yes"}} {
				if way != "" {
					break
				}
				_, err = answer(other)
				wantNamed(t, err, pregel.ErrNoInterrupt, one)
			}
			if asked.Load() != ran || len(s.acked("")) != saves {
				t.Error("an answer that is refused ran something, or stored something")
			}
			if _, err = answer(map[string]any{one: "yes", two: "yes"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// An answer passes a breakpoint, as nil does, and is given to nobody: not to a
// question of the node behind it either, now or later.
func TestAnswerToABreakpoint(t *testing.T) {
	for _, d := range allDurabilities {
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), InterruptBefore: []string{"send"}},
			node("send", func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "send it?") }))
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if res, err := g.Invoke(ctx, at, 1, cfg); err != nil || len(res.Interrupts) != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		res, err := g.Invoke(ctx, at, pregel.Command{Resume: true}, cfg)
		wantAsked(t, res, err, "send it?")
		res, err = g.Invoke(ctx, at, nil, cfg)
		wantAsked(t, res, err, "send it?")
		res, err = g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, cfg)
		wantOut(t, res, err, "yes")
	}
}

// Of two tasks the one whose question was stored gets the answer, not the one that
// asks first; and an answer that nobody took is not kept for the next question.
func TestAnswerReachesItsQuestion(t *testing.T) {
	for _, d := range allDurabilities {
		round := 0
		asked := make(chan struct{})
		first := sync.OnceFunc(func() { close(asked) })
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})},
			node("left", func(ctx context.Context, _ any) (any, error) {
				if round == 1 {
					<-asked // right comes first
				}
				return pregel.Ask(ctx, "left?")
			}),
			node("right", func(ctx context.Context, _ any) (any, error) {
				if round == 0 {
					return nil, errBoom
				}
				v, err := pregel.Ask(ctx, "right?")
				first()
				return v, err
			}))
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if _, err := g.Invoke(ctx, at, 1, cfg); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		state, err := g.GetState(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(state.Tasks, func(task pregel.TaskState) bool { return len(task.Interrupts) > 0 }) {
			t.Fatalf("left does not wait: %+v", state.Tasks)
		}
		round = 1
		res, err := g.Invoke(ctx, at, pregel.Command{Resume: "L"}, cfg)
		wantAsked(t, res, err, "right?")
		res, err = g.Invoke(ctx, at, pregel.Command{Resume: "R"}, cfg)
		wantOut(t, res, err, "L", "R")
	}
}

// interview asks two questions and fails in between as long as broken is set.
func interview(broken *atomic.Bool) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		a, err := pregel.Ask(ctx, "first?")
		if err != nil {
			return nil, err
		}
		if broken.Load() {
			return nil, errBoom
		}
		b, err := pregel.Ask(ctx, "second?")
		return fmt.Sprint(a, b), err
	}
}

// A task that failed after it was answered asks nothing until it has run again.
// The answer it has may be given again, by value or by id, by a caller who was not
// told that it arrived: it is given to nobody, and the run goes on.
func TestAnswerGivenAgain(t *testing.T) {
	for _, d := range allDurabilities {
		for _, byID := range []bool{false, true} {
			t.Run(fmt.Sprint(d, "/", byID), func(t *testing.T) {
				var broken atomic.Bool
				broken.Store(true)
				g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("ask", interview(&broken)))
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				res, err := g.Invoke(ctx, at, 1, cfg)
				first := wantAsked(t, res, err, "first?")
				answer := pregel.Command{Resume: "A"}
				if byID {
					answer.Resume = map[string]any{first: "A"}
				}
				if _, err := g.Invoke(ctx, at, answer, cfg); !errors.Is(err, errBoom) {
					t.Fatal(err)
				}
				broken.Store(false)
				_, err = g.Invoke(ctx, at, pregel.Command{Resume: "B"}, cfg)
				wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
				_, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{strings.Repeat("0", 32): "B"}}, cfg)
				wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
				if d != pregel.Exit || byID { // Exit does not store an answer that was taken
					res, err = g.Invoke(ctx, at, answer, cfg)
				} else {
					res, err = g.Invoke(ctx, at, nil, cfg)
				}
				second := wantAsked(t, res, err, "second?")
				if byID { // the answer to the first is none to the second
					res, err = g.Invoke(ctx, at, answer, cfg)
					wantAsked(t, res, err, "second?")
				}
				res, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{second: "B"}}, cfg)
				wantOut(t, res, err, "AB")
			})
		}
	}
}

// The process may die at any save after an answer was given. Whoever gives the
// answer again, or gets ErrNoInterrupt and goes on with nil, ends with the state
// of a run that never died, and the answer was given to one question only.
func TestAnswerAcrossDeath(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for death := 0; ; death++ {
			m := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
			var whole atomic.Bool
			g := fan(t, pregel.Options{Saver: m}, node("ask", interview(&whole)))
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			res, err := g.Invoke(ctx, at, 1, cfg)
			first := wantAsked(t, res, err, "first?")
			m.left = death
			res, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{first: "A"}}, cfg)
			died := err != nil
			if m.left = -1; died {
				if !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				res, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{first: "A"}}, cfg)
			}
			second := wantAsked(t, res, err, "second?")
			m.left = death
			again := pregel.Command{Resume: map[string]any{second: "B"}}
			res, err = g.Invoke(ctx, at, again, cfg)
			if m.left = -1; err != nil {
				if !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				died = true
				if res, err = g.Invoke(ctx, at, again, cfg); errors.Is(err, pregel.ErrNoInterrupt) {
					res, err = g.Invoke(ctx, at, nil, cfg)
				}
			}
			wantOut(t, res, err, "AB")
			if !died {
				break
			}
		}
	}
}

// A question inside another graph gets its answer, whether the graph keeps
// checkpoints or not; one that is asked instead does not.
func TestAnswerToAQuestionInside(t *testing.T) {
	for _, keeps := range []pregel.Checkpointing{pregel.Inherit, pregel.Off} {
		for _, d := range allDurabilities {
			t.Run(fmt.Sprint(keeps, "/", d), func(t *testing.T) {
				var broken atomic.Bool
				broken.Store(true)
				steps := graph.Key("steps", channel.Reduce(channel.Append[any]))
				inner, err := graph.New(steps).Node("ask", func(ctx context.Context, v any) (any, error) {
					out, err := interview(&broken)(ctx, v)
					return map[string]any{"steps": []any{out}}, err
				}).Edge(graph.Start, "ask").Compile(graph.Options{Checkpointing: keeps})
				if err != nil {
					t.Fatal(err)
				}
				outer, err := graph.New(steps).Subgraph("sub", inner).Edge(graph.Start, "sub").Compile(graph.Options{Saver: memory.New(memory.Options{})})
				if err != nil {
					t.Fatal(err)
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				res, err := outer.Invoke(ctx, at, map[string]any{"steps": []any{}}, cfg)
				wantAsked(t, res, err, "first?")
				if _, err := outer.Invoke(ctx, at, pregel.Command{Resume: "A"}, cfg); !errors.Is(err, errBoom) {
					t.Fatal(err)
				}
				broken.Store(false)
				// What a task around stored does not tell that the question inside was answered; the record of answers does.
				_, err = outer.Invoke(ctx, at, pregel.Command{Resume: "B"}, cfg)
				wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
				res, err = outer.Invoke(ctx, at, nil, cfg)
				switch { // nothing is stored inside: it begins anew
				case keeps == pregel.Off && d == pregel.Exit: // which does not keep an answer without an id that was taken
					wantAsked(t, res, err, "first?")
					return
				case keeps == pregel.Off:
					wantAsked(t, res, err, "second?")
					return
				}
				wantAsked(t, res, err, "second?")
				res, err = outer.Invoke(ctx, at, nil, cfg) // "B" is not kept for it
				wantAsked(t, res, err, "second?")
				res, err = outer.Invoke(ctx, at, pregel.Command{Resume: "C"}, cfg)
				if err != nil || fmt.Sprint(res.Map()["steps"]) != "[AC]" {
					t.Errorf("%v, %v", res, err)
				}
			})
		}
	}
}

// After an update of a graph inside its question is another one: it is asked before it is
// answered. LangGraph gives it the answer of the question that waited.
func TestAnswerAfterAnUpdateInside(t *testing.T) {
	for _, way := range []string{"", "LangGraph"} {
		t.Run(way, func(t *testing.T) {
			said := func() *graph.Builder { return graph.New(graph.Key("said", channel.LastValue[string]())) }
			in := said()
			in.Node("ask", func(ctx context.Context, s any) (any, error) {
				answer, err := pregel.Ask(ctx, fmt.Sprintf("send %q?", s.(map[string]any)["said"]))
				return map[string]any{"said": answer}, err
			}).Edge(graph.Start, "ask")
			inside, err := in.Compile(graph.Options{Name: "inside"})
			if err != nil {
				t.Fatal(err)
			}
			out := said()
			out.Subgraph("inside", inside).Edge(graph.Start, "inside")
			g, err := out.Compile(graph.Options{Saver: memory.New(memory.Options{}), LangGraph: way != ""})
			if err != nil {
				t.Fatal(err)
			}
			at := pregel.Thread("t")
			res, err := g.Invoke(ctx, at, map[string]any{"said": "one"})
			first := wantAsked(t, res, err, `send "one"?`)
			state, err := g.GetState(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			below := at
			below.Namespace = "inside:" + state.Tasks[0].ID
			changed, err := g.UpdateState(ctx, below, pregel.StateUpdate{Values: map[string]any{"said": "two"}, AsNode: graph.Start})
			if err != nil || changed.CheckpointMap[""] != state.Address.CheckpointID || changed.CheckpointMap[below.Namespace] != changed.CheckpointID {
				t.Fatalf("%+v, %v", changed, err)
			}
			res, err = g.Invoke(ctx, at, pregel.Command{Resume: "sent"})
			if way == "" {
				if again := wantAsked(t, res, err, `send "two"?`); again == first {
					t.Error("the other question has the id of the first")
				}
				res, err = g.Invoke(ctx, at, pregel.Command{Resume: "sent"})
			}
			if err != nil || len(res.Interrupts) != 0 || res.Map()["said"] != "sent" {
				t.Fatalf("%+v, %v", res, err)
			}
		})
	}
}

// An Address that names a checkpoint that is not there is an error, before anything
// is stored or run, for every kind of input and for state updates.
func TestUnknownCheckpoint(t *testing.T) {
	for _, lax := range []bool{false, true} {
		ran := false
		s := watch(nil)
		g := fan(t, pregel.Options{Saver: s, LangGraph: lax}, node("a", func(_ context.Context, v any) (any, error) {
			ran = true
			return v, nil
		}))
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
			t.Fatal(err)
		}
		before, id := len(s.acked("")), "1f0f5200-24f1-6382-8000-bde4e02ab92b"
		at, cfg := pregel.Thread("t").At(id), pregel.RunOptions{}
		if lax {
			if _, err := g.Invoke(ctx, at, 2, cfg); err != nil {
				t.Error(err)
			}
			continue
		}
		ran = false
		for _, d := range allDurabilities {
			cfg.Durability = d
			for _, input := range []any{2, nil, pregel.Command{Resume: 3}} {
				_, err := g.Invoke(ctx, at, input, cfg)
				wantNamed(t, err, saver.ErrNotFound, `"t"`, id)
			}
		}
		_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: 4, AsNode: "a"})
		wantNamed(t, err, saver.ErrNotFound, `"t"`, id)
		if after := len(s.acked("")); after != before || ran {
			t.Errorf("%d saves, a node ran: %v", after-before, ran)
		}
	}
}

// TestAnotherAnswerInside: the same holds however deep the graph lies that asked, and whether the task
// around it goes on, waits for its other question, or has ended.
func TestAnotherAnswerInside(t *testing.T) {
	for depth := range 4 {
		for _, together := range []bool{false, true} {
			for _, way := range []string{"", "LangGraph"} {
				for _, d := range allDurabilities {
					t.Run(fmt.Sprint(depth, together, way, d), func(t *testing.T) {
						var ran atomic.Int32
						ask := func(ctx context.Context, _ any) (any, error) {
							v, err := pregel.Ask(ctx, "send it?")
							if err == nil {
								ran.Add(1)
							}
							return v, err
						}
						s := watch(nil)
						opts := pregel.Options{Saver: s, LangGraph: way == "LangGraph"}
						inside := func(name string, nodes ...*pregel.NodeBuilder) *pregel.NodeBuilder {
							sub := fan(t, pregel.Options{LangGraph: opts.LangGraph}, nodes...)
							return node(name, func(ctx context.Context, in any) (any, error) {
								res, err := sub.Invoke(ctx, pregel.Inside(), in)
								if err != nil {
									return nil, err
								}
								return res.Value, nil
							}).Subgraphs(sub)
						}
						var g *pregel.Graph
						one, two := node("one", ask), node("two", ask)
						if together {
							nodes := []*pregel.NodeBuilder{one, two}
							for range depth {
								nodes = []*pregel.NodeBuilder{inside("in", nodes...)}
							}
							g = fan(t, opts, nodes...)
						} else {
							for range depth {
								one, two = inside("one", one), inside("two", two)
							}
							g = fan(t, opts, one, two)
						}
						at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
						res, err := g.Invoke(ctx, at, 1, cfg)
						if err != nil || len(res.Interrupts) != 2 {
							t.Fatal(res, err)
						}
						first, second := res.Interrupts[0].ID, res.Interrupts[1].ID
						answer := func(resume map[string]any) (*pregel.Result, error) {
							return g.Invoke(ctx, at, pregel.Command{Resume: resume}, cfg)
						}
						if res, err = answer(map[string]any{first: "yes"}); err != nil || len(res.Interrupts) != 1 {
							t.Fatal(res, err)
						}
						before, saves := ran.Load(), len(s.acked(""))
						for _, other := range []map[string]any{{first: "no"}, {first: "no", second: "yes"}} {
							if way != "" {
								break
							}
							_, err = answer(other)
							wantNamed(t, err, pregel.ErrNoInterrupt, first)
						}
						if ran.Load() != before || len(s.acked("")) != saves {
							t.Error("an answer that is refused ran something, or stored something")
						}
						again := map[string]any{first: "yes", second: "yes"}
						if depth > 0 && !together && d == pregel.Exit {
							delete(again, first) // the answer is not stored, so this may be another one
						}
						if res, err = answer(again); err != nil || len(res.Interrupts) != 0 {
							t.Error(res, err)
						}
					})
				}
			}
		}
	}
}

// TestAnotherAnswerAfterAFailure: a question whose task failed after it was answered does not wait, however
// deep the graph lies that asked: another answer would not be heard. Without a durability LangGraph stored the
// failure, which keeps no record of answers in force.
func TestAnotherAnswerAfterAFailure(t *testing.T) {
	for depth := range 4 {
		for _, before := range []int{0, 1, 2} { // questions that were answered before; 2: and the last by a function
			function := before == 2
			for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, ""} {
				t.Run(fmt.Sprint(depth, before, d), func(t *testing.T) {
					ask, before := pregel.Ask, min(before, 1)
					if function {
						asks := pregel.NewTask("asks", func(ctx context.Context, q string) (any, error) { return pregel.Ask(ctx, q) })
						ask = func(ctx context.Context, q any, _ ...pregel.AskOptions) (any, error) {
							return asks.Call(ctx, q.(string))
						}
					}
					fails := true
					heard := ""
					build := func(o pregel.Options) *pregel.Graph {
						n := node("ask", func(ctx context.Context, _ any) (any, error) {
							for range before {
								if _, err := pregel.Ask(ctx, "sure?"); err != nil {
									return nil, err
								}
							}
							v, err := ask(ctx, "send it?")
							if err != nil {
								return nil, err
							}
							heard = fmt.Sprint(v)
							if fails {
								return nil, errBoom
							}
							return v, nil
						})
						for range depth {
							sub := fan(t, pregel.Options{}, n)
							n = node("ask", func(ctx context.Context, in any) (any, error) {
								res, err := sub.Invoke(ctx, pregel.Inside(), in)
								if err != nil {
									return nil, err
								}
								return res.Value, nil
							}).Subgraphs(sub)
						}
						return fan(t, o, n)
					}
					o := pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: d == ""}
					g := build(o)
					at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
					res, err := g.Invoke(ctx, at, 1, cfg)
					for range before {
						wantAsked(t, res, err, "sure?")
						res, err = g.Invoke(ctx, at, pregel.Command{Resume: "sure"}, cfg)
					}
					id := wantAsked(t, res, err, "send it?")
					if _, err = g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, cfg); !errors.Is(err, errBoom) {
						t.Fatal(err)
					}
					o.LangGraph = false
					g = build(o)
					for _, no := range []any{"no", map[string]any{id: "no"}} {
						_, err = g.Invoke(ctx, at, pregel.Command{Resume: no}, cfg)
						wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
					}
					for _, yes := range []any{"yes", map[string]any{id: "yes"}} {
						if _, err = g.Invoke(ctx, at, pregel.Command{Resume: yes}, cfg); !errors.Is(err, errBoom) {
							t.Errorf("the same answer: %v", err)
						}
					}
					fails = false
					if _, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{id: "yes"}}, cfg); err != nil || heard != "yes" {
						t.Errorf("%v, heard %q", err, heard)
					}
				})
			}
		}
	}
}

// TestAnswerOfAFunctionInside: a question that a function asked which a task of a graph inside called is known by
// the answer that the function got, and not by one that the task got before; also if LangGraph stored them, which
// keeps no record of answers in force.
func TestAnswerOfAFunctionInside(t *testing.T) {
	asks := pregel.NewTask("asks", func(ctx context.Context, q string) (any, error) { return pregel.Ask(ctx, q) })
	sub := fan(t, pregel.Options{}, node("a", func(ctx context.Context, _ any) (any, error) {
		if _, err := pregel.Ask(ctx, "sure?"); err != nil {
			return nil, err
		}
		return asks.Call(ctx, "send it?")
	}))
	around := func(ctx context.Context, in any) (any, error) {
		if _, err := sub.Invoke(ctx, pregel.Inside(), in); err != nil {
			return nil, err
		}
		return nil, errBoom
	}
	for round := range 20 { // maps have no order
		o := pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: round%2 == 0}
		build := func() *pregel.Graph { return fan(t, o, node("around", around).Subgraphs(sub)) }
		g, at := build(), pregel.Thread("t")
		res, err := g.Invoke(ctx, at, 1)
		wantAsked(t, res, err, "sure?")
		res, err = g.Invoke(ctx, at, pregel.Command{Resume: "sure"})
		id := wantAsked(t, res, err, "send it?")
		for range 2 {
			if _, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{id: "yes"}}); !errors.Is(err, errBoom) {
				t.Fatalf("the same answer: %v", err)
			}
			o.LangGraph = false
			g = build()
		}
		if _, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{id: "sure"}}); !errors.Is(err, pregel.ErrNoInterrupt) {
			t.Fatalf("another answer: %v", err)
		}
	}
}

// counting counts the checkpoints that lists read.
type counting struct {
	saver.Saver
	read int
}

func (s *counting) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		for tup, err := range s.Saver.List(ctx, q) {
			if s.read++; !yield(tup, err) {
				return
			}
		}
	}
}

// TestAnswerReadsLittle: to judge an answer, also one that is a map or of an unknown question, reads no more of a
// long thread than its newest superstep.
func TestAnswerReadsLittle(t *testing.T) {
	s := &counting{Saver: memory.New(memory.Options{})}
	g := fan(t, pregel.Options{Saver: s}, node("a", func(ctx context.Context, in any) (any, error) {
		if in != "ask" {
			return in, nil
		}
		return pregel.Ask(ctx, "sure?")
	}))
	at := pregel.Thread("t")
	for range 50 {
		must(g.Invoke(ctx, at, "go on"))
	}
	must(g.Invoke(ctx, at, "ask"))
	s.read = 0
	if _, err := g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{"00000000000000000000000000000000": 1}}); err == nil || s.read > 3 {
		t.Errorf("an unknown question: %v, %d checkpoints were read", err, s.read)
	}
	s.read = 0
	if _, err := g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{"decisions": []any{"yes"}}}); err != nil || s.read > 0 {
		t.Errorf("an answer that is a map: %v, %d checkpoints were read", err, s.read)
	}
}

// TestAnswerThatNobodyTakes: an answer to a question that is not asked again goes to no other one, in that run or the
// next.
func TestAnswerThatNobodyTakes(t *testing.T) {
	for _, d := range allDurabilities {
		t.Run(string(d), func(t *testing.T) {
			changed := false // then the question is that of the second graph inside, not of the first
			asks := fan(t, pregel.Options{}, node("ask", func(ctx context.Context, q any) (any, error) { return pregel.Ask(ctx, q) }))
			quiet := fan(t, pregel.Options{}, node("ask", returns("quiet")))
			g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("n", func(ctx context.Context, _ any) (any, error) {
				question := "first?"
				if changed {
					question = "second?"
					if _, err := quiet.Invoke(ctx, pregel.Inside(), 1); err != nil {
						return nil, err
					}
				}
				res, err := asks.Invoke(ctx, pregel.Inside(), question)
				if err != nil {
					return nil, err
				}
				return res.Value, nil
			}).Subgraphs(asks, quiet))
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			res, err := g.Invoke(ctx, at, 1, cfg)
			wantAsked(t, res, err, "first?")
			changed = true
			for _, in := range []any{pregel.Command{Resume: "A"}, nil, nil} {
				res, err = g.Invoke(ctx, at, in, cfg)
				wantAsked(t, res, err, "second?")
			}
			res, err = g.Invoke(ctx, at, pregel.Command{Resume: "B"}, cfg)
			if err != nil || fmt.Sprint(res.Value) != "[[B]]" {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
}
