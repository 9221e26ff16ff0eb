package traces

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"resume_after_send": resumeAfterSend, "questions_in_line": questionsInLine, "two_by_two_questions": twoByTwoQuestions,
		"ask_until_valid": askUntilValid, "answers_of_any_type": answersOfAnyType, "handler_beside_question": handlerBesideQuestion,
		"question_beside_failure": questionBesideFailure, "breakpoint_commands": breakpointCommands, "breakpoint_edit": breakpointEdit,
		"breakpoints_of_both": breakpointsOfBoth, "breakpoint_below": breakpointBelow, "raw_breakpoint_history": rawBreakpointHistory,
		"totals": totals, "failure_then_new_input": failureThenNewInput,
	} {
		scenarios[name] = f
	}
}

func work(_ context.Context, n any) (any, error) { return in(fmt.Sprint("w", n)), nil }

// paths is a branch that always takes the same ways.
func paths(ways ...any) graph.Path {
	return func(context.Context, any) (any, error) { return ways, nil }
}

// failsOnce fails on its first call and then adds a word.
func (tr *trace) failsOnce(text, word string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		if tr.does(ctx, word, nil) == 1 {
			return nil, boom{text}
		}
		return in(word), nil
	}
}

func resumeAfterSend(tr *trace) {
	b := builder()
	b.Node("work", work).Node("ask", asker("?"))
	addNodes(b, "end")
	b.Conditional(graph.Start, "fan", paths(pregel.Send{Node: "work", Arg: 1}, "ask", pregel.Send{Node: "work", Arg: 2}), "work", "ask")
	b.Edge("work", "end").Edge("ask", "end")
	g := tr.saved(b)
	tr.run(g, in("in"))
	tr.state(g, false)
	tr.run(g, nil)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
}

func questionsInLine(tr *trace) {
	b := builder()
	addNodes(b, "a", "b")
	b.Node("ask1", asker("one?")).Node("ask2", asker("two?", "three?")).Sequence(graph.Start, "a", "ask1", "b", "ask2")
	g := tr.saved(b)
	tr.run(g, in())
	for _, word := range []string{"1", "2", "3"} {
		tr.run(g, pregel.Command{Resume: word})
		tr.state(g, false)
	}
	tr.run(g, in("again"))
	tr.run(g, pregel.Command{Resume: "4"})
	tr.history(g)
}

func twoByTwoQuestions(tr *trace) {
	child := func(name string) *pregel.Graph {
		b := builder()
		for _, n := range []string{"p", "q"} {
			b.Node(n, asker(name+n+"?")).Edge(graph.Start, n)
		}
		return tr.compile(b, graph.Options{})
	}
	b := builder()
	b.Subgraph("x", child("x")).Subgraph("y", child("y"))
	addNodes(b, "end")
	b.Edge(graph.Start, "x").Edge(graph.Start, "y").Join([]string{"x", "y"}, "end")
	g := tr.saved(b)
	tr.run(g, in())
	for i := range 4 {
		s := tr.state(g, true)
		tr.run(g, pregel.Command{Resume: m{s.Interrupts[len(s.Interrupts)-1].ID: fmt.Sprint("r", i)}})
	}
}

func askUntilValid(tr *trace) {
	b := builder()
	b.Node("ask", func(ctx context.Context, _ any) (any, error) {
		for q := "age?"; ; {
			v, err := pregel.AskFor[string](ctx, q)
			if err != nil {
				return nil, err
			}
			if v >= "18" {
				return in(v), nil
			}
			q = v + " is too young"
		}
	}).Edge(graph.Start, "ask")
	g := tr.saved(b)
	tr.run(g, in())
	for _, v := range []string{"13", "15", "19"} {
		tr.run(g, pregel.Command{Resume: v})
	}
	tr.state(g, false)
}

func answersOfAnyType(tr *trace) {
	b := builder()
	b.Node("ask", func(ctx context.Context, _ any) (any, error) {
		var list []any
		for i := range 5 {
			v, err := pregel.Ask(ctx, i)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		tr.does(ctx, "got", list)
		return in(fmt.Sprint(len(list))), nil
	}).Edge(graph.Start, "ask")
	g := tr.saved(b)
	tr.run(g, in())
	for _, v := range []any{true, "", 0, []any{}, m{"a": m{"b": nil}}} {
		tr.run(g, pregel.Command{Resume: v})
	}
	tr.show("got", func() any { return tr.did("got")[0] })
}

func handlerBesideQuestion(tr *trace) {
	b := builder()
	b.Node("ask", asker("?"), graph.NodeOptions{OnError: adds("never")})
	b.Node("f", fails("broken"), graph.NodeOptions{OnError: adds("handled")})
	addNodes(b, "end")
	b.Edge(graph.Start, "ask").Edge(graph.Start, "f").Join([]string{"ask", "f"}, "end")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
}

func questionBesideFailure(tr *trace) {
	b := builder()
	b.Node("ask", asker("?")).Node("f", tr.failsOnce("once", "flaky"))
	b.Edge(graph.Start, "ask").Edge(graph.Start, "f")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
	tr.run(g, nil)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
}

func breakpointCommands(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{InterruptBefore: []string{"a"}})
	tr.run(g, in())
	tr.run(g, pregel.Command{Resume: "any"})
	update := tr.config("update")
	tr.run(g, in("2"), update)
	tr.run(g, pregel.Command{Update: in("upd")}, update)
	tr.run(g, nil, update)
	tr.history(g)
}

func breakpointEdit(tr *trace) {
	b := builder()
	addNodes(b, "a", "r1", "r2", "qa")
	b.Edge(graph.Start, "a").Edge("a", "r1").Edge("a", "r2").Join([]string{"r1", "r2"}, "qa")
	g := tr.compile(b, graph.Options{Saver: tr.saver, InterruptBefore: []string{"qa"}})
	tr.run(g, in())
	tr.state(g, false)
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("lost")})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("edited"), AsNode: "r1"})
	tr.state(g, false)
	tr.run(g, nil)
	tr.history(g)
}

func breakpointsOfBoth(tr *trace) {
	for _, thread := range []string{"before", "after"} {
		o := graph.Options{Saver: tr.saver}
		if thread == "before" {
			o.InterruptBefore = []string{"side"}
		} else {
			o.InterruptAfter = []string{"side"}
		}
		b := builder()
		b.Subgraph("inner", tr.line([]string{"i1", "i2"}, graph.Options{InterruptBefore: []string{"i2"}}))
		addNodes(b, "side", "end")
		b.Edge(graph.Start, "inner").Edge(graph.Start, "side").Join([]string{"inner", "side"}, "end")
		g := tr.compile(b, o)
		tr.run(g, in(), tr.config(thread))
		tr.run(g, nil, tr.config(thread))
		tr.run(g, nil, tr.config(thread))
	}
}

func breakpointBelow(tr *trace) {
	low := builder()
	addNodes(low, "l1", "l2")
	low.Sequence(graph.Start, "l1", "l2")
	mid := builder()
	mid.Subgraph("low", tr.compile(low, graph.Options{InterruptBefore: []string{"l2"}})).Edge(graph.Start, "low")
	b := builder()
	addNodes(b, "p1")
	b.Subgraph("mid", tr.compile(mid, graph.Options{}))
	addNodes(b, "p2")
	b.Sequence(graph.Start, "p1", "mid", "p2")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, true)
	tr.run(g, nil)
	tr.history(g)
}

func rawBreakpointHistory(tr *trace) {
	inc := mapInt(func(n int) int { return n + 1 })
	g := tr.raw(pregel.Spec{Channels: map[string]channel.Channel{"inbox": channel.LastValue[int](), "output": channel.LastValue[int](), "input": channel.LastValue[int]()}, Input: pregel.One("input"), Output: pregel.One("output"), Stream: pregel.Many("inbox", "output")},
		pregel.Options{InterruptAfter: []string{"one"}}, pregel.NewNode("one").SubscribeOnly("input").Do(inc).WriteTo("inbox"),
		pregel.NewNode("two").SubscribeOnly("inbox").Do(inc).WriteTo("output"))
	tr.run(g, 2)
	tr.run(g, 20)
	tr.run(g, 3)
	tr.run(g, nil)
	for _, s := range tr.history(g)[:3] {
		tr.run(g, nil, on(s.Address))
	}
	second := tr.config("2")
	tr.run(g, 20, second)
	tr.update(g, second, pregel.StateUpdate{Values: 25, AsNode: "one"})
	tr.run(g, nil, second)
}

func totals(tr *trace) {
	g := tr.raw(pregel.Spec{Channels: map[string]channel.Channel{"total": channel.Reduce(channel.Add[int]), "input": channel.LastValue[int](), "output": channel.LastValue[int]()}, Input: pregel.One("input"), Output: pregel.One("output")},
		pregel.Options{}, pregel.NewNode("one").SubscribeTo("input").ReadFrom("total").Do(func(_ context.Context, d any) (any, error) {
			n, total := d.(m)["input"].(int), 0
			if n > 10 {
				return nil, boom{"Input is too large"}
			}
			if v, ok := d.(m)["total"].(int); ok {
				total = v
			}
			return n + total, nil
		}).WriteTo("output", "total"))
	for _, n := range []int{2, 3, 40, 4} {
		tr.run(g, n)
		tr.state(g, false)
	}
	tr.history(g)
}

func failureThenNewInput(tr *trace) {
	b := builder()
	b.Node("one", tr.failsOnce("Simulated failure", "one"))
	addNodes(b, "two")
	b.Sequence(graph.Start, "one", "two", graph.End)
	g := tr.saved(b)
	tr.run(g, in("start"))
	tr.run(g, in("again"))
	tr.history(g)
	call(tr, "delete", func(bool) any {
		if err := tr.saver.DeleteThread(ctx, "t"); err != nil {
			tr.t.Fatal(err)
		}
		return nil
	})
	tr.state(g, false)
}
