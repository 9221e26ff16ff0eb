// Command mapreduce sends one packet to a node for each part of the work; the
// parts run in parallel in one superstep, and a reducer collects what they make,
// in the order of the packets whatever the order in which they end.
//
//	go run ./examples/mapreduce
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// Text is the state.
type Text struct {
	Body    string   `json:"body"`
	Counts  []string `json:"counts" state:"append"`
	Summary string   `json:"summary"`
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func countWords(_ context.Context, line string, t *Text) (graph.Update, error) {
	return graph.Write(&t.Counts, []string{fmt.Sprintf("%d words in %q", len(strings.Fields(line)), line)}), nil
}

func sum(_ context.Context, t *Text) (graph.Update, error) {
	return graph.Write(&t.Summary, fmt.Sprint(len(t.Counts), " lines counted")), nil
}

func run(ctx context.Context, out io.Writer) error {
	b := graph.For[Text]()
	count := graph.Worker(b, "count", countWords)
	g, err := b.Node("split", func(_ context.Context, t *Text) (graph.Update, error) {
		return count.Send(strings.Split(t.Body, "\n")...), nil
	}).
		Node("sum", sum).
		Edge(graph.Start, "split").Edge("count", "sum").Edge("sum", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		return err
	}
	res, err := g.Run(ctx, pregel.Thread("hamlet"), Text{Body: "to be\nor not to be\nthat is"}, pregel.RunOptions{MaxConcurrency: 2})
	if err != nil {
		return err
	}
	for _, c := range res.State.Counts {
		fmt.Fprintln(out, c)
	}
	fmt.Fprintln(out, res.State.Summary)
	return nil
}
