package traces

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

func (tr *trace) inner(o graph.Options) *pregel.Graph {
	b := builder()
	addNodes(b, "first")
	b.Node("ask", asker("?"))
	addNodes(b, "last")
	b.Sequence(graph.Start, "first", "ask", "last")
	return tr.compile(b, o)
}

func (tr *trace) outer(inner *pregel.Graph) *pregel.Graph {
	b := builder()
	addNodes(b, "before")
	b.Subgraph("sub", inner)
	addNodes(b, "after")
	b.Sequence(graph.Start, "before", "sub", "after")
	return tr.saved(b)
}

func subgraphInterrupt(tr *trace) {
	g := tr.outer(tr.inner(graph.Options{}))
	tr.run(g, in())
	tr.state(g, false)
	tr.state(g, true)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
	tr.run(g, in("2"))
	tr.run(g, pregel.Command{Resume: "again"})
}

func subgraphStateful(tr *trace) {
	g := tr.outer(tr.inner(graph.Options{Checkpointing: pregel.Stable}))
	tr.run(g, in())
	tr.state(g, true)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.run(g, in("2"))
	tr.run(g, pregel.Command{Resume: "again"})
}

func subgraphPlain(tr *trace) {
	b := builder()
	addNodes(b, "i1", "i2")
	b.Sequence(graph.Start, "i1", "i2")
	tr.run(tr.outer(tr.compile(b, graph.Options{})), in())
}

func subgraphCalledTwice(tr *trace) {
	b := builder()
	addNodes(b, "i")
	b.Edge(graph.Start, "i")
	sub := tr.compile(b, graph.Options{Checkpointing: pregel.Stable})
	o := builder()
	o.Node("call", func(ctx context.Context, _ any) (any, error) {
		var out []string
		for _, w := range []string{"x", "y"} {
			res, err := sub.Invoke(ctx, pregel.Inside(), in(w))
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprint(len(res.Map()["steps"].([]string))))
		}
		return m{"steps": out}, nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{sub}})
	o.Edge(graph.Start, "call")
	g := tr.saved(o)
	tr.run(g, in())
	tr.run(g, in())
}

func parentCommand(tr *trace) {
	b := builder()
	b.Node("i", func(context.Context, any) (any, error) {
		return pregel.Command{Graph: pregel.Parent, Update: in("up"), Goto: "jump"}, nil
	})
	b.Edge(graph.Start, "i")
	o := builder()
	o.Subgraph("sub", tr.compile(b, graph.Options{}))
	addNodes(o, "jump")
	o.Edge(graph.Start, "sub")
	tr.run(tr.saved(o), in())
}

func nextIs(h []*pregel.StateSnapshot, node string) *pregel.StateSnapshot {
	for _, s := range h {
		if len(s.Next) == 1 && s.Next[0] == node {
			return s
		}
	}
	return nil
}

func timeTravel(tr *trace) {
	b := builder()
	addNodes(b, "a")
	b.Node("ask", asker("?"))
	addNodes(b, "c")
	b.Sequence(graph.Start, "a", "ask", "c")
	g := tr.saved(b)
	tr.run(g, in())
	tr.run(g, pregel.Command{Resume: "one"})
	h := tr.history(g)
	before := nextIs(h, "ask")
	tr.run(g, nil, on(before.Address))
	tr.run(g, pregel.Command{Resume: "two"})
	forked := tr.update(g, on(before.Address), pregel.StateUpdate{Values: in("forked"), AsNode: "a"})
	tr.run(g, nil, forked)
	tr.run(g, pregel.Command{Resume: "three"})
	tr.run(g, nil, on(h[0].Address))
	tr.run(g, in("new"), on(before.Address))
	tr.history(g)
}

func timeTravelSubgraph(tr *trace) {
	g := tr.outer(tr.inner(graph.Options{Checkpointing: pregel.Stable}))
	tr.run(g, in())
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.run(g, in("2"))
	mid := tr.state(g, true)
	tr.run(g, pregel.Command{Resume: "again"})
	before := nextIs(tr.history(g), "sub")
	tr.run(g, nil, on(before.Address))
	tr.run(g, pregel.Command{Resume: "replayed"})
	tr.run(g, nil, on(mid.Tasks[0].State.Address))
	tr.run(g, pregel.Command{Resume: "inner"})
}

func updates(tr *trace) {
	g := tr.line([]string{"a", "b"}, graph.Options{})
	fresh := tr.config("fresh")
	tr.update(g, fresh, pregel.StateUpdate{Values: in("u"), AsNode: "a"})
	tr.state(g, false, fresh)
	tr.run(g, nil, fresh)
	tr.run(g, in("in"))
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("u")})
	tr.update(g, tr.config(), pregel.StateUpdate{AsNode: pregel.End})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("i"), AsNode: pregel.Input})
	tr.state(g, false)
	tr.run(g, nil)
	h := tr.history(g)
	tr.update(g, on(h[2].Address), pregel.StateUpdate{AsNode: pregel.Copy})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: in("x"), AsNode: "nobody"})
	tr.history(g)
}
