package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	dir, err := os.MkdirTemp("", "embed")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	// The second run finds what the first one stored.
	for range 2 {
		if err := run(context.Background(), dir, os.Stdout); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// latest is turn-000: ["hello"], 1 pending
	// listed alice turn-000, step 0
	// latest is turn-000: ["hello"], 1 pending
	// listed alice turn-000, step 0
}
