package traces

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"replay_stateful_loop": replayStatefulLoop, "replay_parallel_stateful": replayParallelStateful,
		"three_level_stateful": threeLevelStateful, "stateful_reentered": statefulReentered,
		"parent_command_from_function": parentCommandFromFunction, "child_with_own_thread": childWithOwnThread,
		"subgraph_off": subgraphOff, "nested_breakpoints": nestedBreakpoints, "two_questions_in_subgraph": twoQuestionsInSubgraph,
		"failing_subgraph": failingSubgraph, "functional_update": functionalUpdate, "empty_outputs": emptyOutputs,
	} {
		scenarios[name] = f
	}
}

func stepsOf(s any) []string { return s.(m)["steps"].([]string) }

func (tr *trace) counter(o graph.Options) *pregel.Graph {
	b := builder()
	b.Node("count", func(_ context.Context, s any) (any, error) { return in(fmt.Sprint(len(stepsOf(s)))), nil })
	b.Edge(graph.Start, "count")
	return tr.compile(b, o)
}

func whileShorter(n int, node string) graph.Path {
	return func(_ context.Context, s any) (any, error) {
		if len(stepsOf(s)) < n {
			return node, nil
		}
		return graph.End, nil
	}
}

var stable = graph.Options{Checkpointing: pregel.Stable}

func replayStatefulLoop(tr *trace) {
	b := builder()
	b.Subgraph("sub", tr.counter(stable)).Node("next", adds("n"))
	b.Edge(graph.Start, "sub").Edge("sub", "next").Conditional("next", "", whileShorter(12, "sub"), "sub", graph.End)
	g := tr.saved(b)
	tr.run(g, in("x"))
	tr.run(g, in("y"))
	var subs []*pregel.StateSnapshot
	for _, s := range tr.history(g) {
		if slices.Equal(s.Next, []string{"sub"}) {
			subs = append(subs, s)
		}
	}
	tr.run(g, nil, on(subs[len(subs)-1].Address))
	tr.run(g, nil, on(subs[1].Address))
	fork := tr.update(g, on(subs[0].Address), pregel.StateUpdate{Values: in("f"), AsNode: "next"})
	tr.run(g, nil, fork)
}

func replayParallelStateful(tr *trace) {
	b := builder()
	b.Subgraph("one", tr.counter(stable)).Subgraph("two", tr.counter(stable))
	b.Edge(graph.Start, "one").Edge(graph.Start, "two")
	g := tr.saved(b)
	tr.run(g, in("x"))
	tr.run(g, in("y"))
	for _, s := range tr.history(g) {
		if len(s.Next) == 2 {
			tr.run(g, nil, on(s.Address))
			break
		}
	}
	tr.run(g, in("z"))
}

func threeLevelStateful(tr *trace) {
	mid := builder()
	addNodes(mid, "m")
	mid.Subgraph("low", tr.inner(stable)).Sequence(graph.Start, "m", "low")
	b := builder()
	b.Subgraph("mid", tr.compile(mid, stable))
	addNodes(b, "end")
	b.Sequence(graph.Start, "mid", "end")
	g := tr.saved(b)
	tr.run(g, in("1"))
	s := tr.state(g, true)
	tr.run(g, pregel.Command{Resume: "one"})
	tr.run(g, nil, on(s.Tasks[0].State.Tasks[0].State.Address))
	tr.run(g, pregel.Command{Resume: "low again"})
	tr.run(g, nil, on(s.Tasks[0].State.Address))
	tr.run(g, pregel.Command{Resume: "mid again"})
	tr.run(g, in("2"))
	tr.run(g, pregel.Command{Resume: "two"})
	tr.history(g)
}

// calls is a node that runs a graph on words and returns how many steps it has.
func calls(sub *pregel.Graph, cfg config, words ...string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		res, err := sub.Invoke(ctx, cfg.Address, in(words...), cfg.RunOptions)
		if err != nil {
			return nil, err
		}
		return in(fmt.Sprint(len(stepsOf(res.Value)))), nil
	}
}

func statefulReentered(tr *trace) {
	sub := tr.inner(stable)
	b := builder()
	b.Node("call", calls(sub, on(pregel.Inside()), "go"), graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}})
	b.Edge(graph.Start, "call").Conditional("call", "", whileShorter(3, "call"), "call", graph.End)
	g := tr.saved(b)
	tr.run(g, in("in"))
	tr.run(g, pregel.Command{Resume: "a"})
	tr.run(g, pregel.Command{Resume: "b"})
}

func parentCommandFromFunction(tr *trace) {
	inner := builder()
	inner.Node("i", func(context.Context, any) (any, error) {
		return pregel.Command{Graph: pregel.Parent, Goto: "jump", Update: in("up")}, nil
	}).Edge(graph.Start, "i")
	sub, plain := tr.compile(inner, graph.Options{}), tr.counter(graph.Options{})
	b := builder()
	b.Node("call", func(ctx context.Context, _ any) (any, error) {
		if _, err := plain.Invoke(ctx, pregel.Inside(), in()); err != nil {
			return nil, err
		}
		if _, err := sub.Invoke(ctx, pregel.Inside(), in()); err != nil {
			return nil, err
		}
		return nil, errors.New("unreachable")
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{plain, sub}})
	addNodes(b, "jump")
	b.Edge(graph.Start, "call")
	tr.run(tr.saved(b), in())
}

func childWithOwnThread(tr *trace) {
	sub := tr.counter(graph.Options{Saver: tr.saver})
	b := builder()
	own := on(pregel.Thread("child"))
	b.Node("call", func(ctx context.Context, s any) (any, error) {
		c := own
		c.Durability = tr.durability
		return calls(sub, c, "c")(ctx, s)
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}})
	b.Edge(graph.Start, "call")
	g := tr.saved(b)
	tr.run(g, in())
	tr.run(g, in())
}

func subgraphOff(tr *trace) {
	tr.run(tr.outer(tr.counter(graph.Options{Checkpointing: pregel.Off})), in())
}

func nestedBreakpoints(tr *trace) {
	sub := tr.line([]string{"i1", "i2"}, graph.Options{InterruptBefore: []string{"i2"}})
	b := builder()
	b.Subgraph("inner", sub)
	addNodes(b, "side", "end")
	b.Edge(graph.Start, "inner").Edge(graph.Start, "side").Join([]string{"inner", "side"}, "end")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, true)
	tr.run(g, nil)
	tr.history(g)
}

func twoQuestionsInSubgraph(tr *trace) {
	inner := builder()
	inner.Node("q1", asker("q1?")).Node("q2", asker("q2?", "q3?")).Sequence(graph.Start, "q1", "q2")
	sub := tr.compile(inner, graph.Options{})
	b := builder()
	b.Node("call", func(ctx context.Context, _ any) (any, error) {
		res, err := sub.Invoke(ctx, pregel.Inside(), in())
		if err != nil {
			return nil, err
		}
		return res.Value, nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}})
	b.Edge(graph.Start, "call")
	g := tr.saved(b)
	tr.run(g, in())
	for _, a := range []string{"x", "y", "z"} {
		tr.run(g, pregel.Command{Resume: a})
	}
	tr.history(g)
}

func failingSubgraph(tr *trace) {
	inner := builder()
	addNodes(inner, "ok")
	inner.Node("flaky", tr.failsOnce("inside", "flaky"))
	addNodes(inner, "z")
	inner.Sequence(graph.Start, "ok", "flaky", "z")
	g := tr.outer(tr.compile(inner, graph.Options{}))
	tr.run(g, in())
	tr.state(g, true)
	tr.run(g, nil)
}

func functionalUpdate(tr *trace) {
	flow, err := pregel.Entrypoint("flow", func(ctx context.Context, n int) (int, error) {
		previous, _, err := pregel.Previous[int](ctx)
		return previous + n, err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Hooks: tr.hooks(), Env: tr.env, LangGraph: true}})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.update(flow, tr.config(), pregel.StateUpdate{Values: 10})
	tr.run(flow, 1)
	tr.update(flow, tr.config(), pregel.StateUpdate{Values: 100})
	tr.run(flow, 1)
	tr.history(flow)
}

func emptyOutputs(tr *trace) {
	b := builder()
	b.Node("nothing", func(context.Context, any) (any, error) { return nil, nil })
	b.Node("unknown", func(context.Context, any) (any, error) { return m{"other": 1}, nil })
	addNodes(b, "end")
	b.Sequence(graph.Start, "nothing", "unknown")
	b.Conditional("unknown", "", func(context.Context, any) (any, error) {
		return []any{graph.End, "end", pregel.Send{Node: "end", Arg: m{}}}, nil
	})
	g := tr.compile(b, graph.Options{Saver: tr.saver, InterruptAfter: []string{"nothing"}})
	tr.run(g, in())
	tr.run(g, nil)
	tr.run(g, pregel.Command{Goto: "missing"})
	tr.run(g, pregel.Command{Update: in("u")})
}
