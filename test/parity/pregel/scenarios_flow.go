package traces

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"edge_beside_join": edgeBesideJoin, "join_in_loop": joinInLoop, "branch_at_start": branchAtStart, "limits": limits,
		"planner": planner, "mixed_returns": mixedReturns, "root_state": rootState, "sends_in_sequence": sendsInSequence,
		"send_then_edge": sendThenEdge, "raw_two_outputs": rawTwoOutputs, "two_overwrites": twoOverwrites, "debug_events": debugEvents,
		"labelled_run": labelledRun, "parent_goto": parentGoto, "parent_goto_deep": parentGotoDeep, "stateful_apart": statefulApart,
		"called_stateless": calledStateless, "subgraph_of_other_keys": subgraphOfOtherKeys,
	} {
		scenarios[name] = f
	}
}

func returns(v any) pregel.Func { return func(context.Context, any) (any, error) { return v, nil } }

func edgeBesideJoin(tr *trace) {
	b := builder()
	addNodes(b, "a", "r1", "r2", "slow", "qa")
	b.Edge(graph.Start, "a").Edge("a", "r1").Edge("a", "slow").Edge("slow", "r2").Join([]string{"r1", "r2"}, "qa").Edge("a", "qa")
	tr.run(tr.saved(b), in())
}

func joinInLoop(tr *trace) {
	b := builder()
	addNodes(b, "a", "r1", "r2", "qa")
	b.Edge(graph.Start, "a").Edge("a", "r1").Edge("a", "r2").Join([]string{"r1", "r2"}, "qa")
	b.Conditional("qa", "", whileShorter(8, "a"), "a", graph.End)
	tr.run(tr.saved(b), in())
}

func branchAtStart(tr *trace) {
	b := builder()
	addNodes(b, "a", "b", "c")
	b.Conditional(graph.Start, "", func(_ context.Context, s any) (any, error) {
		if len(stepsOf(s)) == 1 {
			return []string{"a", "b"}, nil
		}
		return "c", nil
	}, "a", "b", "c")
	b.Conditional("a", "", func(context.Context, any) (any, error) { return "c", nil })
	g := tr.saved(b)
	tr.run(g, in("1"))
	tr.run(g, in("1"))
	tr.history(g)
}

func limits(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	for n := 1; n <= 2; n++ {
		c := tr.config(fmt.Sprint(n))
		limited := c
		limited.RecursionLimit = n
		tr.run(g, in(), limited)
		tr.run(g, nil, c)
	}
	c := tr.config("late")
	c.RecursionLimit = 2
	tr.run(g, in(), c)
	tr.run(g, in(), c)
}

func planner(tr *trace) {
	plan := []any{"s1", []string{"s2", "s3"}, "s4"}
	b := builder()
	b.Node("planner", func(ctx context.Context, _ any) (any, error) {
		n := tr.does(ctx, "plan", nil)
		if n > len(plan) {
			return pregel.Command{Update: in("done")}, nil
		}
		return pregel.Command{Goto: plan[n-1], Update: in("plan")}, nil
	})
	for _, n := range []string{"s1", "s2", "s3", "s4"} {
		b.Node(n, adds(n)).Edge(n, "planner")
	}
	tr.run(tr.saved(b.Edge(graph.Start, "planner")), in())
}

func mixedReturns(tr *trace) {
	b := builder()
	b.Node("a", returns([]any{pregel.Command{Update: in("a1"), Goto: "c"}, in("a2")}))
	b.Node("b", returns([]any{in("b1"), pregel.Command{Update: in("b2")}}))
	addNodes(b, "c")
	g := tr.saved(b.Edge(graph.Start, "a").Edge(graph.Start, "b"))
	tr.run(g, in())
	tr.history(g)
}

func rootState(tr *trace) {
	b := newProgram(graph.Root(channel.Reduce(channel.Add[string])))
	b.Node("a", returns([]pregel.Command{{Update: "a1"}, {Update: "a2"}})).Node("b", returns("b"))
	g := tr.saved(b.Sequence(graph.Start, "a", "b"))
	tr.run(g, "")
	tr.state(g, false)
	h := tr.history(g)
	for _, s := range h[:min(3, len(h))] {
		tr.run(g, nil, on(s.Address))
	}
}

func sendsInSequence(tr *trace) {
	b := builder()
	node := func(name string, out ...any) {
		b.Node(name, func(_ context.Context, s any) (any, error) {
			word := name
			if _, ok := s.(m); !ok {
				word = fmt.Sprint(name, "|", s)
			}
			if len(out) == 0 {
				return in(word), nil
			}
			return append([]any{in(word)}, out...), nil
		})
	}
	node("1")
	node("1.1", pregel.Command{Goto: []any{pregel.Send{Node: "2", Arg: 7}}})
	b.Node("2", func(_ context.Context, s any) (any, error) {
		if n, err := channel.Convert[int](s); err == nil && n <= 2 {
			return pregel.Command{Goto: pregel.Send{Node: "2", Arg: n + 2}, Update: in(fmt.Sprint("2!", n))}, nil
		}
		return in(fmt.Sprint("2|", s)), nil
	})
	node("3")
	node("3.1")
	b.Edge(graph.Start, "1").Edge(graph.Start, "1.1")
	b.Conditional("1", "", paths(pregel.Send{Node: "2", Arg: 1}, "3.1", pregel.Send{Node: "2", Arg: 2}), "2", "3.1").Edge("2", "3")
	g := tr.saved(b)
	tr.run(g, in("0"))
	tr.history(g)
}

func sendThenEdge(tr *trace) {
	b := builder()
	addNodes(b, "1", "2", "3")
	b.Conditional("1", "", paths(pregel.Send{Node: "2", Arg: m{}}, pregel.Send{Node: "2", Arg: m{}}), "2")
	b.Edge(graph.Start, "1").Edge("2", "3")
	g := tr.compile(b, graph.Options{Saver: tr.saver, InterruptBefore: []string{"2"}})
	tr.run(g, in("0"))
	tr.state(g, false)
	tr.run(g, nil)
}

func rawTwoOutputs(tr *trace) {
	inc := mapInt(func(n int) int { return n + 1 })
	ints := func(names ...string) map[string]channel.Channel {
		out := map[string]channel.Channel{}
		for _, n := range names {
			out[n] = channel.LastValue[int]()
		}
		return out
	}
	g := tr.raw(pregel.Spec{Channels: ints("input", "between", "output"), Input: pregel.One("input"), Output: pregel.One("output"), Stream: pregel.Many("output", "between")},
		pregel.Options{},
		pregel.NewNode("one").SubscribeOnly("input").Do(inc).WriteTo("output", "between"),
		pregel.NewNode("two").SubscribeOnly("between").Do(inc).WriteTo("output"))
	tr.run(g, 2)
	quiet := tr.raw(pregel.Spec{Channels: ints("input", "output"), Input: pregel.One("input"), Output: pregel.One("output")}, pregel.Options{},
		pregel.NewNode("one").SubscribeOnly("input").Do(inc))
	tr.run(quiet, 2, tr.config("quiet"))
}

func twoOverwrites(tr *trace) {
	b := builder()
	for _, n := range []string{"a", "b"} {
		b.Node(n, returns(m{"steps": pregel.Overwrite{Value: []string{n}}})).Edge(graph.Start, n)
	}
	g := tr.saved(b)
	tr.run(g, in("in"))
}

func (tr *trace) asking(o graph.Options) *pregel.Graph {
	b := builder()
	return tr.compile(b.Node("ask", asker("?")).Edge(graph.Start, "ask"), o)
}

func debugEvents(tr *trace) {
	g := tr.outer(tr.asking(graph.Options{}))
	tr.runModes(g, in(), tr.config(), pregel.ModeDebug, pregel.ModeValues)
	tr.runModes(g, pregel.Command{Resume: "yes"}, tr.config(), pregel.ModeDebug, pregel.ModeUpdates)
}

func labelledRun(tr *trace) {
	c := tr.config()
	c.Configurable = m{"test_config_1": "foo", "__hidden": "no", "n": 3}
	c.Metadata = m{"who": "me"}
	tr.run(tr.outer(tr.counter(graph.Options{})), in(), c)
}

func parentGoto(tr *trace) {
	inner := builder()
	inner.Node("i1", adds("lost")).Node("i2", returns(pregel.Command{Graph: pregel.Parent, Goto: "b", Update: in("up")}))
	b := builder()
	b.Subgraph("a", tr.compile(inner.Sequence(graph.Start, "i1", "i2"), graph.Options{}))
	addNodes(b, "b")
	g := tr.saved(b.Edge(graph.Start, "a"))
	tr.run(g, in("init"))
	tr.history(g)
}

func parentGotoDeep(tr *trace) {
	low := builder()
	low.Node("l", returns(pregel.Command{Graph: pregel.Parent, Goto: "m3", Update: in("low")})).Edge(graph.Start, "l")
	mid := builder()
	addNodes(mid, "m1")
	mid.Subgraph("m2", tr.compile(low, graph.Options{}))
	addNodes(mid, "m3")
	b := builder()
	addNodes(b, "c1")
	b.Subgraph("c2", tr.compile(mid.Sequence(graph.Start, "m1", "m2"), graph.Options{}))
	g := tr.saved(b.Sequence(graph.Start, "c1", "c2"))
	tr.run(g, in("init"))
	tr.history(g)
}

func statefulApart(tr *trace) {
	b := builder()
	for _, n := range []string{"fruit", "veggie"} {
		w := builder()
		b.Subgraph(n, tr.compile(w.Subgraph("agent", tr.counter(stable)).Edge(graph.Start, "agent"), stable))
	}
	g := tr.saved(b.Sequence(graph.Start, "fruit", "veggie"))
	tr.run(g, in("1"))
	tr.run(g, in("2"))
	tr.history(g)
}

func calledStateless(tr *trace) {
	sub := tr.asking(graph.Options{})
	b := builder()
	b.Node("call", func(ctx context.Context, s any) (any, error) {
		steps := stepsOf(s)
		res, err := sub.Invoke(ctx, pregel.Inside(), in(steps[len(steps)-1]))
		if err != nil {
			return nil, err
		}
		return in(strings.Join(stepsOf(res.Value), "+")), nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}})
	g := tr.saved(b.Edge(graph.Start, "call"))
	for _, w := range []string{"apples", "pears"} {
		tr.run(g, in(w))
		tr.resume(g, "yes")
	}
	tr.history(g)
}

func subgraphOfOtherKeys(tr *trace) {
	steps := graph.Key("steps", channel.Reduce(channel.Append[string]))
	inner := newProgram(steps, graph.Key("note", channel.LastValue[string]()))
	inner.Node("i", returns(m{"note": "private"}))
	inner.Node("j", func(_ context.Context, s any) (any, error) { return in(s.(m)["note"].(string)), nil })
	b := newProgram(steps, graph.Key("shown", channel.LastValue[string]()))
	b.Node("a", returns(m{"shown": "x"}))
	b.Subgraph("sub", tr.compile(inner.Sequence(graph.Start, "i", "j"), graph.Options{}))
	b.Node("z", func(_ context.Context, s any) (any, error) {
		return m{"shown": fmt.Sprint(s.(m)["shown"], len(stepsOf(s)))}, nil
	})
	tr.run(tr.saved(b.Sequence(graph.Start, "a", "sub", "z")), in("in"))
}
