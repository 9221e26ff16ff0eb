package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgstore"
)

// The long-term store is beside the saver, and a graph takes it as it takes that of a disk.
func ExampleOn() {
	ctx, url := context.Background(), os.Getenv("DATABASE_URL")
	if err := pgstore.Setup(ctx, url, postgres.Options{}, nil); err != nil {
		log.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	items, err := pgstore.On(ctx, s, store.Options{}) // on a disk: store.On(s, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer items.Close()
	ann := store.Namespace{"users", "ann"}
	if err := items.Put(ctx, ann, "food", map[string]any{"likes": "soup"}); err != nil {
		log.Fatal(err)
	}
	found, err := items.Search(ctx, store.Query{Prefix: ann, Filter: map[string]any{"likes": "soup"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found[0].Key)
}
