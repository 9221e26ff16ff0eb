package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/server"
)

// userFlags say whom to erase, as they are typed.
type userFlags struct {
	identity, postgres, schema string
	filters, items, backups    []string
	yes                        bool
}

func (a *app) eraseUserCmd() *cobra.Command {
	var f userFlags
	cmd := &cobra.Command{
		Use: "erase-user [DIR]", Short: "Erase everything about a user of a server, so that no file holds a byte of it",
		Long: `Erase everything that a server and its store keep about a user: threads with their
checkpoints, writes, runs, events and crons; the user's runs on threads of others;
assistants, schedules and webhooks that are still to be called; the items of the user's
place, ("__stele_users__", identity); and the results of nodes that are cached, all of them,
as no entry says whose it is.

A thread, an assistant or a cron is the user's if its metadata has the identity as owner,
as server.OwnThings stamps it. Where the program stamps another key, --filter says which:
--filter user_id:=7. --items names further namespaces that are the user's.

Without --yes nothing is written: it counts what would be erased, and may run beside a
writer. With --yes it opens the store for writing: no other process may have it open. A
server that has it open erases by POST /stele/erase-user. Every file is written anew, which
needs as much free space as the live data take. If it is interrupted, the same command goes on.

With --postgres, servers may be at work: a run of the user that has not ended is cancelled,
and waited for. End the user's access first. PostgreSQL only deletes: dead rows keep bytes
until VACUUM FULL, and the write-ahead log until its files are used again.

Backups are not reached. It names those beside the store, and those that --backup names:
the next backup to such a directory replaces it.

If some records, runs or threads cannot be read, nobody knows whose they are: they stay, and
the exit code is 1. So it is if there is nothing of the user: look whether the identity is
spelled as the server has it.

If the program encrypts values, only the program can read whose they are: call
server.EraseUser there.`,
		Example: `  stele erase-user store --identity ada
  stele erase-user store --identity ada --items users.ada --backup /backups/store --yes
  stele erase-user --postgres "$URL" --identity ada --filter user=ada --yes`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			rep, err := a.eraseUser(cmd.Context(), args, &f)
			if err != nil && (rep.DryRun || erasedOf(&rep) == "") {
				return err
			}
			if rep.Unreadable > 0 || rep.Pending == 0 && erasedOf(&rep) == "" && len(rep.Shared) == 0 {
				a.code = exitFound
			}
			return errors.Join(err, a.print(rep, func(p *printer) { printErasedUser(p, &rep, err, filterHint(f.filters)) }))
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.identity, "identity", "", "identity of the user")
	p.StringArrayVar(&f.filters, "filter", nil, filterUsage+", instead of owner=IDENTITY; may be given again, and all must match")
	p.StringArrayVar(&f.items, "items", nil, "further namespace prefix of items to erase, such as users.ada; may be given again")
	p.StringArrayVar(&f.backups, "backup", nil, "directory with backups of the store, to be named; may be given again")
	p.StringVar(&f.postgres, "postgres", "", "the store of this database, a connection string, instead of a directory")
	p.StringVar(&f.schema, "schema", "", "schema that has the tables (default: the first of the search path); for --postgres")
	p.BoolVar(&f.yes, "yes", false, "erase, and do not only say what would be")
	return cmd
}

func (a *app) eraseUser(ctx context.Context, args []string, f *userFlags) (rep server.EraseReport, err error) {
	o := server.EraseOptions{Identity: f.identity, Backups: f.backups, DryRun: !f.yes, Logger: slog.New(slog.NewTextHandler(a.err, nil))}
	if len(f.filters) > 0 {
		if o.Filter, err = parseFilter(f.filters); err != nil {
			return rep, err
		}
	}
	for _, text := range f.items {
		labels, err := parsePrefix(text)
		if err != nil {
			return rep, err
		}
		o.Items = append(o.Items, labels)
	}
	var in *stores
	switch {
	case f.identity == "":
		return rep, errors.New("name the user by --identity")
	case (f.postgres != "") == (len(args) > 0):
		return rep, errors.New("name the directory of a store, or a database by --postgres")
	case f.postgres != "" && len(f.backups) > 0:
		return rep, errors.New("--backup is for a directory: no backup of a database can be looked into")
	case f.postgres != "":
		in, err = openDatabase(ctx, f.postgres, f.schema)
	default:
		in, err = a.openStores(ctx, args[0], !f.yes)
	}
	if errors.Is(err, fault.ErrLocked) {
		return rep, fmt.Errorf("%w. A server that holds it can erase: POST /stele/erase-user", err)
	}
	if err != nil {
		return rep, err
	}
	o.Saver, o.Store, o.Queue = in.saver, in.items, in.queue
	rep, err = server.EraseUser(ctx, o)
	return rep, errors.Join(err, in.end())
}

// erasedOf are the counts of a report; "" if all are 0.
func erasedOf(rep *server.EraseReport) string {
	var counts []string
	some := false
	for _, c := range []struct {
		n    int
		what string
	}{{rep.Threads, "thread"}, {rep.Checkpoints, "checkpoint"}, {rep.Runs, "run"}, {rep.Events, "event"}, {rep.Crons, "cron"}, {rep.Schedules, "schedule"},
		{rep.Assistants, "assistant"}, {rep.Items, "item"}, {rep.Actions, "action"}} {
		some = some || c.n > 0
		counts = append(counts, plural(c.n, c.what))
	}
	if !some {
		return ""
	}
	return strings.Join(counts, ", ")
}

func printErasedUser(p *printer, rep *server.EraseReport, failed error, hint string) {
	what := erasedOf(rep)
	if rep.Pending > 0 {
		p.line("an erasure was not finished: what it was to erase is deleted, but files may hold bytes of it")
	}
	if what == "" {
		if len(rep.Shared) == 0 {
			p.line("there is nothing of %s in the store", printable(rep.Identity))
		}
		what = "nothing"
		p.hint(hint)
	}
	for _, id := range rep.Shared {
		p.line("SHARED  %s: not the user's alone: runs of the user go, and what they left in its state stays", printable(id))
	}
	if rep.Former > 0 {
		p.line("FORMER  %s where an earlier version kept items of the user stay: see stele move-items, or name them with --items", plural(rep.Former, "namespace"))
	}
	if rep.Unreadable > 0 {
		p.line("UNREADABLE  records, runs or threads without a record, %d in all: nobody knows whose they are, and they stay", rep.Unreadable)
	}
	for _, b := range rep.Backups {
		if b.Unread != "" {
			p.line("BACKUP  %s may be one, and cannot be read: %s", printable(b.Dir), printable(b.Unread))
			continue
		}
		p.line("BACKUP  %s, made %s: it holds what the store held then, until it is replaced or removed", printable(b.Dir), stamp(b.Made))
	}
	done := "deleted"
	if rep.Erased {
		done, what = "erased", what+", and all cached results of nodes"
	}
	switch {
	case failed != nil:
		p.line("found %s; it failed then: the same command goes on", what)
	case rep.DryRun:
		p.line("would be %s of %s: %s; nothing was written, say --yes to do it", done, printable(rep.Identity), what)
	default:
		p.line("%s of %s: %s (%s)", done, printable(rep.Identity), what, rep.Took.Round(time.Millisecond))
	}
	p.line("not reached: %s", rep.Beyond)
}
