package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/postgres"
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
