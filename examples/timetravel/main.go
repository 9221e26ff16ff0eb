// Command timetravel looks at the history of a thread, goes back to one of its
// checkpoints, changes the state there and runs on: a fork. Both branches stay.
//
//	go run ./examples/timetravel
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Joke is the state.
type Joke struct {
	Topic string `json:"topic"`
	Text  string `json:"text"`
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func build(s saver.Saver) (*graph.Graph[Joke], error) {
	return graph.For[Joke]().
		Node("choose", func(_ context.Context, j *Joke) (graph.Update, error) { return graph.Write(&j.Topic, "cats"), nil }).
		Node("write", func(_ context.Context, j *Joke) (graph.Update, error) {
			return graph.Write(&j.Text, "a joke about "+j.Topic), nil
		}).
		Sequence(graph.Start, "choose", "write", graph.End).
		Compile(graph.Options{Saver: s})
}

func run(ctx context.Context, out io.Writer) error {
	g, err := build(memory.New(memory.Options{}))
	if err != nil {
		return err
	}
	at := pregel.Thread("t")
	if _, err := g.Run(ctx, at, Joke{}); err != nil {
		return err
	}
	var before *graph.Snapshot[Joke] // the state before "write" ran
	for s, err := range g.History(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			return err
		}
		step, _ := s.Metadata.Step()
		fmt.Fprintf(out, "step %d, next %v: %+v\n", step, s.Next, s.State)
		if slices.Contains(s.Next, "write") {
			before = s
		}
	}

	res, err := g.Fork(ctx, before.Address, func(j *Joke) graph.Update { return graph.Write(&j.Topic, "dogs") })
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "forked:", res.State.Text)

	// The old branch is still there: replaying from its checkpoint runs "write"
	// again with the old topic.
	if res, err = g.Continue(ctx, before.Address); err != nil {
		return err
	}
	fmt.Fprintln(out, "replayed:", res.State.Text)
	return nil
}
