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

// writesKey marks the commands that write. They get the time that an orderly end takes.
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

// untilSignal runs work with a context that SIGINT or SIGTERM cancels. If work is hasty and
// has not returned after patience, the process exits, wherever work is stuck. If it is not,
// the process exits on a second signal. Files are then left as after a crash, which every
// command survives.
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
