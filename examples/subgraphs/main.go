// Command subgraphs runs a graph as a node of another. The inner one keeps its
// history in a namespace of its own, can wait for an answer, and can be looked
// into while it waits.
//
//	go run ./examples/subgraphs
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// Article is the state of the outer graph, and Review that of the inner one.
type (
	Article struct {
		Text string `json:"text"`
		Done string `json:"done"`
	}
	Review struct {
		Draft  string `json:"draft"`
		Better string `json:"better"`
	}
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func compose(_ context.Context, r *Review) (graph.Update, error) {
	return graph.Write(&r.Draft, "a first draft"), nil
}

func edit(ctx context.Context, r *Review) (graph.Update, error) {
	better, err := pregel.AskFor[string](ctx, fmt.Sprintf("improve %q", r.Draft))
	if err != nil {
		return nil, err
	}
	return graph.Write(&r.Better, better), nil
}

func build() (*graph.Graph[Article], error) {
	inner, err := graph.For[Review]().Node("compose", compose).Node("edit", edit).
		Sequence(graph.Start, "compose", "edit", graph.End).
		Compile(graph.Options{Name: "review"})
	if err != nil {
		return nil, err
	}
	review := func(ctx context.Context, a *Article) (graph.Update, error) {
		res, err := inner.Run(ctx, pregel.Inside(), Review{Draft: a.Text})
		if err != nil {
			return nil, err // also a question: the outer run stops too
		}
		return graph.Write(&a.Text, res.State.Better), nil
	}
	publish := func(_ context.Context, a *Article) (graph.Update, error) {
		return graph.Write(&a.Done, "published"), nil
	}
	return graph.For[Article]().
		Node("review", review, graph.NodeOptions{Subgraphs: []*pregel.Graph{inner.Untyped()}}).
		Node("publish", publish).
		Sequence(graph.Start, "review", "publish", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
}

func run(ctx context.Context, out io.Writer) error {
	g, err := build()
	if err != nil {
		return err
	}
	at := pregel.Thread("t")
	res, err := g.Run(ctx, at, Article{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "asked:", res.Waiting[0].Value)
	outer, err := g.State(ctx, at, pregel.StateOptions{Subgraphs: true})
	if err != nil {
		return err
	}
	inner := outer.Tasks[0].State
	fmt.Fprintf(out, "outside next %v, inside next %v with %v\n", outer.Next, inner.Next, inner.Map()["draft"])
	if res, err = g.Resume(ctx, at, "a better text"); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", res.State.Done, res.State.Text)
	return nil
}
