package traces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"replay_middle": replayMiddle, "replay_between_questions": replayBetweenQuestions, "copies_ask_again": copiesAskAgain,
		"travel_into_questions": travelIntoQuestions, "travel_into_plain_questions": travelIntoPlainQuestions,
		"answers_at_places": answersAtPlaces, "answers_that_steer": answersThatSteer,
		"resume_stateful_at_head": resumeStatefulAtHead, "replay_visits": replayVisits, "updates_like_a_run": updatesLikeARun,
		"updates_with_sends": updatesWithSends, "updates_refused": updatesRefused, "update_of_first": updateOfFirst, "update_below": updateBelow,
		"delta_every_step": deltaEveryStep, "delta_fresh_updates": deltaFreshUpdates, "delta_from_list": deltaFromList, "delta_from_null": deltaFromNull,
		"delta_overwritten": deltaOverwritten, "delta_failing": deltaFailing,
	} {
		scenarios[name] = f
	}
}

func nexts(h []*pregel.StateSnapshot, nodes ...string) (out []*pregel.StateSnapshot) {
	for _, s := range h {
		if slices.Equal(s.Next, nodes) {
			out = append(out, s)
		}
	}
	return out
}

func (tr *trace) resume(g *pregel.Graph, answers ...string) {
	for _, a := range answers {
		tr.run(g, pregel.Command{Resume: a})
	}
}

func (tr *trace) bulk(g *pregel.Graph, steps ...[]pregel.StateUpdate) {
	call(tr, "update", func(bool) any {
		tr.typed.past(several)
		if _, err := g.BulkUpdateState(ctx, tr.config().Address, steps); err != nil {
			tr.error(err)
		}
		return nil
	})
}

func replayMiddle(tr *trace) {
	g := tr.line([]string{"a", "b", "c"}, graph.Options{})
	tr.run(g, in())
	h := tr.history(g)
	before := nexts(h, "b")[0]
	tr.run(g, nil, on(before.Address))
	tr.run(g, nil, on(h[0].Address))
	for _, w := range []string{"x", "y"} {
		tr.run(g, nil, tr.update(g, on(before.Address), pregel.StateUpdate{Values: in(w)}))
	}
	for _, s := range h[1:4] {
		tr.run(g, nil, on(s.Address))
	}
	tr.history(g)
}

func replayBetweenQuestions(tr *trace) {
	b := builder()
	b.Node("ask1", asker("one?")).Node("ask2", asker("two?", "three?"))
	addNodes(b, "end")
	g := tr.saved(b.Sequence(graph.Start, "ask1", "ask2", "end"))
	tr.run(g, in())
	tr.resume(g, "1", "2", "3")
	h := tr.history(g)
	first, second := nexts(h, "ask1")[0], nexts(h, "ask2")[0]
	tr.run(g, nil, tr.update(g, on(second.Address), pregel.StateUpdate{Values: in("forked"), AsNode: "ask1"}))
	tr.resume(g, "B")
	tr.run(g, nil, on(first.Address))
	tr.run(g, nil, on(first.Address))
	tr.run(g, nil, on(second.Address))
	tr.resume(g, "again")
	tr.history(g)
}

func copiesAskAgain(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("ask", asker("?"))
	addNodes(b, "z")
	g := tr.saved(b.Sequence(graph.Start, "a", "ask", "z"))
	tr.run(g, in())
	tr.resume(g, "one")
	before := nexts(tr.history(g), "ask")[0]
	tr.run(g, nil, tr.update(g, on(before.Address), pregel.StateUpdate{AsNode: pregel.Copy}))
	tr.resume(g, "two")
	tr.run(g, nil, tr.update(g, on(before.Address), pregel.StateUpdate{}))
	tr.resume(g, "three")
	tr.update(g, on(before.Address), pregel.StateUpdate{AsNode: pregel.End})
	tr.history(g)
}

func (tr *trace) questions(o graph.Options) *pregel.Graph {
	b := builder()
	addNodes(b, "first")
	b.Node("ask1", asker("one?")).Node("ask2", asker("two?"))
	return tr.compile(b.Sequence(graph.Start, "first", "ask1", "ask2"), o)
}

// travels answers two questions of the graph inside, and goes back to each.
func (tr *trace) travels(g *pregel.Graph) []*pregel.StateSnapshot {
	tr.run(g, in())
	one := on(tr.state(g, true).Tasks[0].State.Address)
	tr.resume(g, "1")
	two := on(tr.state(g, true).Tasks[0].State.Address)
	tr.resume(g, "2")
	tr.run(g, nil, two)
	tr.resume(g, "new 2")
	tr.run(g, nil, one)
	tr.resume(g, "1 again", "2 again")
	return tr.history(g)
}

func travelIntoQuestions(tr *trace) { tr.travels(tr.outer(tr.questions(stable))) }

func travelIntoPlainQuestions(tr *trace) {
	g := tr.outer(tr.questions(graph.Options{}))
	before := nexts(tr.travels(g), "sub")[0]
	tr.run(g, nil, on(before.Address))
	tr.resume(g, "replayed")
}

func answersAtPlaces(tr *trace) {
	g := tr.outer(tr.questions(graph.Options{}))
	tr.run(g, in())
	places := []pregel.Address{tr.state(g, true).Tasks[0].State.Address, tr.state(g, false).Address}
	tr.resume(g, "1")
	places = append(places, tr.state(g, true).Tasks[0].State.Address)
	tr.run(g, pregel.Command{Resume: "2"}, on(places[2]))
	for n, place := range places {
		tr.run(g, pregel.Command{Resume: fmt.Sprint("again ", n)}, on(place))
		tr.state(g, false)
	}
	b := builder()
	b.Node("ask", asker("one?", "two?")).Sequence(graph.Start, "ask")
	flat, c := tr.saved(b), tr.config("flat")
	tr.run(flat, in(), c)
	asked := on(tr.state(flat, false, c).Address)
	tr.run(flat, pregel.Command{Resume: "1"}, c)
	tr.run(flat, pregel.Command{Resume: "2"}, asked)
	tr.run(flat, pregel.Command{Resume: "3"}, asked)
	tr.historyOf(flat, c)
}

func answersThatSteer(tr *trace) {
	asking := func(nodes ...string) *pregel.Graph {
		b := builder()
		for _, n := range nodes {
			if strings.HasPrefix(n, "ask") {
				b.Node(n, asker(n+"?"))
			} else {
				addNodes(b, n)
			}
			b.Edge(graph.Start, n)
		}
		addNodes(b, "z")
		return tr.saved(b)
	}
	for _, waits := range []struct {
		name string
		g    *pregel.Graph
		goes string
	}{{"nothing", asking("a"), "z"}, {"one", asking("ask1"), "z"}, {"two", asking("ask1", "ask2"), "z"}, {"inside", tr.outer(tr.questions(graph.Options{})), "after"}} {
		for n, cmd := range []pregel.Command{{Update: in("u")}, {Goto: waits.goes}, {Update: in("u"), Goto: waits.goes}} {
			c := tr.config(fmt.Sprint(waits.name, n))
			tr.run(waits.g, in(), c)
			cmd.Resume = "new"
			tr.run(waits.g, cmd, c)
			tr.state(waits.g, false, c)
		}
	}
}

func resumeStatefulAtHead(tr *trace) {
	g := tr.outer(tr.inner(stable))
	tr.run(g, in())
	s := tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "answer"}, on(s.Address))
	tr.history(g)
}

func replayVisits(tr *trace) {
	for _, thread := range []string{"stateful", "stateless"} {
		o := graph.Options{}
		if thread == "stateful" {
			o = stable
		}
		g, c := tr.outer(tr.counter(o)), tr.config(thread)
		tr.run(g, in("1"), c)
		tr.run(g, in("2"), c)
		subs := nexts(tr.historyOf(g, c), "sub")
		tr.run(g, nil, on(subs[0].Address))
		tr.run(g, nil, on(subs[len(subs)-1].Address))
		tr.run(g, nil, tr.update(g, on(subs[0].Address), pregel.StateUpdate{Values: in("forked"), AsNode: "before"}))
		tr.run(g, in("3"), c)
	}
}

func updatesLikeARun(tr *trace) {
	g, c := tr.line([]string{"agent", "tool"}, graph.Options{}), tr.config("real")
	tr.run(g, in("in"), c)
	tr.run(g, in("more"), c)
	for _, w := range []string{"in", "more"} {
		tr.bulk(g, []pregel.StateUpdate{{Values: in(w), AsNode: pregel.Input}}, []pregel.StateUpdate{{Values: in(w), AsNode: pregel.Start}},
			[]pregel.StateUpdate{{Values: in("agent"), AsNode: "agent"}}, []pregel.StateUpdate{{Values: in("tool"), AsNode: "tool"}})
	}
	tr.historyOf(g, c)
	tr.history(g)
}

func updatesWithSends(tr *trace) {
	var packets, results []any
	for _, n := range []string{"0", "1", "2"} {
		packets, results = append(packets, pregel.Send{Node: "task", Arg: n}), append(results, in("t"+n))
	}
	b := builder()
	b.Node("plan", func(context.Context, any) (any, error) { return pregel.Command{Goto: packets}, nil })
	b.Node("task", func(_ context.Context, n any) (any, error) { return in(fmt.Sprint("t", n)), nil })
	g := tr.saved(b.Edge(graph.Start, "plan"))
	var tasks []pregel.StateUpdate
	for _, r := range results {
		tasks = append(tasks, pregel.StateUpdate{Values: r, AsNode: "task"})
	}
	tr.bulk(g, []pregel.StateUpdate{{Values: in(), AsNode: pregel.Input}}, []pregel.StateUpdate{{Values: in(), AsNode: pregel.Start}},
		[]pregel.StateUpdate{{Values: pregel.Command{Goto: packets}, AsNode: "plan"}}, tasks)
	h := tr.history(g)
	tr.update(g, on(h[1].Address), pregel.StateUpdate{AsNode: pregel.Copy})
	tr.run(g, nil)
	only := pregel.Command{Goto: pregel.Send{Node: "task", Arg: "only"}}
	tr.update(g, on(h[2].Address), pregel.StateUpdate{AsNode: pregel.Copy, Values: []pregel.StateUpdate{{Values: only, AsNode: "plan"}}})
	tr.run(g, nil)
	tr.history(g)
}

func updatesRefused(tr *trace) {
	b := builder()
	addNodes(b, "a", "b")
	g := tr.saved(b.Edge(graph.Start, "a").Edge(graph.Start, "b"))
	tr.run(g, in())
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("who?")})
	tr.bulk(g, []pregel.StateUpdate{{Values: in("x")}, {Values: in("y")}})
	tr.bulk(g, []pregel.StateUpdate{{AsNode: pregel.End}, {AsNode: pregel.Copy}})
	tr.bulk(g, []pregel.StateUpdate{{Values: in("x"), AsNode: "a"}, {Values: in("y"), AsNode: "nobody"}})
	tr.history(g)
}

func updateOfFirst(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	tr.run(g, in("in"))
	first := nexts(tr.history(g), "a")[0]
	tr.run(g, nil, tr.update(g, on(first.Address), pregel.StateUpdate{}))
	tr.update(g, tr.config("new"), pregel.StateUpdate{Values: in("u")})
	tr.run(g, nil, tr.config("new"))
	tr.history(g)
}

func updateBelow(tr *trace) {
	g := tr.outer(tr.inner(graph.Options{}))
	tr.run(g, in())
	s := tr.state(g, true)
	tr.update(g, on(s.Tasks[0].State.Address), pregel.StateUpdate{Values: in("answered"), AsNode: "ask"})
	tr.state(g, true)
	tr.run(g, nil)
	tr.history(g)
}

func deltaEveryStep(tr *trace) {
	g := deltaGraph(tr, 1)
	tr.run(g, m{"items": []string{"one"}, "n": 0})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"items": []string{"u"}}, AsNode: "c"})
	tr.run(g, m{"items": []string{"two"}, "n": 0})
	tr.history(g)
}

func deltaFreshUpdates(tr *trace) {
	g := deltaGraph(tr, 2)
	for _, w := range []string{"u", "v", "w", "x"} {
		tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"items": []string{w}}, AsNode: "a"})
		tr.state(g, false)
	}
	id := "00000000-0000-0000-0000-00000000000"
	tr.bulk(g, []pregel.StateUpdate{{Values: m{"items": []string{"y"}}, AsNode: "a", TaskID: id + "1"},
		{Values: m{"items": []string{"z"}}, AsNode: "a", TaskID: id + "2"}})
	tr.history(g)
}

func deltaFromList(tr *trace) {
	b := newProgram(graph.Key("items", channel.LastValue[[]string]()), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(_ context.Context, s any) (any, error) {
		return m{"items": append(slices.Clone(items(s)), "old")}, nil
	})
	old := tr.saved(b.Edge(graph.Start, "a"))
	tr.run(old, m{"items": []string{"u0"}, "n": 0})
	tr.run(old, m{"items": []string{"u1", "u2"}, "n": 0})
	g := deltaGraph(tr, 100)
	tr.state(g, false)
	tr.run(g, m{"items": []string{"d0"}, "n": 0})
	tr.state(g, false)
	tr.run(g, m{"items": []string{"d1"}, "n": 0})
	tr.history(g)
}

func deltaFromNull(tr *trace) {
	b := newProgram(graph.Key("items", channel.LastValue[any]()), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(context.Context, any) (any, error) { return m{"n": 1}, nil })
	tr.run(tr.saved(b.Edge(graph.Start, "a")), m{"items": nil, "n": 0})
	g := deltaGraph(tr, 100)
	tr.state(g, false)
	tr.run(g, m{"items": []string{"d0"}, "n": 0})
	tr.state(g, false)
	tr.run(g, m{"items": []string{"d1"}, "n": 0})
	tr.history(g)
}

func deltaOverwritten(tr *trace) {
	b := newProgram(graph.Key("items", deltaItems(100)), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(context.Context, any) (any, error) {
		return m{"items": pregel.Overwrite{Value: []string{"reset"}}}, nil
	})
	b.Node("b", func(context.Context, any) (any, error) { return m{"items": []string{"after"}}, nil })
	g := tr.saved(b.Sequence(graph.Start, "a", "b"))
	tr.run(g, m{"items": []string{"in"}})
	tr.run(g, m{"items": []string{"in2"}})
	tr.history(g)
}

func deltaFailing(tr *trace) {
	b := newProgram(graph.Key("items", deltaItems(100)), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(context.Context, any) (any, error) { return m{"items": []string{"a"}}, nil })
	b.Node("f", func(ctx context.Context, _ any) (any, error) {
		if tr.does(ctx, "f", nil) == 1 {
			return nil, boom{"once"}
		}
		return m{"items": []string{"flaky"}}, nil
	})
	g := tr.saved(b.Edge(graph.Start, "a").Edge(graph.Start, "f"))
	tr.run(g, m{"items": []string{"in"}})
	tr.state(g, false)
	tr.run(g, nil)
	tr.run(g, m{"items": []string{"next"}})
	tr.history(g)
}
