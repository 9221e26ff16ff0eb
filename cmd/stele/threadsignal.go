package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/admin"
)

// signalFlags are those of the command signal.
type signalFlags struct {
	value, key string
	place
}

func (a *app) signalCmd() *cobra.Command {
	var f signalFlags
	cmd := &cobra.Command{
		Use: "signal [DIR] THREAD NAME", Short: "Send a signal to a thread, for a node that waits for it or will",
		Long: `Send a signal to a thread: it is stored, and a run that waits for a signal of the name
is due. The node that receives it reads --value as its type. A thread that runs, or has
ended, keeps the signal until something receives it.

It opens the store for writing: no other process may have it open. A server that has it
open takes signals by POST /stele/threads/THREAD/signals/NAME. With --postgres, servers
and workers may be at work.

If the program encrypts values, only the program can write one that it can read: call
Graph.Signal there.`,
		Example: `  stele signal store order-7 paid --value '{"amount": 12}' --key invoice-7
  stele signal --postgres "$URL" order-7 paid`,
		Args: f.args(2, ", then the thread and the signal"), ValidArgsFunction: a.threadArg,
		RunE: func(cmd *cobra.Command, args []string) error { return a.signal(cmd.Context(), args, &f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.value, "value", "null", "what the node receives, as JSON")
	p.StringVar(&f.key, "key", "", "makes it safe to send again: of several signals to the thread with one key, one counts")
	f.register(p)
	return cmd
}

func (a *app) signal(ctx context.Context, args []string, f *signalFlags) error {
	value, err := parseJSON(f.value)
	if err != nil {
		return fmt.Errorf("--value %s: %w", f.value, err)
	}
	var in *stores
	dir, thread, name := "", args[len(args)-2], args[len(args)-1]
	if f.postgres != "" {
		in, err = openDatabase(ctx, f.postgres, f.schema)
	} else {
		dir = args[0]
		in, err = a.openStores(ctx, dir, false)
	}
	if errors.Is(err, fault.ErrLocked) {
		return fmt.Errorf("%w. A server that holds it takes signals: POST /stele/threads/%s/signals/%s", err, thread, name)
	}
	if err != nil {
		return err
	}
	// Signals need a graph, and no node of it.
	g, err := pregel.Entrypoint("signal", func(context.Context, any) (any, error) { return nil, nil },
		pregel.EntrypointOptions{Options: pregel.Options{Saver: in.saver, Store: in.items}})
	if err == nil {
		err = g.Signal(ctx, thread, name, value, pregel.SignalOptions{Key: f.key, Queue: in.queue})
	}
	var awaited []string
	if err == nil {
		if waits, err := admin.WaitsOf(ctx, in.saver, thread); err == nil { // else it is sent all the same
			awaited = waits.Signals
		}
	} else if dir != "" {
		err = ifNoThread(ctx, in.saver, shellWord(dir), thread, err)
	}
	if err := errors.Join(err, in.end()); err != nil {
		return err
	}
	sent := struct {
		Thread string `json:"thread"`
		Signal string `json:"signal"`
		// Awaited are the signals that the thread waits for, of which this may be none: it is kept then.
		Awaited []string `json:"awaited,omitempty"`
	}{thread, name, awaited}
	return a.print(sent, func(p *printer) {
		p.line("sent %s to thread %s", printable(name), printable(thread))
		if len(awaited) > 0 && !slices.Contains(awaited, name) {
			p.line("the thread waits for %s; %s is kept until something receives it", some(awaited), printable(name))
		}
	})
}
