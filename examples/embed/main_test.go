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
	// Hungry? map[]
	//   1.00 Likes noodles, soup.
	//   0.45 Dinner: hotel, flight late.
	// Holiday travel map[]
	//   1.00 Train to Oslo, sea.
	//   0.89 Dinner: hotel, flight late.
	// Holiday travel map[year:map[$gt:2022]]
	//   0.89 Dinner: hotel, flight late.
	// latest is turn-000: ["hello"], 1 pending
	// listed alice turn-000, step 0
	// Hungry? map[]
	//   1.00 Likes noodles, soup.
	//   0.45 Dinner: hotel, flight late.
	// Holiday travel map[]
	//   1.00 Train to Oslo, sea.
	//   0.89 Dinner: hotel, flight late.
	// Holiday travel map[year:map[$gt:2022]]
	//   0.89 Dinner: hotel, flight late.
}
