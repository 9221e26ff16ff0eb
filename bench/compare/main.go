// Command compare runs the workloads of agents on stele and on the stores a Go
// program would keep its checkpoints in today, in one run, in turns, and prints
// what came out beside the budgets stele is held to.
//
//	go run . -quick        # five engines, small sizes
//	go run .               # all engines, the sizes the budgets are for
//	go run . -quick -run W1
//	go run . -quick -run W2,fill,W5
//	go run . -engines stele,pebble
//	go run . -markdown f   # the tables again, from what the last run saved with -save
//	go run . -edits        # one edit to the log: who notices?
//	go run . -charts DIR   # charts of bytes, commits and open times, as SVG
//	go run . -scale        # what a call costs in stores of 10,000 to 1,000,000 checkpoints
//	go run . -beside       # puts beside a compaction
//	go run . -soak 1000000 # a day of agents, of so many puts
//	go run . -replicas     # a copy in object storage, beside litestream; needs versitygw and litestream in the PATH
//
// W2, W5 and fill also put realistic data, made by bench.Fleet, in cells of their own such as
// W2/realistic.
//
// Each measurement is made in a process of its own, so that its memory and CPU are
// its own. docs/performance.md says what each figure means.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stele-go/stele/bench/compare/edits"
	"github.com/stele-go/stele/bench/soak"
	"github.com/stele-go/stele/saver/disk"
)

// cellVariable holds a cell, in the processes that measure one.
const cellVariable = "COMPARE_CELL"

func main() {
	if spec := os.Getenv(cellVariable); spec != "" {
		child(spec)
		return
	}
	if spec := os.Getenv(replicaVariable); spec != "" {
		if err := replicaChild(spec); err != nil {
			fmt.Fprintln(os.Stderr, "compare:", err)
			os.Exit(1)
		}
		return
	}
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// command does what the flags say.
func command() error {
	o := options{}
	flag.BoolVar(&o.quick, "quick", false, "five engines and small sizes")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the budgets ask for 5 or more")
	flag.DurationVar(&o.limit, "limit", 0, "begin no further measurement after so long, such as 10m; 0 is no limit, and 3m30s with -quick")
	flag.StringVar(&o.dir, "dir", "", "where to make the stores; a temporary directory by default")
	flag.StringVar(&o.save, "save", "", "also keep what was measured in this `file`")
	flag.StringVar(&o.into, "into", "", "also put the medians into this `document`, in the place of the last ones")
	editing := flag.Bool("edits", false, "edit logs instead, and see who notices")
	saved := flag.String("markdown", "", "measure nothing, and print what -save kept in this `file`")
	chartsTo := flag.String("charts", "", "draw charts into this `directory` instead")
	scaling := flag.Bool("scale", false, "compare stores of several sizes instead")
	sizes := flag.String("checkpoints", "10000,100000,1000000", "the sizes for -scale")
	beside := flag.Bool("beside", false, "compare puts with and without a compaction beside them instead")
	puts := flag.Int("soak", 0, "run a day of so many puts instead")
	copying := flag.Bool("replicas", false, "compare copies in object storage instead")
	only := flag.String("run", "", "workloads to run, separated by commas: W1, W2, W3, W4, W5, fill, items, vector; all by default")
	engines := flag.String("engines", "", "engines to compare, separated by commas, such as stele,pebble; all by default")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if *engines != "" {
		o.peers = strings.Split(*engines, ",")
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds is %d; at least 1", o.rounds)
	}
	switch {
	case *editing:
		return edits.Print(os.Stdout)
	case *saved != "":
		r, err := load(*saved)
		if err != nil {
			return err
		}
		return r.tell(o, os.Stdout)
	case *chartsTo != "":
		return drawCharts(o, *chartsTo)
	case *scaling:
		list, err := counts(*sizes)
		if err != nil {
			return err
		}
		return scale(o, list, os.Stdout)
	case *beside:
		return besideRun(o, os.Stdout)
	case *copying:
		return replicas(context.Background(), o, "versitygw", "litestream", os.Stdout)
	case *puts != 0:
		return soakRun(o, *puts, os.Stdout)
	}
	return compare(o, os.Stdout)
}

// soakRun runs a day in the relaxed mode, and tells of each hour.
func soakRun(o options, puts int, w io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "stele-soak-")
	if err != nil {
		return err
	}
	rep, err := soak.Run(context.Background(), soak.Options{Dir: dir, Puts: puts, Windows: 24, Workers: 8, Sync: disk.SyncNever, FlushBytes: 16 << 20})
	if err == nil {
		err = rep.Print(w)
	}
	return errors.Join(err, os.RemoveAll(dir))
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
