package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// eraseFlags say what to erase, as they are typed.
type eraseFlags struct {
	threads, filters, items []string
	postgres, schema        string
	yes                     bool
}

func (a *app) eraseCmd() *cobra.Command {
	var e eraseFlags
	cmd := &cobra.Command{
		Use: "erase [DIR]", Short: "Erase threads and items, so that no file holds a byte of them",
		Long: `Erase threads and items of the long-term store, so that no file of the store holds a
byte of them: the threads that --thread names, those of which a checkpoint's metadata
matches every --filter, and the items below each namespace prefix of --items. Every
file is written anew, once for all of it, which needs as much free space as the live
data take.

Without --yes nothing is erased: it lists what would be, and may run beside a writer.
If nothing matches, or a thread that --thread names is not there, the exit code is 1.
With --yes it opens the store for writing: no other process may have it open. If it is
interrupted, what it was to erase is deleted, or part of it, but files may still hold
bytes: the same command again goes on, and so does the next program that opens the store.

A filter compares metadata: user=ada the text "ada", n=1 the text "1", n:=1 the number,
ok:=true, gone:=null what is null or missing, and n:="1" is n=1. A dot in a key descends
into a map. A namespace prefix has dots between its labels: users.ada is ("users", "ada")
and all below it; labels with dots are written '["users","ada.l"]'.

With a thread go the signals to it, its runs and their events, crons, schedules and webhooks,
and the threads of the children that it has started. --thread ID does so for a thread that
was deleted, too.

With --postgres it deletes from the tables of a database, and servers and workers may be at
work: a run on one of the threads that has not ended is cancelled, and waited for. Dead rows
keep bytes until VACUUM FULL, and the write-ahead log until its files are used again. To count
items it reads them; what has expired goes, and is not counted.

A bucket that keeps the log of the store (--replica) is erased, too; if it keeps versions, the
report says so. Backups are not reached, nor copies of the directory, nor those of other
machines that follow the bucket, nor the results of nodes that the cache of the program keeps.`,
		Example: `  stele erase store --filter user=ada --items users.ada
  stele erase store --filter user=ada --items users.ada --yes
  stele erase --postgres "$URL" --thread order-7 --yes`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := e.options()
			if err != nil {
				return err
			}
			if (e.postgres != "") == (len(args) > 0) {
				return errors.New("name the directory of a store, or a database by --postgres")
			}
			if e.postgres == "" && cmd.Flags().Changed("schema") {
				return errors.New("--schema: it is for --postgres")
			}
			if e.postgres != "" && cmd.Flags().Changed("replica") {
				return errors.New("--replica: it is for a directory, and --postgres is given")
			}
			if e.postgres != "" {
				rep, err := a.eraseDatabase(cmd.Context(), &e, &o)
				if rep == nil {
					return err
				}
				a.code = rep.code()
				return errors.Join(err, a.print(rep, func(p *printer) { printErase(p, rep, filterHint(e.filters)) }))
			}
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*erased, error) {
				rep := &erased{}
				o.Access, o.Progress, o.Beside = access, tell, rep.beside(slog.New(slog.NewTextHandler(a.err, nil)))
				var err error
				if rep.EraseReport, err = admin.Erase(cmd.Context(), args[0], o); err == nil {
					a.code = rep.code()
				}
				return rep, err
			}, func(p *printer, rep *erased) { printErase(p, rep, filterHint(e.filters)) })
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&e.threads, "thread", nil, "id of a thread to erase; may be given again")
	f.StringArrayVar(&e.filters, "filter", nil, filterUsage+"; may be given again, and all must match")
	f.StringArrayVar(&e.items, "items", nil, "namespace prefix of items to erase, such as users.ada; may be given again")
	f.StringVar(&e.postgres, "postgres", "", "the store of this database, a connection string, instead of a directory")
	f.StringVar(&e.schema, "schema", "", "schema that has the tables (default: the first of the search path); for --postgres")
	f.BoolVar(&e.yes, "yes", false, "erase, and do not only say what would be")
	return cmd
}

// erased is what an erasure says.
type erased struct {
	*admin.EraseReport
	// Beside is what was kept of the threads beside their checkpoints; nil if nothing was.
	Beside *server.BesideReport `json:"beside,omitempty"`
	// Database: it was deleted from the tables of a database, and no sizes are known: they are -1.
	Database bool `json:"database,omitempty"`
	// Unfinished: what the report names is deleted, or part of it.
	Unfinished bool `json:"unfinished,omitempty"`
}

// size is that of what is erased, where it is known.
func (e *erased) size(bytes int64) any {
	if e.Database {
		return "-"
	}
	return size(bytes)
}

// beside returns what admin.EraseOptions have of that name.
func (e *erased) beside(log *slog.Logger) func(context.Context, *disk.Saver, []string, bool) ([]string, [][]string, error) {
	return func(ctx context.Context, d *disk.Saver, threads []string, dry bool) (more []string, notes [][]string, err error) {
		items, err := store.On(d, store.Options{})
		if err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, items.Close()) }()
		queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
		if err != nil {
			return nil, nil, err
		}
		rep, err := server.RemoveBeside(ctx, server.BesideOptions{Saver: d, Store: items, Queue: queue, Threads: threads, DryRun: dry, Logger: log})
		if len(rep.Found)+len(rep.Children)+rep.Unreadable > 0 {
			e.Beside = &rep
		}
		return rep.Children, rep.Notes, err
	}
}

// missing are the threads that were named and of which nothing is in the store.
func (e *erased) missing() []string {
	return slices.DeleteFunc(e.Missing(), func(id string) bool {
		return e.Beside != nil && (slices.Contains(e.Beside.Found, id) || slices.Contains(e.Beside.Children, id))
	})
}

// matched reports whether the store has anything of what was named.
func (e *erased) matched() bool { return e.Matched() || e.Beside != nil && len(e.Beside.Found) > 0 }

// code is the exit code.
func (e *erased) code() int {
	if !e.matched() && e.Pending == 0 || len(e.missing()) > 0 || e.Beside != nil && e.Beside.Unreadable > 0 {
		return exitFound
	}
	return exitDone
}

// options returns the options that the flags describe.
func (e *eraseFlags) options() (admin.EraseOptions, error) {
	o := admin.EraseOptions{Threads: e.threads, DryRun: !e.yes}
	if len(e.threads)+len(e.filters)+len(e.items) == 0 {
		return o, &said{"say what to erase: --thread ID, --filter KEY=VALUE or --items PREFIX; see stele erase --help", saver.ErrInvalid}
	}
	if slices.Contains(e.threads, "") {
		return o, &said{"--thread wants the id of a thread, not an empty one", saver.ErrInvalid}
	}
	var err error
	if o.Metadata, err = parseFilter(e.filters); err != nil {
		return o, err
	}
	for _, text := range e.items {
		labels, err := parsePrefix(text)
		if err != nil {
			return o, err
		}
		o.Items = append(o.Items, labels)
	}
	return o, nil
}

func printErase(p *printer, rep *erased, hint string) {
	if rep.Nothing() && !rep.matched() {
		p.line("nothing matches; nothing to erase")
		p.hint(hint)
		return
	}
	threads, checkpoints, items := 0, 0, 0
	missing := rep.missing()
	var rows [][]any
	for _, t := range rep.Threads {
		note := ""
		switch {
		case t.Signals > 0:
			note = "has signals"
		case slices.Contains(missing, t.ThreadID):
			note = "not there"
		}
		if !t.UpdatedAt.IsZero() {
			threads++
		}
		rows = append(rows, []any{printable(t.ThreadID), t.Checkpoints, rep.size(t.Bytes), stamp(t.UpdatedAt), note})
		checkpoints += t.Checkpoints
	}
	if len(rows) > 0 {
		p.table([]string{"thread", "checkpoints", "size", "updated (UTC)", ""}, rows)
		p.line("")
	}
	rows = nil
	for _, i := range rep.Items {
		rows = append(rows, []any{prefixText(i.Prefix), i.Namespaces, i.Items, rep.size(i.Bytes)})
		items += i.Items
	}
	if len(rows) > 0 {
		p.table([]string{"items under", "namespaces", "items", "size"}, rows)
		p.line("")
	}
	if rep.Pending > 0 {
		p.line("%s of an earlier call not finished: deleted, but files may hold bytes of it", plural(rep.Pending, "erasure"))
	}
	what := plural(threads, "thread") + ", " + plural(checkpoints, "checkpoint") + ", " + plural(items, "item")
	if rep.DryRun && rep.Tight() {
		p.line("%s are free; the rewrite may need up to %s", size(rep.FreeBytes), size(rep.BytesBefore))
	}
	if b := rep.Beside; b != nil {
		for _, c := range []struct {
			n    int
			what string
		}{{b.Runs, "run"}, {b.Crons, "cron"}, {b.Schedules, "schedule"}, {b.Actions, "action"}} {
			if c.n > 0 {
				what += ", " + plural(c.n, c.what)
			}
		}
		if len(b.Children) > 0 {
			p.line("with their parents go %s: %s", plural(len(b.Children), "child thread"), some(b.Children))
		}
		if b.Unreadable > 0 {
			p.line("UNREADABLE  records or runs, %d in all: nobody knows of which threads they are, and they stay", b.Unreadable)
		}
	}
	if len(missing) > 0 {
		p.line("not there: %s", some(missing))
	}
	switch {
	case !rep.matched() && rep.DryRun:
		p.line("nothing matches; nothing was erased")
		return
	case !rep.matched() && rep.Database:
		p.line("nothing matches; nothing was deleted")
		return
	case rep.Database && rep.DryRun:
		p.line("would delete %s; nothing was deleted, say --yes to do it", what)
		return
	case rep.Unfinished:
		p.line("deleted %s, or part of it: the same command again goes on", what)
		return
	case rep.Database:
		p.line("deleted %s (%s)", what, rep.Took.Round(time.Millisecond))
	case !rep.matched():
		p.line("nothing matches; every file was written anew all the same: %s -> %s (%s)",
			size(rep.BytesBefore), size(rep.BytesAfter), rep.Took.Round(time.Millisecond))
		return
	case rep.DryRun:
		p.line("would erase %s; nothing was erased, say --yes to do it", what)
		return
	default:
		p.line("erased %s: %s -> %s (%s)", what, size(rep.BytesBefore), size(rep.BytesAfter), rep.Took.Round(time.Millisecond))
	}
	if rep.Bucket {
		p.line("the bucket is erased, too: no moment before this one can be restored from it")
	}
	for _, left := range rep.Left {
		p.line("not reached: %s", left)
	}
}
