package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
)

// chat is a graph whose threads grow by two messages each run.
func chat(d *disk.Saver) (*pregel.Graph, error) {
	return graph.New(graph.Key("messages", channel.Reduce(channel.Append[string]))).
		Node("answer", func(_ context.Context, state any) (any, error) {
			said := state.(map[string]any)["messages"].([]string)
			return map[string]any{"messages": []string{fmt.Sprintf("answer to %q", said[len(said)-1])}}, nil
		}).
		Sequence(graph.Start, "answer", graph.End).
		Compile(graph.Options{Saver: d})
}

// threads is how many conversations there are.
const threads = 20

// work runs the graph until ctx ends.
func work(ctx context.Context, d *disk.Saver, every time.Duration) error {
	g, err := chat(d)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		in := map[string]any{"messages": []string{fmt.Sprintf("question %d", n)}}
		_, err := g.Invoke(ctx, pregel.Thread(fmt.Sprintf("conversation-%d", n%threads)), in)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
