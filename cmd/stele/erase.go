package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
)

// eraseFlags say what to erase, as they are typed.
type eraseFlags struct {
	threads, filters, items []string
	yes                     bool
}

func (a *app) eraseCmd() *cobra.Command {
	var e eraseFlags
	cmd := &cobra.Command{
		Use: "erase DIR", Short: "Erase threads and items, so that no file holds a byte of them",
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

A bucket that keeps the log of the store (--replica) is erased, too. Backups are not
reached, nor copies of the directory, nor the results of nodes that the cache of the
program keeps, nor signals to the threads that nobody took: those lie below the prefix
'["__stele_signals__","ID"]', with ID the thread's id in base64url without padding.`,
		Example: `  stele erase store --filter user=ada --items users.ada
  stele erase store --filter user=ada --items users.ada --yes`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := e.options()
			if err != nil {
				return err
			}
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.EraseReport, error) {
				o.Access, o.Progress = access, tell
				rep, err := admin.Erase(cmd.Context(), args[0], o)
				if err == nil && (!rep.Matched() && rep.Pending == 0 || len(rep.Missing()) > 0) {
					a.code = exitFound
				}
				return rep, err
			}, func(p *printer, rep *admin.EraseReport) { printErase(p, rep, filterHint(e.filters)) })
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&e.threads, "thread", nil, "id of a thread to erase; may be given again")
	f.StringArrayVar(&e.filters, "filter", nil, filterUsage+"; may be given again, and all must match")
	f.StringArrayVar(&e.items, "items", nil, "namespace prefix of items to erase, such as users.ada; may be given again")
	f.BoolVar(&e.yes, "yes", false, "erase, and do not only say what would be")
	return cmd
}

// options returns the options that the flags describe.
func (e *eraseFlags) options() (admin.EraseOptions, error) {
	o := admin.EraseOptions{Threads: e.threads, DryRun: !e.yes}
	if len(e.threads)+len(e.filters)+len(e.items) == 0 {
		return o, &said{"say what to erase: --thread ID, --filter KEY=VALUE or --items PREFIX; see stele erase --help", saver.ErrInvalid}
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

func printErase(p *printer, rep *admin.EraseReport, hint string) {
	if rep.Nothing() {
		p.line("nothing matches; nothing to erase")
		p.hint(hint)
		return
	}
	threads, checkpoints, items := 0, 0, 0
	var rows [][]any
	for _, t := range rep.Threads {
		note := ""
		if t.UpdatedAt.IsZero() {
			note = "not there"
		} else {
			threads++
		}
		rows = append(rows, []any{printable(t.ThreadID), t.Checkpoints, size(t.Bytes), stamp(t.UpdatedAt), note})
		checkpoints += t.Checkpoints
	}
	if len(rows) > 0 {
		p.table([]string{"thread", "checkpoints", "size", "updated (UTC)", ""}, rows)
		p.line("")
	}
	rows = nil
	for _, i := range rep.Items {
		rows = append(rows, []any{prefixText(i.Prefix), i.Namespaces, i.Items, size(i.Bytes)})
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
	if missing := rep.Missing(); len(missing) > 0 {
		p.line("not there: %s", some(missing))
	}
	switch {
	case !rep.Matched() && rep.DryRun:
		p.line("nothing matches; nothing was erased")
		return
	case !rep.Matched():
		p.line("nothing matches; every file was written anew all the same: %s -> %s (%s)",
			size(rep.BytesBefore), size(rep.BytesAfter), rep.Took.Round(time.Millisecond))
		return
	case rep.DryRun:
		p.line("would erase %s; nothing was erased, say --yes to do it", what)
		return
	}
	p.line("erased %s: %s -> %s (%s)", what, size(rep.BytesBefore), size(rep.BytesAfter), rep.Took.Round(time.Millisecond))
	if rep.Bucket {
		p.line("the bucket is erased, too: no moment before this one can be restored from it")
	}
	for _, name := range rep.Tails {
		p.line("not erased: %s, which has what a bucket has not", name)
	}
}
