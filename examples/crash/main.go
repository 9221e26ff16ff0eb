// Command crash shows that what was acknowledged survives: recordings of real
// LangGraph programs are replayed by a child process that is killed (SIGKILL)
// again and again, its store is opened, compared byte for byte with what the
// killed process had acknowledged, and continued to the end.
//
//	go run ./examples/crash
//
// The last line says how many checkpoints and pending writes were found and
// compared after kills, and how many differed. The exit code is 1 if any did.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/stele-go/stele/test/kill"
)

func main() {
	kill.ChildMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 if nothing differed, 1 if something did, 2 if the
// experiment itself failed.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(errs)
	kills := flags.Int("kills", 24, "how often to kill")
	seed := flags.Uint64("seed", rand.Uint64(), "repeats the choices of a run; when a kill strikes depends on the machine too")
	loseLog := flags.Bool("lose-log", false, "empty the log after each kill, to see that the loss is noticed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	dir, err := os.MkdirTemp("", "stele-crash-")
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(out, "repeat with: go run ./examples/crash -kills %d -seed %d\n", *kills, *seed)
	start := time.Now()
	r, err := kill.Run(ctx, kill.Options{Kills: *kills, Seed: *seed, Dir: dir, LoseLog: *loseLog, Progress: out})
	for _, first := range r.First {
		fmt.Fprintln(errs, first)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	fmt.Fprintf(out, "%d recordings replayed to their end in %.1f s; %d calls were stored but not yet acknowledged\n",
		r.Recordings, time.Since(start).Seconds(), r.InFlight)
	fmt.Fprintln(out, r)
	if r.Differences > 0 {
		return 1
	}
	return 0
}
