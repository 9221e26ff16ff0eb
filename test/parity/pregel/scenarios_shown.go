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
		"output_keys": outputKeys, "run_goes_on": runGoesOn, "breakpoints_everywhere": breakpointsEverywhere, "history_queries": historyQueries,
		"sent_reads_state": sentReadsState,
	} {
		scenarios[name] = f
	}
}

// forked is the graph of scenarios_shown.py.
func forked(tr *trace, o graph.Options) *pregel.Graph {
	keys := func() *program {
		return newProgram(graph.Key("a", channel.LastValue[int]()), graph.Key("n", channel.Reduce(channel.Append[string])))
	}
	inner := tr.compile(keys().Node("deep", func(context.Context, any) (any, error) {
		return m{"a": 7, "n": []string{"deep"}}, nil
	}).Edge(graph.Start, "deep"), graph.Options{})
	o.Saver = tr.saver
	return tr.compile(keys().Node("twice", func(context.Context, any) (any, error) {
		return pregel.Command{Update: pregel.Pairs{{Key: "n", Value: []string{"one"}}, {Key: "n", Value: []string{"two"}}, {Key: "a", Value: 1}}}, nil
	}).Node("asks", func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.AskFor[string](ctx, "q")
		return m{"n": []string{answer}}, err
	}).Node("quiet", func(context.Context, any) (any, error) { return nil, nil }).Subgraph("sub", inner).
		Edge(graph.Start, "twice").Edge("twice", "asks").Edge("twice", "quiet").Edge("asks", "sub"), o)
}

func outputKeys(tr *trace) {
	g := forked(tr, graph.Options{})
	show := func(thread string, keys pregel.Keys, input any) {
		cfg := tr.config(thread)
		cfg.OutputKeys = &keys
		tr.run(g, input, cfg)
	}
	for _, c := range []struct {
		thread string
		keys   pregel.Keys
	}{{"one", pregel.One("n")}, {"list", pregel.Many("n")}, {"other", pregel.Many("a")}, {"single", pregel.One("a")}} {
		show(c.thread, c.keys, m{"a": 0, "n": []string{"in"}})
		show(c.thread, c.keys, pregel.Command{Resume: "yes"})
	}
	show("one", pregel.Many("a", "n"), nil)
}

func runGoesOn(tr *trace) {
	g := forked(tr, graph.Options{})
	cfg := tr.config()
	cfg.RunID = "11111111-2222-3333-4444-555555555555"
	tr.run(g, m{"a": 0, "n": []string{"in"}}, cfg)
	tr.run(g, m{"a": 5, "n": []string{"not taken"}}, cfg)
	tr.run(g, pregel.Command{Resume: "yes"}, cfg)
	tr.run(g, m{"a": 6, "n": []string{"not taken either"}}, cfg)
	cfg.RunID = "11111111-2222-3333-4444-666666666666"
	tr.run(g, m{"a": 6, "n": []string{"taken"}}, cfg)
	tr.state(g, false)
}

func breakpointsEverywhere(tr *trace) {
	g := forked(tr, graph.Options{InterruptBefore: []string{pregel.AllNodes}, InterruptAfter: []string{pregel.AllNodes}})
	tr.run(g, m{"a": 0, "n": []string{"in"}})
	tr.state(g, false)
	for range 4 {
		tr.run(g, nil)
		tr.state(g, false)
	}
	tr.resume(g, "yes")
	tr.run(g, nil)
	tr.run(g, nil)
	tr.state(g, false)
}

func historyQueries(tr *trace) {
	g := forked(tr, graph.Options{})
	tr.run(g, m{"a": 0, "n": []string{"in"}})
	tr.resume(g, "yes")
	tr.run(g, m{"a": 5})
	list := func(q pregel.HistoryQuery) {
		call(tr, "history", func(bool) any {
			tr.put(map[string]any{"call": "history"})
			for s, err := range g.GetStateHistory(ctx, tr.config().Address, q) {
				if err != nil {
					tr.t.Fatal(err)
				}
				tr.put(map[string]any{"history": snapshot(s)})
			}
			return nil
		})
	}
	third, n := "", 0
	if tr.durability != pregel.Exit {
		for s, err := range g.GetStateHistory(ctx, tr.config().Address, pregel.HistoryQuery{Limit: 3}) {
			if err != nil {
				tr.t.Fatal(err)
			}
			if n++; n == 3 {
				third = on(s.Address).CheckpointID
			}
		}
	}
	for _, q := range []pregel.HistoryQuery{
		{Filter: m{"source": "input"}}, {Filter: m{"step": 1}}, {Limit: 2}, {Before: third}, {Before: third, Limit: 1},
		{Filter: m{"source": "loop"}, Limit: 1}, {Filter: m{"source": "nothing"}}, {Filter: m{"source": "loop", "step": 2}},
	} {
		list(q)
	}
}

// seen is what seen of scenarios_shown.py finds, as Python shows it; of the keys in leave nothing.
func seen(ctx context.Context, leave ...string) (string, error) {
	state, err := pregel.ReadState(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	for k, v := range state.(m) {
		if !slices.Contains(leave, k) {
			out = append(out, fmt.Sprintf("'%s=%v'", k, v))
		}
	}
	slices.Sort(out)
	return "[" + strings.Join(out, ", ") + "]", nil
}

func sentReadsState(tr *trace) {
	tells := func(name string, leave ...string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			text, err := seen(ctx, leave...)
			return m{"steps": []string{name + ": " + text}}, err
		}
	}
	list := channel.Reduce(channel.Append[string])
	inner := tr.compile(newProgram(graph.Key("c", channel.LastValue[int]()), graph.Key("steps", list)).
		Node("deep", tells("deep", "steps")).Edge(graph.Start, "deep"), graph.Options{})
	b := newProgram(graph.Key("a", channel.LastValue[int]()), graph.Key("b", channel.LastValue[string]()), graph.Key("secret", channel.LastValue[int]()), graph.Key("steps", list))
	b.Node("first", func(context.Context, any) (any, error) {
		return pregel.Pairs{{Key: "a", Value: 2}, {Key: "secret", Value: 5}, {Key: "steps", Value: []string{"first"}}}, nil
	})
	b.Node("all", tells("all", "steps"))
	b.Node("narrow", tells("narrow"), graph.NodeOptions{Reads: []string{"b", "secret"}})
	b.Subgraph("sub", inner).Edge(graph.Start, "first")
	b.Conditional("first", "sends", func(context.Context, any) (any, error) {
		return []pregel.Send{{Node: "all", Arg: m{"x": 1}}, {Node: "narrow", Arg: m{"x": 2}}, {Node: "sub", Arg: m{"c": 3}}}, nil
	}, "all", "narrow", "sub")
	tr.run(tr.compile(b, graph.Options{Saver: tr.saver}), m{"a": 1, "b": "in", "steps": []string{}})
}
