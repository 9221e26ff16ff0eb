package traces

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// The scenarios of scenarios.py, in Go.
var scenarios = map[string]func(*trace){
	"steps_line": stepsLine, "fan_out_join": fanOutJoin, "deferred": deferred, "deferred_join": deferredJoin,
	"conditional_loop": conditionalLoop, "send_fan_out": sendFanOut, "command_goto": commandGoto,
	"interrupt_in_node": interruptInNode, "interrupt_parallel": interruptParallel, "interrupt_sends": interruptSends,
	"breakpoints": breakpoints, "failure_and_resume": failureAndResume, "concurrent_update": concurrentUpdate,
	"overwrite": overwrite, "subgraph_interrupt": subgraphInterrupt, "subgraph_stateful": subgraphStateful,
	"subgraph_plain": subgraphPlain, "subgraph_called_twice": subgraphCalledTwice, "parent_command": parentCommand,
	"time_travel": timeTravel, "time_travel_subgraph": timeTravelSubgraph, "updates": updates,
	"raw_breakpoint": rawBreakpoint, "raw_topic": rawTopic, "functional": functional,
}

type m = map[string]any

func builder() *program {
	return newProgram(graph.Key("steps", channel.Reduce(channel.Append[string])))
}

func adds(words ...string) pregel.Func {
	return func(context.Context, any) (any, error) { return m{"steps": words}, nil }
}

func in(words ...string) m { return m{"steps": append([]string{}, words...)} }

func (tr *trace) compile(b *program, o graph.Options) *pregel.Graph {
	o.Env, o.LangGraph = tr.env, true
	if o.Hooks.TaskStart == nil {
		o.Hooks.TaskStart = tr.hooks().TaskStart
	}
	g, err := tr.made(b, o)
	if err != nil {
		tr.t.Fatal(err)
	}
	return g
}

// made compiles b with the builder that the trace uses.
func (tr *trace) made(b *program, o graph.Options) (*pregel.Graph, error) {
	if tr.typed != nil {
		return tr.typed.compile(tr, b, o)
	}
	return b.Compile(o)
}

func (tr *trace) saved(b *program) *pregel.Graph {
	return tr.compile(b, graph.Options{Saver: tr.saver})
}

func (tr *trace) line(names []string, o graph.Options) *pregel.Graph {
	b := builder()
	for _, n := range names {
		b.Node(n, adds(n))
	}
	b.Edge(graph.Start, names[0]).Sequence(names...).Edge(names[len(names)-1], graph.End)
	o.Saver = tr.saver
	return tr.compile(b, o)
}

func stepsLine(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	tr.run(g, in("in"))
	tr.state(g, false)
	tr.run(g, in("again"))
	tr.run(g, nil)
	tr.history(g)
	tr.run(g, nil, tr.config("fresh"))
}

func addNodes(b *program, names ...string) {
	for _, n := range names {
		b.Node(n, adds(n))
	}
}

func fanOutJoin(tr *trace) {
	b := builder()
	addNodes(b, "a", "b1", "b2", "b3", "c")
	b.Edge(graph.Start, "a").Edge("a", "b1").Edge("a", "b2").Edge("b1", "b3").Join([]string{"b3", "b2"}, "c").Edge("c", graph.End)
	g := tr.saved(b)
	tr.run(g, in())
	tr.run(g, in("x"))
}

func deferred(tr *trace) {
	b := builder()
	addNodes(b, "a", "b1", "b2", "b3")
	b.Node("c", adds("c"), graph.NodeOptions{Defer: true})
	b.Edge(graph.Start, "a").Edge("a", "b1").Edge("a", "b2").Edge("b1", "b3").Edge("b2", "c").Edge("b3", "c")
	tr.run(tr.saved(b), in())
}

func deferredJoin(tr *trace) {
	b := builder()
	addNodes(b, "a", "b1", "b2", "b3")
	b.Node("c", adds("c"), graph.NodeOptions{Defer: true})
	b.Edge(graph.Start, "a").Edge("a", "b1").Edge("a", "b2").Edge("b1", "b3").Join([]string{"b1", "b2"}, "c")
	tr.run(tr.saved(b), in())
}

func conditionalLoop(tr *trace) {
	b := builder()
	addNodes(b, "a", "b")
	b.Edge(graph.Start, "a").Edge("b", "a")
	b.Conditional("a", "loop", func(_ context.Context, s any) (any, error) {
		if len(s.(m)["steps"].([]string)) < 5 {
			return "b", nil
		}
		return graph.End, nil
	}, "b", graph.End)
	g := tr.saved(b)
	tr.run(g, in())
	limited := tr.config("limited")
	limited.RecursionLimit = 2
	tr.run(g, in(), limited)
	tr.state(g, false, tr.config("limited"))
	tr.run(g, nil, tr.config("limited"))
}

func sends(node string, n int) []any {
	out := []any{}
	for i := range n {
		out = append(out, pregel.Send{Node: node, Arg: i})
	}
	return out
}

func sendFanOut(tr *trace) {
	b := builder()
	addNodes(b, "plan", "side")
	b.Node("work", func(_ context.Context, n any) (any, error) { return in(fmt.Sprint("w", n)), nil })
	addNodes(b, "end")
	b.Edge(graph.Start, "plan")
	b.Conditional("plan", "fan", func(context.Context, any) (any, error) { return append(sends("work", 3), "side"), nil }, "work", "side")
	b.Edge("work", "end")
	g := tr.saved(b)
	tr.run(g, in())
	tr.history(g)
}

func commandGoto(tr *trace) {
	b := builder()
	b.Node("a", func(context.Context, any) (any, error) {
		return pregel.Command{Update: in("a"), Goto: []any{"b", pregel.Send{Node: "c", Arg: m{"x": 1}}}}, nil
	})
	b.Node("b", func(context.Context, any) (any, error) {
		return []any{pregel.Command{Update: in("b1"), Goto: "d"}, in("b2")}, nil
	})
	b.Node("c", func(_ context.Context, s any) (any, error) { return in(fmt.Sprint("c", s.(m)["x"])), nil })
	addNodes(b, "d")
	b.Edge(graph.Start, "a")
	g := tr.saved(b)
	tr.run(g, in())
	tr.run(g, pregel.Command{Goto: "d", Update: in("cmd")})
	tr.run(g, pregel.Command{})
}

func asker(questions ...string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		var out []string
		for _, q := range questions {
			v, err := pregel.AskFor[string](ctx, q)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return m{"steps": out}, nil
	}
}

func interruptInNode(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("ask", asker("one?", "two?"))
	b.Edge(graph.Start, "a").Edge("a", "ask")
	g := tr.saved(b)
	tr.run(g, in("in"))
	tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "1", Update: in("upd")})
	s := tr.state(g, false)
	tr.run(g, pregel.Command{Resume: m{s.Interrupts[0].ID: "2"}})
	tr.state(g, false)
	tr.history(g)
}

func interruptParallel(tr *trace) {
	b := builder()
	b.Node("a", asker("a?"))
	addNodes(b, "b")
	b.Node("c", asker("c?"))
	addNodes(b, "z")
	for _, n := range []string{"a", "b", "c"} {
		b.Edge(graph.Start, n).Edge(n, "z")
	}
	g := tr.saved(b)
	tr.run(g, in("in"))
	s := tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "x"})
	tr.run(g, pregel.Command{Resume: m{s.Interrupts[1].ID: "C"}})
	tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "A"})
	tr.history(g)
}

func interruptSends(tr *trace) {
	b := builder()
	b.Node("work", func(ctx context.Context, n any) (any, error) {
		v, err := pregel.AskFor[string](ctx, fmt.Sprint("q", n))
		if err != nil {
			return nil, err
		}
		return in(v + fmt.Sprint(n)), nil
	})
	addNodes(b, "end")
	b.Conditional(graph.Start, "fan", func(context.Context, any) (any, error) { return sends("work", 3), nil }, "work")
	b.Edge("work", "end")
	g := tr.saved(b)
	tr.run(g, in())
	answers := m{}
	for _, i := range tr.state(g, false).Interrupts {
		answers[i.ID] = "r"
	}
	tr.run(g, pregel.Command{Resume: answers})
}

func breakpoints(tr *trace) {
	g := tr.line([]string{"a", "b", "c"}, graph.Options{InterruptBefore: []string{"b"}, InterruptAfter: []string{"b"}})
	tr.run(g, in())
	tr.state(g, false)
	tr.run(g, nil)
	tr.state(g, false)
	tr.run(g, nil)
	every := tr.line([]string{"a", "b"}, graph.Options{InterruptAfter: []string{pregel.AllNodes}})
	tr.run(every, in(), tr.config("every"))
	tr.run(every, nil, tr.config("every"))
	tr.run(every, nil, tr.config("every"))
	jump := tr.line([]string{"a", "b"}, graph.Options{InterruptBefore: []string{"a"}})
	tr.run(jump, in(), tr.config("goto"))
	tr.run(jump, pregel.Command{Goto: []any{"b"}}, tr.config("goto"))
}

func failureAndResume(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("f", tr.failsOnce("not yet", "flaky"))
	addNodes(b, "z")
	b.Edge(graph.Start, "a").Edge(graph.Start, "f").Join([]string{"a", "f"}, "z")
	g := tr.saved(b)
	tr.run(g, in("in"))
	s := tr.state(g, false)
	tr.state(g, false, on(s.Address))
	tr.run(g, nil)
	tr.state(g, false)
	tr.history(g)
}

func concurrentUpdate(tr *trace) {
	b := newProgram(graph.Key("x", channel.LastValue[int]()))
	for i, n := range []string{"a", "b"} {
		b.Node(n, func(context.Context, any) (any, error) { return m{"x": i + 1}, nil }).Edge(graph.Start, n)
	}
	tr.run(tr.saved(b), m{"x": 0})
}

func overwrite(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("b", func(context.Context, any) (any, error) {
		return m{"steps": pregel.Overwrite{Value: []string{"b"}}}, nil
	})
	addNodes(b, "c", "d")
	b.Edge(graph.Start, "a").Edge("a", "b").Edge("a", "c").Join([]string{"b", "c"}, "d")
	tr.run(tr.saved(b), in("in"))
}

func (tr *trace) raw(s pregel.Spec, o pregel.Options, nodes ...*pregel.NodeBuilder) *pregel.Graph {
	for _, b := range nodes {
		n, err := b.Build()
		if err != nil {
			tr.t.Fatal(err)
		}
		s.Nodes = append(s.Nodes, n)
	}
	o.Saver, o.Env, o.Hooks, o.LangGraph = tr.saver, tr.env, tr.hooks(), true
	g, err := pregel.New(s, o)
	if err != nil {
		tr.t.Fatal(err)
	}
	return g
}

func mapInt(f func(int) int) pregel.Func {
	return pregel.NodeOf(func(_ context.Context, n int) (int, error) { return f(n), nil })
}

func rawBreakpoint(tr *trace) {
	inc := mapInt(func(n int) int { return n + 1 })
	g := tr.raw(pregel.Spec{Channels: map[string]channel.Channel{"inbox": channel.LastValue[int](), "output": channel.LastValue[int](), "input": channel.LastValue[int]()}, Input: pregel.One("input"), Output: pregel.One("output"), Stream: pregel.Many("inbox", "output")},
		pregel.Options{InterruptAfter: []string{"one"}}, pregel.NewNode("one").SubscribeOnly("input").Do(inc).WriteTo("inbox"),
		pregel.NewNode("two").SubscribeOnly("inbox").Do(inc).WriteTo("output"))
	tr.run(g, 2)
	tr.state(g, false)
	tr.run(g, nil)
	tr.run(g, 20)
	tr.run(g, 3)
	tr.run(g, nil)
	tr.history(g)
}

func rawTopic(tr *trace) {
	g := tr.raw(pregel.Spec{Channels: map[string]channel.Channel{"box": channel.Topic[int](channel.PerStep), "out1": channel.LastValue[int](),
		"output": channel.LastValue[int](), "input": channel.Ephemeral[int](channel.Guarded)}, Input: pregel.One("input"), Output: pregel.One("output")}, pregel.Options{}, pregel.NewNode("one").SubscribeTo("input").Do(func(_ context.Context, d any) (any, error) { return d.(m)["input"].(int) + 1, nil }).WriteTo("box", "out1"),
		pregel.NewNode("two").SubscribeTo("input").Do(func(_ context.Context, d any) (any, error) { return d.(m)["input"].(int) * 10, nil }).WriteTo("box"),
		pregel.NewNode("three").SubscribeTo("box").ReadFrom("out1").Do(func(_ context.Context, d any) (any, error) {
			sum := d.(m)["out1"].(int)
			for _, n := range d.(m)["box"].([]int) {
				sum += n
			}
			return sum, nil
		}).WriteTo("output"))
	tr.run(g, 2)
	tr.run(g, 3)
}

func functional(tr *trace) {
	double := pregel.NewTask("double", func(ctx context.Context, n int) (int, error) {
		tr.does(ctx, "double", n)
		return n * 2, nil
	})
	ask := pregel.NewTask("ask", func(ctx context.Context, q string) (string, error) { return pregel.AskFor[string](ctx, q) })
	flow, err := pregel.Entrypoint("flow", func(ctx context.Context, n int) (pregel.Final[string, int], error) {
		var out pregel.Final[string, int]
		a, err := double.Call(ctx, n)
		if err != nil {
			return out, err
		}
		b, err := double.Call(ctx, a)
		if err != nil {
			return out, err
		}
		answer, err := ask.Call(ctx, "sure?")
		if err != nil {
			return out, err
		}
		previous, _, err := pregel.Previous[int](ctx)
		if err != nil {
			return out, err
		}
		return pregel.Final[string, int]{Value: fmt.Sprint(b, answer), Save: previous + b}, nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Hooks: tr.hooks(), Env: tr.env, LangGraph: true}})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.run(flow, 1)
	tr.state(flow, false)
	tr.run(flow, pregel.Command{Resume: "!"})
	tr.run(flow, 5)
	tr.run(flow, pregel.Command{Resume: "?"})
	tr.history(flow)
	tr.show("ran", func() any { return tr.did("double") })
}
