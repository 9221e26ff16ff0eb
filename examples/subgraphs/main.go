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
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

type state = map[string]any

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// say is a node that sets a key.
func say(key, text string) pregel.Func {
	return func(context.Context, any) (any, error) { return state{key: text}, nil }
}

func build() (*pregel.Graph, error) {
	draft, text := graph.Key("draft", channel.LastValue[string]()), graph.Key("text", channel.LastValue[string]())
	// It shares the key "text" with the outer graph; "draft" is its own.
	review, err := graph.New(text, draft).
		Node("compose", say("draft", "a first draft")).
		Node("edit", func(ctx context.Context, in any) (any, error) {
			better, err := pregel.AskFor[string](ctx, fmt.Sprintf("improve %q", in.(state)["draft"]))
			return state{"text": better}, err
		}).
		Sequence(graph.Start, "compose", "edit", graph.End).
		Compile(graph.Options{Name: "review"})
	if err != nil {
		return nil, err
	}
	return graph.New(text, graph.Key("done", channel.LastValue[string]())).
		Subgraph("review", review).
		Node("publish", say("done", "published")).
		Sequence(graph.Start, "review", "publish", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
}

func run(ctx context.Context, out io.Writer) error {
	g, err := build()
	if err != nil {
		return err
	}
	at := pregel.Thread("t")
	res, err := g.Invoke(ctx, at, state{"text": ""})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "asked:", res.Interrupts[0].Value)
	outer, err := g.GetState(ctx, at, pregel.StateOptions{Subgraphs: true})
	if err != nil {
		return err
	}
	inner := outer.Tasks[0].State
	fmt.Fprintf(out, "outside next %v, inside next %v with %v\n", outer.Next, inner.Next, inner.Map()["draft"])
	if res, err = g.Invoke(ctx, at, pregel.Command{Resume: "a better text"}); err != nil {
		return err
	}
	fmt.Fprintf(out, "%v: %v\n", res.Map()["done"], res.Map()["text"])
	return nil
}
