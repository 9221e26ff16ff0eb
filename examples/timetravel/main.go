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
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

type state = map[string]any

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func build(s saver.Saver) (*pregel.Graph, error) {
	return graph.New(graph.Key("topic", channel.LastValue[string]()), graph.Key("joke", channel.LastValue[string]())).
		Node("choose", func(context.Context, any) (any, error) { return state{"topic": "cats"}, nil }).
		Node("write", func(_ context.Context, in any) (any, error) {
			return state{"joke": fmt.Sprint("a joke about ", in.(state)["topic"])}, nil
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
	if _, err := g.Invoke(ctx, at, state{"topic": ""}); err != nil {
		return err
	}
	var before *pregel.StateSnapshot // the state before "write" ran
	for s, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			return err
		}
		step, _ := s.Metadata.Step()
		fmt.Fprintf(out, "step %d, next %v: %v\n", step, s.Next, s.Values)
		if slices.Contains(s.Next, "write") {
			before = s
		}
	}

	fork, err := g.UpdateState(ctx, before.Address, pregel.StateUpdate{Values: state{"topic": "dogs"}})
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, fork, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "forked:", res.Map()["joke"])

	// The old branch is still there: replaying from its checkpoint runs "write"
	// again with the old topic.
	if res, err = g.Invoke(ctx, before.Address, nil); err != nil {
		return err
	}
	fmt.Fprintln(out, "replayed:", res.Map()["joke"])
	return nil
}
