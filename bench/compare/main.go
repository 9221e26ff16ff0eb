// Command compare runs the workloads of agents on stele and on the stores a Go
// program would keep its checkpoints in today, in one run, in turns, and prints
// what came out beside the budgets stele is held to.
//
//	go run . -quick        # five engines, small sizes
//	go run .               # all engines, the sizes the budgets are for
//	go run . -quick -run W1
//	go run . -edits        # one edit to the log: who notices?
//
// Each measurement is made in a process of its own, so that its memory and CPU are
// its own. docs/performance.md says what each figure means.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/stele-go/stele/bench/compare/edits"
)

// cellVariable holds a cell, in the processes that measure one.
const cellVariable = "COMPARE_CELL"

func main() {
	if spec := os.Getenv(cellVariable); spec != "" {
		child(spec)
		return
	}
	o := options{}
	editing := false
	flag.BoolVar(&o.quick, "quick", false, "five engines and small sizes")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the budgets ask for 5 or more")
	flag.DurationVar(&o.limit, "limit", 0, "begin no further round after so long, such as 10m; 0 is no limit")
	flag.StringVar(&o.dir, "dir", "", "where to make the stores; a temporary directory by default")
	flag.BoolVar(&editing, "edits", false, "edit logs instead, and see who notices")
	only := flag.String("run", "", "workloads to run, separated by commas: W1, W2, W3, W4, W5, items, vector; all by default")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	var err error
	if editing {
		err = edits.Print(os.Stdout)
	} else {
		err = compare(o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// child measures one cell and prints its figures.
func child(spec string) {
	var c cell
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
	out, err := c.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
