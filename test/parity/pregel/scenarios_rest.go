package traces

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

func init() {
	for name, f := range map[string]func(*trace){
		"delta_mixed_durability": deltaMixedDurability, "delta_bound": deltaBound, "child_with_saver": childWithSaver,
		"travel_after_the_end": travelAfterTheEnd, "three_levels_replayed": threeLevelsReplayed, "fork_drops_writes": forkDropsWrites,
		"functional_cache": functionalCache, "functional_kept_calls": functionalKeptCalls,
	} {
		scenarios[name] = f
	}
}

func deltaMixedDurability(tr *trace) {
	g := deltaGraph(tr, 100)
	live := tr.durability // Sync or Async
	for i, exit := range []bool{false, true, false, true, true, false} {
		if tr.durability = live; exit {
			tr.durability = pregel.Exit
		}
		tr.run(g, m{"items": []string{fmt.Sprint("in", i)}, "n": 0})
		tr.state(g, false)
	}
	tr.history(g)
}

func deltaBound(tr *trace) {
	b := newProgram(graph.Key("left", deltaItems(100000)), graph.Key("right", deltaItems(100000)), graph.Key("n", channel.LastValue[int]()))
	b.Node("loop", func(_ context.Context, s any) (any, error) { return m{"n": s.(m)["n"].(int) + 1}, nil })
	b.Edge(graph.Start, "loop").Conditional("loop", "again", func(_ context.Context, s any) (any, error) {
		if s.(m)["n"].(int) < 2497 {
			return "loop", nil
		}
		return graph.End, nil
	}, "loop", graph.End)
	g := tr.saved(b)
	list := func(word string) []string { return []string{word} }
	tr.runModes(g, pregel.Pairs{{Key: "left", Value: list("l")}, {Key: "right", Value: list("r")}, {Key: "n", Value: 0}}, tr.config(), pregel.ModeCustom)
	tr.state(g, false)
	tr.runModes(g, m{"left": list("l2"), "n": 0}, tr.config(), pregel.ModeCustom)
	tr.state(g, false)
	tr.runModes(g, m{"left": list("l3"), "n": 2496}, tr.config(), pregel.ModeCustom)
	tr.history(g)
}

func longer(n int, node string) graph.Path {
	return func(_ context.Context, s any) (any, error) {
		if len(s.(m)["steps"].([]string)) < n {
			return node, nil
		}
		return graph.End, nil
	}
}

func childWithSaver(tr *trace) {
	child := tr.saved(builder().Node("i1", adds("i1")).Node("i2", adds("i2")).Sequence(graph.Start, "i1", "i2"))
	b := builder().Node("sub", func(ctx context.Context, s any) (any, error) {
		res, err := child.Invoke(ctx, pregel.Inside(), in(fmt.Sprint(len(s.(m)["steps"].([]string)))))
		if err != nil {
			return nil, err
		}
		return res.Value, nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{child}})
	g := tr.saved(b.Edge(graph.Start, "sub").Conditional("sub", "again", longer(6, "sub"), "sub", graph.End))
	tr.run(g, in())
	tr.history(g)
}

func travelAfterTheEnd(tr *trace) {
	b := builder().Subgraph("sub", tr.inner(graph.Options{Checkpointing: pregel.Stable})).Node("end", adds("end"))
	g := tr.saved(b.Sequence(graph.Start, "sub", "end"))
	tr.run(g, in("in"))
	mid := tr.state(g, true)
	tr.run(g, pregel.Command{Resume: "yes"})
	before := nextIs(tr.history(g), "sub")
	child := tr.state(g, false, on(pregel.Address{ThreadID: "t", Namespace: "sub"}))
	tr.run(g, nil, on(child.Address))
	tr.state(g, false)
	last := tr.state(g, true, on(before.Address))
	tr.run(g, nil, on(last.Tasks[0].State.Address))
	tr.run(g, nil, on(mid.Tasks[0].State.Address))
	tr.run(g, pregel.Command{Resume: "again"})
	tr.history(g)
}

func threeLevelsReplayed(tr *trace) {
	stable := graph.Options{Checkpointing: pregel.Stable}
	mid := builder().Subgraph("low", tr.counter(stable)).Node("m", adds("m")).Sequence(graph.Start, "low", "m")
	b := builder().Subgraph("mid", tr.compile(mid, stable)).Node("end", adds("end"))
	g := tr.saved(b.Sequence(graph.Start, "mid", "end"))
	for _, w := range []string{"1", "2"} {
		tr.run(g, in(w))
	}
	var befores []config
	for _, s := range tr.history(g) {
		if slices.Equal(s.Next, []string{"mid"}) {
			befores = append(befores, on(s.Address))
		}
	}
	tr.run(g, nil, befores[0])
	tr.run(g, nil, tr.update(g, befores[0], pregel.StateUpdate{Values: in("forked"), AsNode: graph.Start}))
	tr.run(g, nil, befores[1])
	tr.run(g, in("3"))
	tr.history(g)
}

func forkDropsWrites(tr *trace) {
	b := newProgram(graph.Key("n", channel.Reduce(func(a, b int) int { return a + b })))
	b.Node("a", returns(m{"n": 10})).Node("b", func(ctx context.Context, _ any) (any, error) {
		n, err := pregel.AskFor[int](ctx, "?")
		return m{"n": n}, err
	}).Node("c", returns(m{"n": 100}))
	g := tr.saved(b.Edge(graph.Start, "a").Edge(graph.Start, "b").Edge("a", "c"))
	tr.run(g, m{"n": 1})
	s := tr.state(g, false)
	for _, node := range []string{graph.Start, "b", "a"} {
		tr.run(g, nil, tr.update(g, on(s.Address), pregel.StateUpdate{Values: m{"n": 20}, AsNode: node}))
	}
	tr.run(g, nil, tr.update(g, on(s.Address), pregel.StateUpdate{AsNode: "a"}))
	tr.history(g)
}

func functionalCache(tr *trace) {
	var runs []int
	double := pregel.NewTask("double", func(_ context.Context, n int) (int, error) {
		runs = append(runs, n)
		return n * 2, nil
	}, pregel.TaskOptions{Cache: &pregel.CachePolicy{}})
	kept := newCache(tr)
	flow, err := pregel.Entrypoint("functional_flow", func(ctx context.Context, _ int) ([]any, error) {
		var values []any
		for i := 1; i <= 3; i++ {
			n, err := double.Call(ctx, i)
			if err != nil {
				return nil, err
			}
			answer, err := pregel.Ask(ctx, fmt.Sprint("q", i))
			if err != nil {
				return nil, err
			}
			values = append(values, n, answer)
		}
		return values, nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Env: tr.env, LangGraph: true, Cache: kept}})
	if err != nil {
		tr.t.Fatal(err)
	}
	whole := func(thread string) {
		tr.run(flow, 0, tr.config(thread))
		for _, w := range []string{"a", "b", "c"} {
			tr.run(flow, pregel.Command{Resume: w}, tr.config(thread))
		}
	}
	whole("t")
	whole("u")
	tr.put(m{"runs": runs})
	if err := flow.ClearCache(ctx); err != nil {
		tr.t.Fatal(err)
	}
	tr.run(flow, 0, tr.config("v"))
	tr.put(m{"runs": runs})
	if err := double.ClearCache(ctx, kept); err != nil {
		tr.t.Fatal(err)
	}
	whole("w")
	tr.put(m{"runs": runs})
}

// counting notes the writes it is given.
type counting struct {
	saver.Saver
	puts *[]string
}

// PutWrites notes task and channels.
func (c counting) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, path string) error {
	put := taskID
	for _, w := range writes {
		put += " " + w.Channel
	}
	*c.puts = append(*c.puts, put)
	return c.Saver.PutWrites(ctx, cfg, writes, taskID, path)
}

// Serializer is nil, so that each write is stored before the next.
func (counting) Serializer() serde.Serializer { return nil }

func functionalKeptCalls(tr *trace) {
	var puts []string
	kept := pregel.NewTask("kept", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	ask := pregel.NewTask("ask", func(ctx context.Context, q string) (string, error) { return pregel.AskFor[string](ctx, q) })
	flow, err := pregel.Entrypoint("functional_flow", func(ctx context.Context, n int) ([]any, error) {
		a, err := kept.Call(ctx, n)
		if err != nil {
			return nil, err
		}
		b, err := ask.Call(ctx, "?")
		return []any{a, b}, err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: counting{tr.saver, &puts}, Env: tr.env, LangGraph: true}})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.run(flow, 1)
	tr.put(m{"puts": puts})
	puts = nil
	tr.run(flow, pregel.Command{Resume: "!"})
	tr.put(m{"puts": puts})
}
