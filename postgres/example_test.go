package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// A program sets the schema up when it is deployed, and opens it when it starts.
func Example() {
	ctx, url := context.Background(), os.Getenv("DATABASE_URL")
	if err := postgres.Setup(ctx, url, postgres.Options{}); err != nil {
		log.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "thread"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tup.Checkpoint.ID)
}

// A worker process executes the runs that any process submits.
func ExampleOpenQueue() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	queue := postgres.OpenQueue(s, postgres.QueueOptions{})
	defer queue.Close()
	var chat *pregel.Graph // compiled with s as its saver
	worker := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"chat": chat}}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
