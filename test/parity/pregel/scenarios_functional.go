package traces

import (
	"context"
	"strconv"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"functional_map": functionalMap, "functional_questions": functionalQuestions, "functional_asking_tasks": functionalAskingTasks,
		"functional_with_graph": functionalWithGraph, "functional_failing_task": functionalFailingTask,
	} {
		scenarios[name] = f
	}
}

// entry is a functional graph with the trace's saver.
func entry[I, O any](tr *trace, f func(context.Context, I) (O, error), runs ...*pregel.Graph) *pregel.Graph {
	g, err := pregel.Entrypoint("flow", f, pregel.EntrypointOptions{Options: pregel.Options{Saver: tr.saver, Hooks: tr.hooks(), Env: tr.env, LangGraph: true}, Subgraphs: runs})
	if err != nil {
		tr.t.Fatal(err)
	}
	return g
}

// mapped calls the task for all numbers, asks, and joins results and answer. It
// waits for each call, because the harness runs calls of LangGraph inline.
func mapped(ctx context.Context, t *pregel.TaskFunc[int, string], ns []int) ([]string, error) {
	var out []string
	for _, n := range ns {
		s, err := t.Call(ctx, n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	answer, err := pregel.AskFor[string](ctx, "question")
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] += answer
	}
	return out, nil
}

func functionalMap(tr *trace) {
	mapper := pregel.NewTask("mapper", func(ctx context.Context, n int) (string, error) {
		tr.does(ctx, "mapper", n)
		return strings.Repeat(strconv.Itoa(n), 2), nil
	})
	flow := entry(tr, func(ctx context.Context, ns []int) ([]string, error) { return mapped(ctx, mapper, ns) })
	tr.run(flow, []int{0, 1})
	tr.state(flow, false)
	tr.resume(flow, "answer")
	tr.history(flow)
	tr.show("calls", func() any { return tr.did("mapper") })
}

func functionalQuestions(tr *trace) {
	double := pregel.NewTask("double", func(ctx context.Context, n int) (int, error) {
		tr.does(ctx, "double", n)
		return n * 2, nil
	})
	flow := entry(tr, func(ctx context.Context, _ int) ([]any, error) {
		var values []any
		for i := 1; i <= 3; i++ {
			n, err := double.Call(ctx, i)
			if err != nil {
				return nil, err
			}
			answer, err := pregel.Ask(ctx, "q"+strconv.Itoa(i))
			if err != nil {
				return nil, err
			}
			values = append(values, n, answer)
		}
		return values, nil
	})
	tr.run(flow, 0)
	tr.resume(flow, "a", "b", "c")
	tr.history(flow)
	tr.show("runs", func() any { return tr.did("double") })
}

func functionalAskingTasks(tr *trace) {
	setup := pregel.NewTask("setup", func(_ context.Context, s string) (string, error) { return s + "!", nil })
	ask := pregel.NewTask("ask", func(ctx context.Context, q string) (string, error) { return pregel.AskFor[string](ctx, q) })
	flow := entry(tr, func(ctx context.Context, s string) (m, error) {
		s, err := setup.Call(ctx, s)
		if err != nil {
			return nil, err
		}
		answers := []string{}
		for _, q := range []string{"one?", "two?"} {
			a, err := ask.Call(ctx, q)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
		return m{"answers": answers, "s": s}, nil
	})
	tr.run(flow, "hi")
	tr.resume(flow, "1")
	tr.state(flow, false)
	tr.resume(flow, "2")
	tr.history(flow)
}

func functionalWithGraph(tr *trace) {
	sub := tr.counter(graph.Options{})
	leaf := pregel.NewTask("leaf", func(_ context.Context, n int) (string, error) { return strconv.Itoa(n), nil })
	outer := pregel.NewTask("outer", func(ctx context.Context, n int) (string, error) {
		s, err := leaf.Call(ctx, n)
		return s + s, err
	})
	flow := entry(tr, func(ctx context.Context, ns []int) ([]string, error) {
		words, err := mapped(ctx, outer, ns)
		if err != nil {
			return nil, err
		}
		res, err := sub.Invoke(ctx, pregel.Inside(), in(words...))
		if err != nil {
			return nil, err
		}
		return stepsOf(res.Value), nil
	}, sub)
	tr.run(flow, []int{0, 1})
	tr.resume(flow, "a")
	tr.history(flow)
}

func functionalFailingTask(tr *trace) {
	good := pregel.NewTask("good", func(ctx context.Context, w string) (string, error) {
		tr.does(ctx, "calls", w)
		return w, nil
	})
	flaky := pregel.NewTask("flaky", func(ctx context.Context, w string) (string, error) {
		if tr.does(ctx, "calls", w) < 3 {
			return "", boom{"not yet"}
		}
		return w, nil
	})
	flow := entry(tr, func(ctx context.Context, _ int) ([]string, error) {
		g, err := good.Call(ctx, "g")
		if err != nil {
			return nil, err
		}
		f, err := flaky.Call(ctx, "f")
		return []string{g, f}, err
	})
	tr.run(flow, 0)
	tr.state(flow, false)
	tr.run(flow, nil)
	tr.history(flow)
	tr.show("calls", func() any { return tr.did("calls") })
}
