package resume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

type m = map[string]any

// ran notes which tasks ran, by task id: outside of the store, so that it
// survives what the store does not.
type ran struct {
	mu    sync.Mutex
	count map[string]int
}

func newRan() *ran { return &ran{count: map[string]int{}} }

// task wraps a node so that it is noted.
func (r *ran) task(f pregel.Func) pregel.Func {
	return func(c context.Context, in any) (any, error) {
		r.note(c)
		return f(c, in)
	}
}

func (r *ran) note(c context.Context) {
	info, _ := pregel.Task(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[info.TaskID]++
}

func (r *ran) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.count {
		n += c
	}
	return n
}

// program is a graph, its input, and the answer to every question it asks.
type program struct {
	name   string
	build  func(r *ran, s saver.Saver) (*pregel.Graph, error)
	input  any
	answer func(question any) any
}

func steps() graph.Field { return graph.Key("steps", channel.Reduce(channel.Append[string])) }

func says(word string) pregel.Func {
	return func(context.Context, any) (any, error) { return m{"steps": []string{word}}, nil }
}

var programs = []program{
	{name: "line of three", build: buildLine, input: m{"steps": []string{"in"}}},
	{name: "diamond with join and deferred end", build: buildDiamond, input: m{"steps": []string{"in"}}},
	{name: "map-reduce with packets", build: buildPackets, input: m{"steps": []string{}, "n": 4}},
	{name: "loop with questions", build: buildQuestions, input: m{"steps": []string{}}, answer: func(q any) any { return fmt.Sprint("A", q) }},
	{name: "subgraph with a question", build: buildSubgraph, input: m{"steps": []string{}}, answer: func(q any) any { return fmt.Sprint("A", q) }},
	{name: "delta channel", build: buildDelta, input: m{"items": []string{"in"}}},
	{name: "functional", build: buildFunctional, input: 3, answer: func(q any) any { return "yes" }},
	{name: "error handler", build: buildHandler, input: m{"steps": []string{}}},
}

func buildLine(r *ran, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(steps()).Node("a", r.task(says("a"))).Node("b", r.task(says("b"))).Node("c", r.task(says("c")))
	return b.Sequence(graph.Start, "a", "b", "c", graph.End).Compile(graph.Options{Saver: s})
}

func buildDiamond(r *ran, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(steps())
	for _, n := range []string{"a", "b1", "b2", "b3", "b22", "c"} {
		b.Node(n, r.task(says(n)))
	}
	b.Node("last", r.task(says("last")), graph.NodeOptions{Defer: true})
	b.Edge(graph.Start, "a").Edge("a", "b1").Edge("a", "b2").Edge("a", "b3").Edge("b2", "b22")
	b.Join([]string{"b1", "b22", "b3"}, "c").Edge("a", "last").Edge("c", "last").Edge("last", graph.End)
	return b.Compile(graph.Options{Saver: s})
}

func buildPackets(r *ran, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(steps(), graph.Key("n", channel.LastValue[int]()))
	b.Node("plan", r.task(func(_ context.Context, in any) (any, error) {
		n, err := channel.Convert[int](in.(m)["n"])
		var sends []any
		for i := range n {
			sends = append(sends, pregel.Send{Node: "work", Arg: m{"job": i}})
		}
		return pregel.Command{Goto: sends}, err
	}))
	b.Node("work", r.task(func(_ context.Context, in any) (any, error) {
		return m{"steps": []string{fmt.Sprint("job ", in.(m)["job"])}}, nil
	}))
	b.Node("sum", r.task(says("sum")))
	b.Edge(graph.Start, "plan").Edge("work", "sum").Edge("sum", graph.End)
	return b.Compile(graph.Options{Saver: s})
}

func asks(words ...string) pregel.Func {
	return func(c context.Context, _ any) (any, error) {
		var got []string
		for _, w := range words {
			a, err := pregel.AskFor[string](c, w)
			if err != nil {
				return nil, err
			}
			got = append(got, a)
		}
		return m{"steps": got}, nil
	}
}

func buildQuestions(r *ran, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(steps()).Node("a", r.task(says("a"))).Node("ask", r.task(asks("1", "2"))).Node("beside", r.task(says("beside")))
	b.Edge(graph.Start, "a").Edge("a", "ask").Edge("a", "beside")
	b.Conditional("ask", "again", func(_ context.Context, state any) (any, error) {
		list, err := channel.Convert[[]string](state.(m)["steps"])
		if err == nil && len(list) < 6 {
			return "ask", nil
		}
		return graph.End, err
	}, "ask", graph.End)
	return b.Compile(graph.Options{Saver: s})
}

func buildSubgraph(r *ran, s saver.Saver) (*pregel.Graph, error) {
	inner := graph.New(steps()).Node("x", r.task(says("x"))).Node("y", r.task(asks("y?"))).Node("z", r.task(says("z")))
	sub, err := inner.Sequence(graph.Start, "x", "y", "z").Compile(graph.Options{})
	if err != nil {
		return nil, err
	}
	b := graph.New(steps()).Node("a", r.task(says("a")))
	b.Node("sub", func(c context.Context, _ any) (any, error) { // its own steps only
		res, err := sub.Invoke(c, pregel.Inside(), m{"steps": []string{}})
		if err != nil {
			return nil, err
		}
		return res.Value, nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}}).Node("end", r.task(says("end")))
	return b.Sequence(graph.Start, "a", "sub", "end").Compile(graph.Options{Saver: s})
}

func buildDelta(r *ran, s saver.Saver) (*pregel.Graph, error) {
	items := graph.Key("items", channel.Delta(3, func(v []string, ws [][]string) ([]string, error) {
		for _, w := range ws {
			v = append(v, w...)
		}
		return v, nil
	}))
	b := graph.New(items)
	names := []string{"a", "b", "c", "d", "e"}
	for _, n := range names {
		b.Node(n, r.task(func(context.Context, any) (any, error) { return m{"items": []string{n}}, nil }))
	}
	return b.Sequence(append([]string{graph.Start}, names...)...).Compile(graph.Options{Saver: s})
}

func buildFunctional(r *ran, s saver.Saver) (*pregel.Graph, error) {
	double := pregel.NewTask("double", func(c context.Context, n int) (int, error) {
		r.note(c)
		return 2 * n, nil
	})
	return pregel.Entrypoint("flow", func(c context.Context, n int) (string, error) {
		var fs []pregel.Future[int]
		for i := range n {
			fs = append(fs, double.Start(c, i))
		}
		all, err := pregel.GetAll(c, fs...)
		if err != nil {
			return "", err
		}
		ok, err := pregel.AskFor[string](c, "ok?")
		if err != nil {
			return "", err
		}
		last, err := double.Call(c, 50)
		return fmt.Sprint(all, ok, last), err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}})
}

var errAlways = errors.New("always")

func buildHandler(r *ran, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(steps()).Node("a", r.task(says("a")))
	b.Node("bad", r.task(func(context.Context, any) (any, error) { return nil, errAlways }), graph.NodeOptions{OnError: r.task(func(c context.Context, _ any) (any, error) {
		info, _ := pregel.Task(c)
		return m{"steps": []string{fmt.Sprint("handled ", info.Failure.Node, ": ", info.Failure.Err)}}, nil
	})}).Node("end", r.task(says("end")))
	return b.Edge(graph.Start, "a").Edge(graph.Start, "bad").Join([]string{"a"}, "end").Compile(graph.Options{Saver: s})
}

// drive runs the program to its end from wherever its thread stands.
func (p program) drive(ctx context.Context, g *pregel.Graph, d pregel.Durability, fresh bool) (string, error) {
	at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
	var input any
	if fresh {
		input = p.input
	}
	for range 20 {
		res, err := g.Invoke(ctx, at, input, cfg)
		if err != nil {
			return "", err
		}
		if len(res.Interrupts) == 0 {
			return fmt.Sprint(res.Value), nil
		}
		input = pregel.Command{Resume: p.answer(res.Interrupts[0].Value)}
	}
	return "", errors.New("the program asks for ever")
}

func mustBuild(t *testing.T, p program, r *ran, s saver.Saver) *pregel.Graph {
	t.Helper()
	g, err := p.build(r, s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
