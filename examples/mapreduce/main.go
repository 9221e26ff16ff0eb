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

func run(ctx context.Context, out io.Writer) error {
	g, err := graph.New(
		graph.Key("text", channel.LastValue[string]()),
		graph.Key("counts", channel.Reduce(channel.Append[string])),
		graph.Key("summary", channel.LastValue[string]()),
	).
		Node("split", func(_ context.Context, in any) (any, error) {
			var sends []pregel.Send
			for _, line := range strings.Split(in.(state)["text"].(string), "\n") {
				sends = append(sends, pregel.Send{Node: "count", Arg: line})
			}
			return pregel.Command{Goto: sends}, nil
		}).
		Node("count", pregel.NodeOf(func(_ context.Context, line string) (any, error) {
			return state{"counts": []string{fmt.Sprintf("%d words in %q", len(strings.Fields(line)), line)}}, nil
		})).
		Node("sum", func(_ context.Context, in any) (any, error) {
			return state{"summary": fmt.Sprint(len(in.(state)["counts"].([]string)), " lines counted")}, nil
		}).
		Edge(graph.Start, "split").Edge("count", "sum").Edge("sum", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread("hamlet"), state{"text": "to be\nor not to be\nthat is"}, pregel.RunOptions{MaxConcurrency: 2})
	if err != nil {
		return err
	}
	for _, c := range res.Map()["counts"].([]string) {
		fmt.Fprintln(out, c)
	}
	fmt.Fprintln(out, res.Map()["summary"])
	return nil
}
