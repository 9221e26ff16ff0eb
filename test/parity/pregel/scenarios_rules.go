package traces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/store"
)

func init() {
	for name, f := range map[string]func(*trace){
		"branch_reads": branchReads, "empty_input": emptyInput, "question_without_saver": questionWithoutSaver, "lifecycle": lifecycle,
		"handler_above": handlerAbove, "two_handlers": twoHandlers, "node_defaults": nodeDefaults, "drain_last": drainLast,
		"drain_below": drainBelow, "functional_drain": functionalDrain, "functional_question_below": functionalQuestionBelow, "runtime_of_tasks": runtimeOfTasks, "store_in_nodes": storeInNodes,
		"node_named_as_key": nodeNamedAsKey, "question_with_schema": questionWithSchema, "handler_after_sibling": handlerAfterSibling, "drain_seen": drainSeen,
	} {
		scenarios[name] = f
	}
	normalisers = append(normalisers, &normaliser{name: "a task inside knows the id of its run",
		why: "LangGraph gives the graphs inside a run the run's id as metadata, but not their tasks",
		apply: func(scenario string, _ pregel.Durability, lines []string) (n int) {
			for i, l := range lines {
				if scenario == "runtime_of_tasks" && strings.Contains(l, `"custom"`) && strings.Contains(l, `"node":"i"`) {
					lines[i] = strings.Replace(l, `"run_id":"11111111-2222-3333-4444-555555555555"`, `"run_id":null`, 1)
					n += b2i(lines[i] != l)
				}
			}
			return n
		}})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func keysOf(s any) string { return strings.Join(slices.Sorted(maps.Keys(s.(m))), " ") }

func branchReads(tr *trace) {
	b := newProgram(graph.Key("steps", channel.Reduce(channel.Append[string])), graph.Key("secret", channel.LastValue[string]()))
	shown := graph.NodeOptions{Reads: []string{"steps"}}
	said := func(name, to string) graph.Path {
		return func(ctx context.Context, s any) (any, error) { return to, pregel.Emit(ctx, name+": "+keysOf(s)) }
	}
	b.Node("a", returns(pregel.Pairs{{Key: "steps", Value: []string{"a"}}, {Key: "secret", Value: "x"}, {Key: "extra", Value: 1}}), shown)
	b.Node("b", returns(m{"steps": []string{"b"}, "extra": 2}), shown)
	for name, reads := range map[string][]string{"c": {"secret"}, "d": {"secret", "steps"}} {
		b.Node(name, func(_ context.Context, s any) (any, error) { return in(name + " " + keysOf(s)), nil }, graph.NodeOptions{Reads: reads})
	}
	b.Edge(graph.Start, "a").Edge(graph.Start, "b")
	b.Branch("a", "route", said("route", "c"), graph.BranchOptions{Reads: []string{"secret"}})
	b.Branch("a", "all_of", said("all_of", "d"), graph.BranchOptions{Reads: []string{"secret", "steps"}})
	b.Conditional("b", "plain", said("plain", graph.End), graph.End)
	tr.run(tr.saved(b), in())
}

func emptyInput(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	tr.run(g, m{})
	tr.run(g, m{})
	tr.history(g)
}

func questionWithoutSaver(tr *trace) {
	runs := 0
	b := builder()
	addNodes(b, "a", "side")
	b.Node("ask", func(ctx context.Context, s any) (any, error) {
		runs++
		return asker("Just because...")(ctx, s)
	}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{InitialInterval: time.Millisecond}}})
	b.Edge(graph.Start, "a").Edge("a", "ask").Edge("a", "side")
	tr.run(tr.compile(b, graph.Options{}), in("in"))
	tr.put(m{"runs": runs})
}

func lifecycle(tr *trace) {
	events := []any{}
	note := func(kind string, i pregel.RunInfo, ids []any) {
		var interrupts any
		if ids != nil {
			interrupts = ids
		}
		ns := []string{}
		if i.Namespace != "" {
			ns = strings.Split(i.Namespace, "|")
		}
		events = append(events, m{"kind": kind, "status": i.Status, "checkpoint_id": i.CheckpointID, "ns": ns, "interrupts": interrupts})
	}
	hooks := pregel.Hooks{
		Resume: func(i pregel.RunInfo) {
			note("resume", i, nil)
			panic("a hook")
		},
		Interrupt: func(i pregel.RunInfo, list []pregel.Interrupt) {
			ids := []any{}
			for _, in := range list {
				ids = append(ids, in.ID)
			}
			note("interrupt", i, ids)
			panic("a hook")
		},
	}
	inner := tr.compile(builder().Node("i", asker("inner?")).Edge(graph.Start, "i"), graph.Options{Hooks: hooks})
	b := builder().Node("ask", asker("one?", "two?")).Subgraph("sub", inner)
	addNodes(b, "z")
	g := tr.compile(b.Sequence(graph.Start, "ask", "sub", "z"), graph.Options{Saver: tr.saver, InterruptBefore: []string{"z"}, Hooks: hooks})
	tr.run(g, in())
	for _, answer := range []string{"1", "2", "3"} {
		tr.run(g, pregel.Command{Resume: answer})
	}
	tr.run(g, nil)
	tr.run(g, nil)
	tr.put(m{"hooks": events})
}

func handleIt(ctx context.Context, _ any) (any, error) { return in(handled(ctx)), nil }

func handlerAbove(tr *trace) {
	inner := builder()
	addNodes(inner, "first")
	inner.Node("deep", fails("deep")).Sequence(graph.Start, "first", "deep")
	b := builder().Subgraph("sub", tr.compile(inner, graph.Options{}), graph.NodeOptions{OnError: handleIt})
	addNodes(b, "z")
	g := tr.saved(b.Sequence(graph.Start, "sub", "z"))
	tr.run(g, in())
	tr.history(g)
}

func twoHandlers(tr *trace) {
	var calls []string
	broken := true
	handle := func(ctx context.Context, v any) (any, error) {
		info, _ := pregel.Task(ctx)
		calls = append(calls, "handler of "+info.Failure.Node)
		if info.Failure.Node == "b" && broken {
			return nil, boom{"handler broken"}
		}
		return handleIt(ctx, v)
	}
	b := builder()
	for _, n := range []string{"a", "b"} {
		b.Node(n, func(context.Context, any) (any, error) {
			calls = append(calls, n)
			return nil, boom{n + " broken"}
		}, graph.NodeOptions{OnError: handle}).Edge(graph.Start, n)
	}
	addNodes(b, "c")
	g := tr.saved(b.Edge(graph.Start, "c"))
	tr.run(g, in())
	tr.state(g, false)
	broken = false
	tr.run(g, nil)
	tr.put(m{"calls": slices.DeleteFunc(calls, func(c string) bool { return strings.HasPrefix(c, "handler") })})
	tr.history(g)
}

func nodeDefaults(tr *trace) {
	calls := map[string]int{}
	tries := func(n int) []pregel.RetryPolicy {
		return []pregel.RetryPolicy{{InitialInterval: time.Millisecond, NoJitter: true, MaxAttempts: n}}
	}
	handler := func(text string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			info, _ := pregel.Task(ctx)
			return in(text + " " + info.Failure.Node), nil
		}
	}
	b := builder().Defaults(graph.NodeOptions{Retry: tries(4), OnError: handler("default")})
	for _, n := range []struct {
		name string
		opts graph.NodeOptions
	}{{"a", graph.NodeOptions{Retry: tries(2)}}, {"b", graph.NodeOptions{}}, {"c", graph.NodeOptions{OnError: handler("own")}}} {
		b.Node(n.name, func(context.Context, any) (any, error) {
			calls[n.name]++
			return nil, boom{n.name}
		}, n.opts).Edge(graph.Start, n.name)
	}
	tr.run(tr.saved(b), in())
	tr.put(m{"calls": calls})
}

func drainLast(tr *trace) {
	control := &pregel.Control{}
	b := builder()
	addNodes(b, "a")
	b.Node("last", func(context.Context, any) (any, error) {
		control.RequestDrain("too late")
		return in("last"), nil
	})
	g := tr.saved(b.Sequence(graph.Start, "a", "last"))
	cfg := tr.config()
	cfg.Control = control
	tr.run(g, in(), cfg)
	tr.state(g, false)
}

func drainBelow(tr *trace) {
	control := &pregel.Control{}
	inner := builder().Node("first", func(context.Context, any) (any, error) {
		control.RequestDrain("stop")
		return in("child first"), nil
	}).Node("second", adds("child second")).Sequence(graph.Start, "first", "second")
	b := builder().Subgraph("child", tr.compile(inner, graph.Options{Checkpointing: pregel.Stable}))
	addNodes(b, "side", "z")
	g := tr.saved(b.Edge(graph.Start, "side").Sequence(graph.Start, "child", "z"))
	cfg := tr.config()
	cfg.Control = control
	tr.run(g, in(), cfg)
	tr.state(g, true)
	tr.run(g, nil)
	tr.history(g)
}

func functionalDrain(tr *trace) {
	control := &pregel.Control{}
	double := pregel.NewTask("double", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	flow, err := pregel.Entrypoint("functional_flow", func(ctx context.Context, n int) (int, error) {
		control.RequestDrain("stop")
		n, err := double.Call(ctx, n)
		if err != nil {
			return 0, err
		}
		return double.Call(ctx, n)
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Env: tr.env, LangGraph: true}})
	if err != nil {
		tr.t.Fatal(err)
	}
	cfg := tr.config()
	cfg.Control = control
	tr.run(flow, 1, cfg)
	tr.state(flow, false)
}

func functionalQuestionBelow(tr *trace) {
	ask := pregel.NewTask("ask", func(ctx context.Context, q string) (string, error) { return pregel.AskFor[string](ctx, q) })
	inner := builder().Node("asks", func(ctx context.Context, _ any) (any, error) {
		answer, err := ask.Call(ctx, "sure?")
		return in(answer), err
	}).Sequence(graph.Start, "asks")
	g := tr.saved(builder().Subgraph("child", tr.compile(inner, graph.Options{})).Sequence(graph.Start, "child"))
	tr.run(g, in())
	tr.state(g, true)
	tr.resume(g, "yes")
	tr.history(g)
}

func runtimeOfTasks(tr *trace) {
	told := func(name string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			i, _ := pregel.Task(ctx)
			_, draining := i.Control.DrainRequested()
			var run any
			if i.RunID != "" {
				run = i.RunID
			}
			err := pregel.Emit(ctx, m{"node": i.Node, "context": i.Context, "checkpoint_id": i.CheckpointID, "checkpoint_ns": i.NS, "task_id": i.TaskID,
				"thread_id": i.ThreadID, "run_id": run, "attempt": i.Attempt, "draining": draining})
			if err == nil && name == "flaky" && i.Attempt < 2 {
				err = boom{"again"}
			}
			return in(name), err
		}
	}
	inner := tr.compile(builder().Node("i", told("i")).Edge(graph.Start, "i"), graph.Options{})
	b := builder().Node("a", told("a"))
	b.Node("flaky", told("flaky"), graph.NodeOptions{Retry: []pregel.RetryPolicy{{InitialInterval: time.Millisecond, NoJitter: true}}})
	g := tr.saved(b.Subgraph("sub", inner).Sequence(graph.Start, "a", "flaky", "sub"))
	cfg := tr.config()
	cfg.RunID, cfg.Context, cfg.Control = "11111111-2222-3333-4444-555555555555", m{"user": "u1"}, &pregel.Control{}
	tr.run(g, in(), cfg)
	tr.run(g, in())
}

func storeInNodes(tr *trace) {
	notes, err := store.NewMemory(store.Options{})
	if err != nil {
		tr.t.Fatal(err)
	}
	put := func(name string) pregel.Func {
		return func(ctx context.Context, s any) (any, error) {
			info, _ := pregel.Task(ctx)
			ns := store.Namespace{"notes", info.Context.(m)["user"].(string)}
			if err := info.Store.Put(ctx, ns, name, m{"n": len(s.(m)["steps"].([]string))}); err != nil {
				return nil, err
			}
			found, err := info.Store.Search(ctx, store.Query{Prefix: ns, ByKey: true})
			var keys []string
			for _, f := range found {
				keys = append(keys, f.Key)
			}
			return in(fmt.Sprint(name, " sees ", strings.Join(keys, " "))), err
		}
	}
	inner := tr.compile(builder().Node("i", put("i")).Edge(graph.Start, "i"), graph.Options{})
	b := builder().Node("a", put("a")).Subgraph("sub", inner).Node("z", put("z"))
	g := tr.compile(b.Sequence(graph.Start, "a", "sub", "z"), graph.Options{Saver: tr.saver, Store: notes})
	cfg, other := tr.config(), tr.config("other")
	cfg.Context, other.Context = m{"user": "u1"}, m{"user": "u2"}
	tr.run(g, in(), cfg)
	tr.run(g, in(), other)
	tr.run(g, in("in"), cfg)
}

func nodeNamedAsKey(tr *trace) {
	b := newProgram(graph.Key("steps", channel.Reduce(channel.Append[string])), graph.Key("draft", channel.LastValue[string]()))
	steps := func(s any) []string { return s.(m)["steps"].([]string) }
	b.Node("draft", func(_ context.Context, s any) (any, error) {
		return pregel.Pairs{{Key: "draft", Value: "Dear " + strings.Join(steps(s), " ")}, {Key: "steps", Value: []string{"drafted"}}}, nil
	})
	b.Node("steps", func(_ context.Context, s any) (any, error) { return in("read " + s.(m)["draft"].(string)), nil })
	b.Edge(graph.Start, "draft").Edge("steps", "draft")
	b.Branch("draft", "again", func(_ context.Context, s any) (any, error) {
		if len(steps(s)) < 4 {
			return "steps", nil
		}
		return graph.End, nil
	}, graph.BranchOptions{Ends: map[string]string{"steps": "steps", graph.End: graph.End}})
	g := tr.compile(b, graph.Options{Saver: tr.saver, InterruptAfter: []string{"steps"}})
	tr.run(g, in("Ada"))
	tr.state(g, false)
	tr.run(g, nil)
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"draft": "by hand"}, AsNode: "steps"})
	tr.history(g)
}

func questionWithSchema(tr *trace) {
	schema := m{"type": "object", "properties": m{"ok": m{"type": "boolean"}, "why": m{"type": "string"}}, "required": []any{"ok"}}
	b := builder().Node("ask", func(ctx context.Context, _ any) (any, error) {
		first, err := pregel.AskFor[map[string]any](ctx, "sure?", pregel.AskOptions{ResponseSchema: schema})
		if err != nil {
			return nil, err
		}
		second, err := pregel.Ask(ctx, "quite?")
		if err != nil {
			return nil, err
		}
		return in(map[bool]string{true: "True", false: "False"}[first["ok"].(bool)] + " " + second.(string)), nil
	}).Edge(graph.Start, "ask")
	g := tr.saved(b)
	tr.run(g, in())
	tr.state(g, false)
	tr.run(g, pregel.Command{Resume: m{"ok": true}})
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
}

// handlerAfterSibling: the second node fails when the run has stopped because of the
// first. Its failure is stored as one that has a handler.
func handlerAfterSibling(tr *trace) {
	broken := true
	begun := make(chan struct{})
	b := builder().Node("first", func(ctx context.Context, _ any) (any, error) {
		if broken {
			<-begun
			return nil, boom{"first broken"}
		}
		return in("first"), nil
	})
	b.Node("second", func(ctx context.Context, _ any) (any, error) {
		close(begun) // a second call panics
		<-ctx.Done()
		return nil, boom{"second broken"}
	}, graph.NodeOptions{OnError: handleIt})
	g := tr.saved(b.Edge(graph.Start, "first").Edge(graph.Start, "second"))
	call(tr, "run", func(bool) any {
		c := tr.life.calls[len(tr.life.calls)-1]
		cfg := tr.config()
		cfg.Durability = tr.durability
		c.input, c.cfg = in(), cfg
		if _, err := g.Invoke(ctx, cfg.Address, in(), cfg.RunOptions); err != nil {
			tr.error(err)
		}
		return nil
	})
	tr.put(m{"calls": []string{"first", "second"}})
	tr.state(g, false)
	broken = false
	tr.run(g, nil)
	tr.put(m{"calls": []string{"first", "second", "first", "handler"}})
	tr.history(g)
}

func drainSeen(tr *trace) {
	control := &pregel.Control{}
	seen := func(ctx context.Context) string {
		info, _ := pregel.Task(ctx)
		reason, requested := info.Control.DrainRequested()
		if !requested {
			return "False"
		}
		return "True " + reason
	}
	b := builder().Node("sees", func(ctx context.Context, _ any) (any, error) {
		before := seen(ctx)
		control.RequestDrain("stop")
		return in(before + " " + seen(ctx)), nil
	})
	addNodes(b, "next")
	g := tr.saved(b.Sequence(graph.Start, "sees", "next"))
	cfg := tr.config()
	cfg.Control = control
	tr.run(g, in(), cfg)
	tr.state(g, false)
	tr.run(g, nil)
	tr.history(g)
}
