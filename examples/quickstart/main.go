// Command quickstart is a graph over a struct: it asks, stops, and goes on with the answer.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// Letter is the state.
type Letter struct {
	To   string   `json:"to"`
	Text []string `json:"text" state:"append"`
}

func draft(_ context.Context, l *Letter) (graph.Update, error) {
	return graph.Write(&l.Text, []string{"Dear " + l.To}), nil
}

func approve(ctx context.Context, l *Letter) (graph.Update, error) {
	answer, err := pregel.AskFor[string](ctx, fmt.Sprintf("send %q?", l.Text))
	if err != nil {
		return nil, err // the run stops here, and this node runs again with the answer
	}
	return graph.Write(&l.Text, []string{"approved: " + answer}), nil
}

func main() {
	g, err := graph.For[Letter]().Node("draft", draft).Node("approve", approve).
		Sequence(graph.Start, "draft", "approve", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		log.Fatal(err)
	}
	ctx, thread := context.Background(), pregel.Thread("letter-1")
	res, err := g.Run(ctx, thread, Letter{To: "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting for:", res.Waiting[0].Value)
	if res, err = g.Resume(ctx, thread, "yes"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done:", res.State.Text)
}
