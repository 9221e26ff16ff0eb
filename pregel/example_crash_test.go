package pregel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// A run is cut off in the middle. The next life of the program recovers at its start:
// the tasks that ended do not run again.
func Example_crash() {
	ctx, at, cfg := context.Background(), pregel.Thread("order 7"), pregel.RunOptions{Durability: pregel.Sync}
	build := func(s saver.Saver, shipped func()) *pregel.Graph {
		g, err := graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
			Node("pay", func(context.Context, any) (any, error) {
				fmt.Println("pay runs")
				return map[string]any{"log": []string{"paid"}}, nil
			}).
			Node("ship", func(context.Context, any) (any, error) {
				fmt.Println("ship runs")
				shipped()
				return map[string]any{"log": []string{"shipped"}}, nil
			}).
			Sequence(graph.Start, "pay", "ship", graph.End).
			Compile(graph.Options{Name: "orders", Saver: s})
		if err != nil {
			log.Fatal(err)
		}
		return g
	}
	s := memory.New(memory.Options{}) // or disk.Open, for a process that really dies

	life, end := context.WithCancel(ctx)
	first := build(s, end) // the run is cut off before its last checkpoint
	_, err := first.Invoke(life, at, map[string]any{"log": []string{"ordered"}}, cfg)
	fmt.Println("first life:", err)

	second := build(s, func() {})
	state, err := second.GetState(ctx, at)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("second life:", state.Status)
	report, err := second.Recover(ctx, pregel.RecoverOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range report.Threads {
		fmt.Println(r.ThreadID, r.Outcome, r.Err)
	}
	if state, err = second.GetState(ctx, at); err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Status, state.Map()["log"])
	// Output:
	// pay runs
	// ship runs
	// first life: context canceled
	// second life: unfinished
	// order 7 recovered <nil>
	// done [ordered paid shipped]
}
