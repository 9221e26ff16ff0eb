// Command quickstart is a graph in twenty lines: it asks, stops, and goes on.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

func draft(_ context.Context, state any) (any, error) {
	return map[string]any{"text": []string{"Dear " + state.(map[string]any)["to"].(string)}}, nil
}

func approve(ctx context.Context, state any) (any, error) {
	answer, err := pregel.AskFor[string](ctx, fmt.Sprintf("send %q?", state.(map[string]any)["text"]))
	if err != nil {
		return nil, err // the run stops here, and this node runs again with the answer
	}
	return map[string]any{"text": []string{"approved: " + answer}}, nil
}

func main() {
	g, err := graph.New(graph.Key("to", channel.LastValue[string]()), graph.Key("text", channel.Reduce(channel.Append[string]))).
		Node("draft", draft).Node("approve", approve).
		Sequence(graph.Start, "draft", "approve", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		log.Fatal(err)
	}
	ctx, thread := context.Background(), pregel.Thread("letter-1")
	res, err := g.Invoke(ctx, thread, map[string]any{"to": "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting for:", res.Interrupts[0].Value)
	if res, err = g.Invoke(ctx, thread, pregel.Command{Resume: "yes"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done:", res.Map()["text"])
}
