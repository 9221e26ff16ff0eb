package store_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "stele-store-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sv, err := disk.Open(dir, disk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer sv.Close()
	mem, err := store.On(sv, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()

	ctx, ann := context.Background(), store.Namespace{"users", "ann"}
	for year, city := range map[int]string{2019: "Oslo", 2022: "Rome", 2025: "Lima"} {
		if err := mem.Put(ctx, ann, city, map[string]any{"city": city, "since": year}); err != nil {
			log.Fatal(err)
		}
	}
	found, err := mem.Search(ctx, store.Query{Prefix: ann, Filter: map[string]any{"since": map[string]any{"$gte": 2020}}, ByKey: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range found {
		fmt.Println(f.Key, f.Value["since"])
	}
	// Output:
	// Lima 2025
	// Rome 2022
}

// An item can become durable with a checkpoint, or not at all.
func ExampleLocal_Prepare() {
	dir, err := os.MkdirTemp("", "stele-store-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sv, err := disk.Open(dir, disk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer sv.Close()
	mem, err := store.On(sv, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	learned, err := mem.Prepare(ctx, store.PutOp{Namespace: store.Namespace{"facts"}, Key: "sky", Value: map[string]any{"color": "blue"}})
	if err != nil {
		log.Fatal(err)
	}
	step := saver.PutRequest{Config: saver.Config{ThreadID: "t", ExpectHead: saver.Head("")}, Checkpoint: saver.Checkpoint{V: 4, ID: "1"}, Changes: []saver.Change{learned}}
	if _, err := sv.PutRequest(ctx, step); err != nil {
		log.Fatal(err)
	}
	it, err := mem.Get(ctx, store.Namespace{"facts"}, "sky")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(it.Value["color"])
	// Output: blue
}
