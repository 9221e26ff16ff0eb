package pgqueue_test

import (
	"context"
	"log"
	"os"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
)

// A worker process executes the runs that any process submits.
func ExampleOpen() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	queue := pgqueue.Open(s, pgqueue.Options{})
	defer queue.Close()
	var chat *pregel.Graph // compiled with s as its saver
	worker := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"chat": chat}}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
