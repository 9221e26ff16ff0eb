package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// patience is how long a command that only reads may take to end after a signal.
const patience = 500 * time.Millisecond

// writesKey marks the commands that write, which are given the time they take to end in
// order.
const writesKey = "writes"

// writing marks a command as one that writes.
func writing(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{writesKey: "true"}
	return cmd
}

// onlyReads reports whether the command that args name writes nothing.
func onlyReads(args []string) bool {
	cmd, _, err := (&app{}).root().Find(args)
	return err != nil || cmd.Annotations[writesKey] == ""
}

// untilSignal does work with a context that ends with SIGINT or SIGTERM. Work that only
// reads and has not ended soon after, wherever it is stuck, ends with the process; other
// work does with a second signal. What was being written is left as by a crash then,
// which every command survives.
func untilSignal(hasty bool, work func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		cancel()
		var enough <-chan time.Time
		if hasty {
			enough = time.After(patience)
		}
		select {
		case <-signals:
		case <-enough:
		}
		fmt.Fprintln(os.Stderr, "stele: interrupted")
		os.Exit(exitFailed)
	}()
	return work(ctx)
}
