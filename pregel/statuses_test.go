package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// sameStatus checks that the snapshot and the list of threads tell want of a thread.
func sameStatus(t *testing.T, when string, g *pregel.Graph, s saver.Saver, want saver.Status) {
	t.Helper()
	state, err := g.GetState(ctx, pregel.Thread("t"))
	if err != nil || state.Status != want {
		t.Errorf("%s: the snapshot says %+v, %v; want %q", when, state, err, want)
	}
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil || info.Status != want {
			t.Errorf("%s: the list says %+v, %v; want %q", when, info, err, want)
		}
	}
}

// askAll is a node that asks one question after another.
func askAll(c context.Context, questions ...string) (any, error) {
	for _, q := range questions {
		if _, err := pregel.Ask(c, q); err != nil {
			return nil, err
		}
	}
	return map[string]any{"out": []string{"answered"}}, nil
}

// ending is one way in which a thread comes to stand where it does.
type ending struct {
	graph func(t *testing.T, s saver.Saver) *pregel.Graph
	run   func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions)
	want  saver.Status
	// The status after another run with nil; "" makes none.
	then saver.Status
}

func endings() map[string]ending {
	state := func(name string, o graph.Options, f pregel.Func, opts ...graph.NodeOptions) func(t *testing.T, s saver.Saver) *pregel.Graph {
		return func(t *testing.T, s saver.Saver) *pregel.Graph {
			t.Helper()
			b := graph.New(graph.Key("out", channel.Fold(nil, func(v []string, w []string) ([]string, error) {
				if len(w) > 0 && w[0] == "refused" {
					return nil, errBoom
				}
				return append(v, w...), nil
			})))
			if s != nil {
				o.Saver, o.Name = s, "g"
			}
			g, err := b.Node(name, f, opts...).Node("last", func(context.Context, any) (any, error) { return nil, nil }).
				Sequence(graph.Start, name, "last").Compile(o)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
	}
	around := func(inner func(*testing.T, saver.Saver) *pregel.Graph) func(t *testing.T, s saver.Saver) *pregel.Graph {
		return func(t *testing.T, s saver.Saver) *pregel.Graph {
			t.Helper()
			g, err := graph.New(graph.Key("out", channel.Reduce(channel.Append[string]))).Subgraph("sub", inner(t, nil)).
				Node("beside", func(context.Context, any) (any, error) { return nil, nil }).
				Edge(graph.Start, "sub").Edge(graph.Start, "beside").Compile(graph.Options{Name: "g", Saver: s})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
	}
	invoke := func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions, input any) {
		t.Helper()
		_, err := g.Invoke(ctx, at, input, cfg)
		if err != nil && !errors.Is(err, errBoom) && !errors.As(err, new(*channel.UpdateError)) && !errors.As(err, new(*pregel.AnswerError)) {
			t.Error(err)
		}
	}
	once := func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
		t.Helper()
		invoke(t, g, at, cfg, map[string]any{"out": []string{"in"}})
	}
	fine := func(context.Context, any) (any, error) { return map[string]any{"out": []string{"fine"}}, nil }
	broken := pregel.NewTask("broken", func(context.Context, int) (int, error) { return 0, errBoom })
	calls := func(handles bool, then func(context.Context) error) pregel.Func {
		return func(c context.Context, _ any) (any, error) {
			if _, err := broken.Call(c, 1); !handles {
				return nil, err
			}
			return nil, then(c)
		}
	}
	number := func(c context.Context, _ any) (any, error) {
		_, err := pregel.AskFor[int](c, "how many?")
		return nil, err
	}
	misanswered := func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
		t.Helper()
		once(t, g, at, cfg)
		for range 2 {
			invoke(t, g, at, cfg, pregel.Command{Resume: "a word"})
		}
	}
	beside := func(t *testing.T, s saver.Saver) *pregel.Graph {
		t.Helper()
		o := graph.Options{}
		if s != nil {
			o.Saver, o.Name = s, "g"
		}
		return compiled(t, graph.New(steps(), graph.Key("out", channel.Reduce(channel.Append[string]))).
			Node("ask", func(c context.Context, _ any) (any, error) { return pregel.Ask(c, "first?") }).
			Node("fail", func(c context.Context, _ any) (any, error) {
				if _, err := pregel.Ask(c, "second?"); err != nil {
					return nil, err
				}
				return nil, errBoom
			}).Edge(graph.Start, "ask").Edge(graph.Start, "fail"), o)
	}
	second := func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
		t.Helper()
		once(t, g, at, cfg)
		st, err := g.GetState(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range st.Interrupts {
			if in.Value == "second?" {
				invoke(t, g, at, cfg, pregel.Command{Resume: map[string]any{in.ID: "B"}})
			}
		}
	}
	inside := state("a", graph.Options{InterruptBefore: []string{"last"}}, fine)
	twice := 0
	var leave func()
	return map[string]ending{
		"breakpoint inside":      {graph: around(inside), run: once, want: saver.StatusWaiting, then: saver.StatusDone},
		"breakpoint deep inside": {graph: around(around(inside)), run: once, want: saver.StatusWaiting, then: saver.StatusDone},
		"question inside":        {graph: around(state("a", graph.Options{}, func(c context.Context, _ any) (any, error) { return askAll(c, "?") })), run: once, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"failure inside":         {graph: around(state("a", graph.Options{}, fails(errBoom))), run: once, want: saver.StatusFailed, then: saver.StatusFailed},
		"refused writes":         {graph: state("a", graph.Options{}, returns(map[string]any{"out": []string{"refused"}})), run: once, want: saver.StatusFailed, then: saver.StatusFailed},
		"refused writes inside":  {graph: around(state("a", graph.Options{}, returns(map[string]any{"out": []string{"refused"}}))), run: once, want: saver.StatusFailed, then: saver.StatusFailed},
		"refused input": {graph: state("a", graph.Options{}, fine), want: saver.StatusFailed, then: saver.StatusFailed, run: func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
			invoke(t, g, at, cfg, map[string]any{"out": []string{"refused"}})
		}},
		"a call failed":           {graph: state("a", graph.Options{}, calls(false, nil)), run: once, want: saver.StatusFailed, then: saver.StatusFailed},
		"a call failed, handled":  {graph: state("a", graph.Options{}, calls(true, func(context.Context) error { return nil })), run: once, want: saver.StatusDone},
		"a call failed, it asked": {graph: state("a", graph.Options{}, calls(true, func(c context.Context) error { _, err := pregel.Ask(c, "?"); return err })), run: once, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"a call failed, then the caller went away": {graph: state("a", graph.Options{}, calls(true, func(c context.Context) error { <-c.Done(); return c.Err() })), want: saver.StatusUnfinished,
			run: func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
				t.Helper()
				life, end := context.WithCancel(ctx)
				defer end()
				for e, err := range g.Stream(life, at, map[string]any{"out": []string{"in"}}, withModes(cfg, pregel.ModeTasks)) {
					if end(); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(e, err)
					}
				}
			}},
		"on from a breakpoint inside": {
			graph: around(func(t *testing.T, _ saver.Saver) *pregel.Graph {
				t.Helper()
				return compiled(t, graph.New(steps(), graph.Key("out", channel.Reduce(channel.Append[string]))).Node("a", fine).
					Node("last", func(c context.Context, _ any) (any, error) { leave(); return nil, context.Cause(c) }).
					Sequence(graph.Start, "a", "last"), graph.Options{InterruptBefore: []string{"a"}})
			}),
			run: func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
				t.Helper()
				var life context.Context
				life, leave = context.WithCancel(ctx)
				once(t, g, at, cfg)
				if _, err := g.Invoke(life, at, nil, cfg); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}, want: saver.StatusUnfinished, then: saver.StatusDone,
		},
		"an answer nobody took": {
			// The second run fails with the answer in hand, the third asks something else.
			graph: state("a", graph.Options{}, func(c context.Context, _ any) (any, error) {
				switch twice++; twice % 4 {
				case 1:
					return askAll(c, "first?")
				case 2:
					return nil, errBoom
				}
				_, _ = pregel.Ask(c, "first?")
				return askAll(c, "second?")
			}),
			run: func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
				t.Helper()
				twice = 0
				once(t, g, at, cfg)
				invoke(t, g, at, cfg, pregel.Command{Resume: "A"})
				invoke(t, g, at, cfg, nil)
			}, want: saver.StatusWaiting, then: saver.StatusWaiting,
		},
		"a refused answer": {graph: state("a", graph.Options{}, number), run: misanswered, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"a refused answer of another thread": {graph: func(t *testing.T, s saver.Saver) *pregel.Graph {
			desk, at := state("ask", graph.Options{}, number)(t, memory.New(memory.Options{})), pregel.Thread("desk")
			return state("a", graph.Options{}, func(c context.Context, _ any) (any, error) {
				if _, err := desk.Invoke(c, at, map[string]any{"out": []string{"x"}}, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}); err != nil {
					return nil, err
				}
				_, err := desk.Invoke(c, at, pregel.Command{Resume: "a word"})
				return nil, err
			})(t, s)
		}, run: once, want: saver.StatusFailed, then: saver.StatusFailed},
		"a refused answer inside":                            {graph: around(state("a", graph.Options{}, number)), run: misanswered, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"failed after the answer, beside a question":         {graph: beside, run: second, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"failed after the answer, beside a question, inside": {graph: around(beside), run: second, want: saver.StatusWaiting, then: saver.StatusWaiting},
		"failed after the answer": {
			graph: state("a", graph.Options{}, func(c context.Context, _ any) (any, error) {
				if _, err := pregel.Ask(c, "?"); err != nil {
					return nil, err
				}
				return nil, errBoom
			}),
			run: func(t *testing.T, g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) {
				t.Helper()
				once(t, g, at, cfg)
				invoke(t, g, at, cfg, pregel.Command{Resume: "A"})
			}, want: saver.StatusFailed, then: saver.StatusFailed,
		},
	}
}

// The list of threads, which knows no graph, tells of every ending what the snapshot
// tells, after the run and after the store was opened again.
func TestListAndSnapshotAgree(t *testing.T) {
	for _, d := range allDurabilities {
		for name, e := range endings() {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				dir, at, cfg := t.TempDir(), pregel.Thread("t"), pregel.RunOptions{Durability: d}
				onDisk(t, dir, func(s saver.Saver) {
					g := e.graph(t, s)
					e.run(t, g, at, cfg)
					sameStatus(t, "after the run", g, s, e.want)
				})
				onDisk(t, dir, func(s saver.Saver) {
					g := e.graph(t, s)
					sameStatus(t, "opened again", g, s, e.want)
					if e.then == "" {
						return
					}
					_, _ = g.Invoke(ctx, at, nil, cfg)
					sameStatus(t, "after a run with nil", g, s, e.then)
				})
			})
		}
	}
}
