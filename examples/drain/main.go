// Command drain is a job of many steps that can be stopped and goes on. An interrupt (or SIGTERM,
// as orchestrators send it) drains the run: the superstep under way ends and is stored, then the
// process ends. The next one finds the unfinished thread when it starts, and goes on with it. Run
// it, interrupt it, and run it again; with -stop it interrupts itself.
//
//	go run ./examples/drain
//	go run ./examples/drain -stop 7 -dir stele-drain
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// Job is the state.
type Job struct {
	Pages int      `json:"pages"`
	Done  []string `json:"done" state:"append"`
}

// build makes the graph: a node that scans a page, and runs again until all are done. scanned is
// told of each page.
func build(s saver.Saver, every time.Duration, scanned func(page int)) (*graph.Graph[Job], error) {
	return graph.For[Job]().
		Node("scan", func(ctx context.Context, j *Job) (graph.Update, error) {
			page := len(j.Done) + 1
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			scanned(page)
			return graph.Write(&j.Done, []string{fmt.Sprint("page ", page)}), nil
		}).
		Edge(graph.Start, "scan").
		Conditional("scan", func(_ context.Context, j *Job) (string, error) {
			if len(j.Done) < j.Pages {
				return "scan", nil
			}
			return graph.End, nil
		}, "scan", graph.End).
		Compile(graph.Options{Name: "scanner", Saver: s})
}

// work goes on with the job, or begins it, until it is done or ctx ends. done is false if pages
// are left for the next process.
func work(ctx context.Context, dir string, pages int, every time.Duration, out io.Writer, scanned func(page int)) (done bool, err error) {
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var control pregel.Control
	asked := make(chan bool)
	defer context.AfterFunc(ctx, func() {
		control.RequestDrain("the process ends")
		close(asked)
	})()
	g, err := build(d, every, func(page int) {
		fmt.Fprintf(out, "page %d\n", page)
		if scanned(page); ctx.Err() != nil {
			<-asked // so that the run stops behind this page, and not behind the next
		}
	})
	if err != nil {
		return false, err
	}
	at, opts, run := pregel.Thread("job"), pregel.RunOptions{Control: &control}, context.WithoutCancel(ctx)

	state, err := g.State(run, at)
	var res *graph.Result[Job]
	switch {
	case err != nil:
		return false, err
	case state.Status == "":
		res, err = g.Run(run, at, Job{Pages: pages}, opts)
	default:
		fmt.Fprintf(out, "going on: %s after %d pages\n", state.Status, len(state.State.Done))
		res, err = g.Continue(run, at, opts)
	}
	if errors.Is(err, pregel.ErrDrained) {
		fmt.Fprintln(out, err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "done: %d pages\n", len(res.State.Done))
	return true, nil
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	dir := flags.String("dir", "", "store of the job; none: one that is removed at the end")
	pages := flags.Int("pages", 20, "length of the job")
	every := flags.Duration("every", 100*time.Millisecond, "time for a page")
	stop := flags.Int("stop", 0, "interrupt the process after so many pages; without -dir, 7")
	flags.SetOutput(out)
	if err := flags.Parse(args); err != nil {
		return err
	}
	lives := 1
	if *dir == "" { // two processes' work in one
		temp, err := os.MkdirTemp("", "stele-drain-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		*dir, lives = temp, 2
		if *stop == 0 {
			*stop = 7
		}
	}
	for range lives {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		done, err := work(ctx, *dir, *pages, *every, out, func(page int) {
			if page == *stop {
				cancel() // as a signal does
			}
		})
		if done || err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}
