package runs_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// A program with a queue, a worker and a run, all in one directory.
func Example() {
	dir, err := os.MkdirTemp("", "stele")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	g, err := graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("greet", func(context.Context, any) (any, error) { return map[string]any{"log": []string{"hello"}}, nil }).
		Edge(graph.Start, "greet").Compile(graph.Options{Name: "chat", Saver: s})
	if err != nil {
		log.Fatal(err)
	}
	mem, err := store.On(s, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	queue, err := runs.NewLocal(ctx, mem, runs.LocalOptions{})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	worker := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"chat": g}}
	go func() { stopped <- worker.Run(ctx) }()

	run, err := queue.Submit(ctx, runs.Request{
		Spec:  runs.Spec{ThreadID: "t", Graph: "chat", Modes: []pregel.Mode{pregel.ModeUpdates}},
		Input: map[string]any{"log": []string{"ada"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range runs.Follow(ctx, queue, run.ID, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Seq, ev.Kind)
	}
	if run, err = runs.Wait(ctx, queue, run.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status)
	cancel()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 attempt
	// 2 updates
	// 3 end
	// success
}
