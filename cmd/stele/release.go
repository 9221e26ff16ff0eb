package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// released says what a release let go on.
type released struct {
	Dir       string `json:"dir"`
	Held      bool   `json:"held"` // it was held before
	Runs      int    `json:"runs"`
	Schedules int    `json:"schedules"`
	Threads   int    `json:"threads"` // that sleep or are unfinished, those of the runs among them
}

func (a *app) releaseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "release DIR", Short: "Let a store that was restored go on with the runs, schedules and timers that it has",
		Long: `Let a store that was restored go on. It may be a second store beside its original, so what
waited when it was restored is held: queued runs, schedules, crons, webhooks, timers, and
threads that a run left unfinished. What has become due meanwhile is due at once then. What
somebody has changed since is not held. A store that is not held stays as it is.

It opens the store for writing: no other process may have it open. A program that has it open
calls Saver.Release.`,
		Example: `  stele restore backup staging     # look, try: no reminder is sent
  stele release staging`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			rep, err := a.release(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(rep, func(p *printer) {
				if !rep.Held {
					p.line("%s is not held", printable(rep.Dir))
					return
				}
				p.line("released: %s, %s, %s that sleep or are unfinished", plural(rep.Runs, "run"), plural(rep.Schedules, "schedule"),
					plural(rep.Threads, "thread"))
			})
		},
	}
}

// release counts what is held, and lets it go on.
func (a *app) release(ctx context.Context, dir string) (*released, error) {
	in, err := a.openStores(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	rep, err := releaseOpen(ctx, dir, in)
	return rep, errors.Join(err, in.end())
}

func releaseOpen(ctx context.Context, dir string, in *stores) (*released, error) {
	d := in.saver.(*disk.Saver)
	rep := &released{Dir: dir, Held: d.Inside().Engine.HeldUpTo(layout.ReleasePartition) > 0}
	if rep.Held {
		rep.Runs, rep.Schedules = in.queue.(*runs.Local).Held()
		for t, err := range d.Threads(ctx, saver.ThreadQuery{}) {
			if err != nil {
				return nil, err
			}
			if t.Held && (t.Status == saver.StatusWaiting || t.Status == saver.StatusUnfinished) {
				rep.Threads++
			}
		}
	}
	return rep, d.Release(ctx)
}
