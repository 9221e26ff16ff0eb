package traces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/store/cache"
)

func init() {
	for name, f := range map[string]func(*trace){
		"delta_runs": deltaRuns, "delta_snapshots": deltaSnapshots, "delta_updates": deltaUpdates, "delta_interrupt": deltaInterrupt,
		"error_handler": errorHandler, "error_handler_crash": errorHandlerCrash, "node_cache": nodeCache, "drain": drain,
		"custom_stream": customStream, "managed_values": managedValues, "retries": retries, "functional_nested": functionalNested,
		"sends_to_subgraph": sendsToSubgraph, "three_levels": threeLevels, "bulk_updates": bulkUpdates, "untracked": untracked,
		"resume_at_checkpoint": resumeAtCheckpoint,
	} {
		scenarios[name] = f
	}
}

func deltaItems(frequency int) channel.Channel {
	return channel.Delta(frequency, func(s []string, ws [][]string) ([]string, error) {
		for _, w := range ws {
			s = append(s, w...)
		}
		return s, nil
	})
}

func items(s any) []string {
	list, _ := s.(m)["items"].([]string)
	return list
}

func deltaGraph(tr *trace, frequency int) *pregel.Graph {
	b := newProgram(graph.Key("items", deltaItems(frequency)), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(_ context.Context, s any) (any, error) {
		return m{"items": []string{fmt.Sprint("a", len(items(s)))}}, nil
	})
	b.Node("b", func(_ context.Context, s any) (any, error) { return m{"n": len(items(s))}, nil })
	b.Node("c", func(_ context.Context, s any) (any, error) {
		return m{"items": []string{fmt.Sprint("c", s.(m)["n"])}}, nil
	})
	b.Sequence(graph.Start, "a", "b", "c")
	return tr.saved(b)
}

func deltaRuns(tr *trace) {
	g := deltaGraph(tr, 100)
	for _, w := range []string{"one", "two", "three"} {
		tr.run(g, pregel.Pairs{{Key: "items", Value: []string{w}}, {Key: "n", Value: 0}})
		tr.state(g, false)
	}
	tr.history(g)
}

func deltaSnapshots(tr *trace) {
	g := deltaGraph(tr, 3)
	for _, w := range []string{"one", "two", "three"} {
		tr.run(g, m{"items": []string{w}, "n": 0})
	}
	tr.history(g)
}

func deltaUpdates(tr *trace) {
	g := deltaGraph(tr, 100)
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"items": []string{"u"}, "n": 1}, AsNode: "a"})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"items": []string{"v"}}, AsNode: "c"})
	tr.run(g, m{"items": []string{"in"}, "n": 0})
	h := tr.history(g)
	fork := tr.update(g, on(h[2].Address), pregel.StateUpdate{Values: m{"items": []string{"f"}}, AsNode: "a"})
	tr.run(g, nil, fork)
	tr.run(g, nil, on(h[1].Address))
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"items": pregel.Overwrite{Value: []string{"reset"}}}, AsNode: "c"})
	tr.history(g)
}

func deltaInterrupt(tr *trace) {
	b := newProgram(graph.Key("items", deltaItems(100)), graph.Key("n", channel.LastValue[int]()))
	b.Node("a", func(context.Context, any) (any, error) { return m{"items": []string{"a"}}, nil })
	b.Node("ask", func(ctx context.Context, _ any) (any, error) {
		v, err := pregel.AskFor[string](ctx, "?")
		if err != nil {
			return nil, err
		}
		return m{"items": []string{v}}, nil
	})
	b.Node("z", func(_ context.Context, s any) (any, error) {
		if len(items(s)) > 5 {
			return m{"items": pregel.Overwrite{Value: []string{"z"}}}, nil
		}
		return m{"items": []string{"z"}}, nil
	})
	b.Edge(graph.Start, "a").Edge(graph.Start, "ask").Join([]string{"a", "ask"}, "z")
	g := tr.saved(b)
	tr.run(g, m{"items": []string{"in"}})
	tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "r", Update: m{"items": []string{"upd"}}})
	tr.run(g, m{"items": []string{"in2", "in3"}})
	tr.run(g, pregel.Command{Resume: "r2"})
	tr.history(g)
}

func fails(text string) pregel.Func {
	return func(context.Context, any) (any, error) { return nil, boom{text} }
}

func handled(ctx context.Context) string {
	info, _ := pregel.Task(ctx)
	return fmt.Sprintf("handled %s: %v", info.Failure.Node, info.Failure.Err)
}

func errorHandler(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("f", fails("broken"), graph.NodeOptions{OnError: func(ctx context.Context, _ any) (any, error) {
		return pregel.Command{Update: in(handled(ctx)), Goto: "z"}, nil
	}})
	addNodes(b, "z")
	b.Edge(graph.Start, "f").Edge(graph.Start, "a")
	g := tr.saved(b)
	tr.run(g, in())
	tr.history(g)
}

func errorHandlerCrash(tr *trace) {
	b := builder()
	b.Node("f", func(ctx context.Context, _ any) (any, error) { tr.does(ctx, "f", nil); return nil, boom{"broken"} },
		graph.NodeOptions{OnError: func(ctx context.Context, _ any) (any, error) {
			if tr.does(ctx, "h", nil) == 1 {
				return nil, boom{"handler broken"}
			}
			return in(handled(ctx)), nil
		}})
	b.Edge(graph.Start, "f")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
	tr.run(g, nil)
	tr.show("calls", func() any { return m{"f": len(tr.did("f")), "h": len(tr.did("h"))} })
}

func newCache(tr *trace) cache.Cache {
	kept, err := cache.NewMemory(cache.Options{})
	if err != nil {
		tr.t.Fatal(err)
	}
	return kept
}

func nodeCache(tr *trace) {
	b := newProgram(graph.Key("key", channel.LastValue[int]()), graph.Key("steps", channel.Reduce(channel.Append[string])))
	b.Node("work", func(ctx context.Context, _ any) (any, error) { tr.does(ctx, "work", nil); return in("w"), nil },
		graph.NodeOptions{Cache: &pregel.CachePolicy{Key: func(s any) (string, error) { return fmt.Sprint(s.(m)["key"]), nil }}})
	addNodes(b, "z")
	b.Sequence(graph.Start, "work", "z")
	g := tr.compile(b, graph.Options{Saver: tr.saver, Cache: newCache(tr)})
	input := pregel.Pairs{{Key: "key", Value: 1}, {Key: "steps", Value: []string{}}}
	tr.run(g, input)
	tr.run(g, input)
	if err := g.ClearCache(ctx); err != nil {
		tr.t.Fatal(err)
	}
	tr.run(g, input)
	tr.show("runs", func() any { return len(tr.did("work")) })
}

func drain(tr *trace) {
	control := &pregel.Control{}
	b := builder()
	b.Node("a", func(context.Context, any) (any, error) { control.RequestDrain("sigterm"); return in("a"), nil })
	addNodes(b, "b")
	b.Sequence(graph.Start, "a", "b")
	g := tr.saved(b)
	cfg := tr.config()
	cfg.Control = control
	tr.run(g, in(), cfg)
	tr.state(g, false)
	tr.run(g, nil)
}

func customStream(tr *trace) {
	node := func(tag string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			return in(tag), errors.Join(pregel.Emit(ctx, tag+" begins"), pregel.Emit(ctx, m{"tag": tag}))
		}
	}
	inner := builder()
	inner.Node("i", node("inner")).Edge(graph.Start, "i")
	b := builder()
	b.Node("a", node("outer")).Subgraph("sub", tr.compile(inner, graph.Options{}))
	b.Sequence(graph.Start, "a", "sub")
	tr.run(tr.saved(b), in())
}

func managedValues(tr *trace) {
	b := newProgram(graph.Key("steps", channel.Reduce(channel.Append[string])), graph.Computed("last", channel.IsLastStep), graph.Computed("left", channel.RemainingSteps))
	python := map[any]string{true: "True", false: "False"}
	b.Node("a", func(_ context.Context, s any) (any, error) {
		return in(fmt.Sprint(python[s.(m)["last"]], " ", s.(m)["left"])), nil
	})
	b.Edge(graph.Start, "a")
	b.Conditional("a", "again", func(_ context.Context, s any) (any, error) {
		if !s.(m)["last"].(bool) && s.(m)["left"].(int) > 2 {
			return "a", nil
		}
		return graph.End, nil
	}, "a", graph.End)
	g := tr.saved(b)
	cfg := tr.config()
	cfg.RecursionLimit = 5
	tr.run(g, in(), cfg)
}

func retries(tr *trace) {
	policy := pregel.RetryPolicy{InitialInterval: time.Millisecond, NoJitter: true}
	twice := policy
	twice.MaxAttempts = 2
	b := builder()
	b.Node("f", func(ctx context.Context, _ any) (any, error) {
		calls := tr.does(ctx, "f", nil)
		if calls < 3 {
			return nil, boom{fmt.Sprint("try ", calls)}
		}
		return in(fmt.Sprint("ok ", calls)), nil
	}, graph.NodeOptions{Retry: []pregel.RetryPolicy{policy}})
	b.Node("g", fails("for good"), graph.NodeOptions{Retry: []pregel.RetryPolicy{twice}})
	b.Sequence(graph.Start, "f", "g")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
}

func functionalNested(tr *trace) {
	leaf := pregel.NewTask("leaf", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	mid := pregel.NewTask("mid", func(ctx context.Context, n int) (int, error) {
		v, err := leaf.Call(ctx, n)
		return v * 10, err
	})
	bad := pregel.NewTask("fails", func(context.Context, int) (int, error) { return 0, boom{"caught"} })
	flow, err := pregel.Entrypoint("flow", func(ctx context.Context, n int) ([]any, error) {
		one, err := mid.Call(ctx, n)
		if err != nil {
			return nil, err
		}
		two, err := mid.Call(ctx, n+1)
		if err != nil {
			return nil, err
		}
		_, err = bad.Call(ctx, 1)
		return []any{one, two, err.Error()}, nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Hooks: tr.hooks(), Env: tr.env, LangGraph: true}})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.run(flow, 1)
	tr.history(flow)
}

func sendsToSubgraph(tr *trace) {
	inner := builder()
	inner.Node("i", func(ctx context.Context, s any) (any, error) {
		v, err := pregel.AskFor[string](ctx, "? "+s.(m)["steps"].([]string)[0])
		if err != nil {
			return nil, err
		}
		return in(v), nil
	}).Edge(graph.Start, "i")
	b := builder()
	b.Subgraph("sub", tr.compile(inner, graph.Options{}))
	addNodes(b, "z")
	b.Conditional(graph.Start, "fan", func(context.Context, any) (any, error) {
		return []pregel.Send{{Node: "sub", Arg: in("x")}, {Node: "sub", Arg: in("y")}}, nil
	}, "sub")
	b.Edge("sub", "z")
	g := tr.saved(b)
	tr.run(g, in())
	s := tr.state(g, true)
	tr.run(g, pregel.Command{Resume: m{s.Interrupts[1].ID: "Y"}})
	s = tr.state(g, false)
	tr.run(g, pregel.Command{Resume: m{s.Interrupts[0].ID: "X"}})
}

func threeLevels(tr *trace) {
	low := builder()
	addNodes(low, "low1")
	low.Node("ask", asker("low?")).Sequence(graph.Start, "low1", "ask")
	mid := builder()
	addNodes(mid, "mid1")
	mid.Subgraph("low", tr.compile(low, graph.Options{})).Sequence(graph.Start, "mid1", "low")
	top := builder()
	top.Subgraph("mid", tr.compile(mid, graph.Options{}))
	addNodes(top, "end")
	top.Sequence(graph.Start, "mid", "end")
	g := tr.saved(top)
	tr.run(g, in())
	s := tr.state(g, true)
	tr.update(g, on(s.Tasks[0].State.Address), pregel.StateUpdate{Values: in("patched"), AsNode: "mid1"})
	tr.state(g, true)
	tr.run(g, nil)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
}

func bulkUpdates(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	call(tr, "update", func(bool) any {
		tr.typed.past(several)
		out, err := g.BulkUpdateState(ctx, tr.config().Address, [][]pregel.StateUpdate{
			{{Values: in("in"), AsNode: pregel.Input}},
			{{Values: in("in"), AsNode: pregel.Start}},
			{{Values: in("x"), AsNode: "a"}, {Values: in("y"), AsNode: "a"}},
		})
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.put(m{"updated": m{"thread_id": out.ThreadID, "checkpoint_ns": out.Namespace, "checkpoint_id": out.CheckpointID}})
		return nil
	})
	tr.state(g, false)
	tr.run(g, nil)
	h := tr.history(g)
	tr.update(g, on(h[1].Address), pregel.StateUpdate{AsNode: pregel.Copy, Values: []pregel.StateUpdate{{Values: in("copied"), AsNode: "b"}}})
	tr.history(g)
}

func untracked(tr *trace) {
	b := newProgram(graph.Key("steps", channel.Reduce(channel.Append[string])), graph.Key("secret", channel.UntrackedValue[string](channel.Guarded)))
	secret := func(s any) string {
		if v, ok := s.(m)["secret"].(string); ok {
			return v
		}
		return "none"
	}
	b.Node("a", func(context.Context, any) (any, error) {
		return pregel.Pairs{{Key: "steps", Value: []string{"a"}}, {Key: "secret", Value: "s1"}}, nil
	})
	b.Node("w", func(_ context.Context, s any) (any, error) { return in(secret(s) + s.(m)["x"].(string)), nil })
	b.Node("b", func(_ context.Context, s any) (any, error) { return in("b" + secret(s)), nil })
	b.Edge(graph.Start, "a")
	b.Conditional("a", "fan", func(_ context.Context, s any) (any, error) {
		return []any{pregel.Send{Node: "w", Arg: m{"secret": s.(m)["secret"], "x": "1"}}, "b"}, nil
	}, "w", "b")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
}

func resumeAtCheckpoint(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("ask", asker("?"))
	addNodes(b, "side")
	b.Edge(graph.Start, "a").Edge("a", "ask").Edge("a", "side")
	g := tr.saved(b)
	tr.run(g, in())
	s := tr.state(g, false)
	tr.run(g, pregel.Command{Resume: "at head"}, on(s.Address))
	tr.run(g, pregel.Command{Resume: "late"}, on(s.Address))
	tr.run(g, in("more"))
	tr.history(g)
}
