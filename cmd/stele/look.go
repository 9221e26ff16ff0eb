package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
)

func (a *app) infoCmd() *cobra.Command {
	return &cobra.Command{
		Use: "info DIR", Short: "Say what a store is: id, format, files, and what opening it takes",
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(_ *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			info, err := admin.Describe(args[0], access)
			if err != nil {
				return err
			}
			return a.print(info, func(p *printer) { printInfo(p, info) })
		},
	}
}

func printInfo(p *printer, info *admin.Info) {
	closed := "no: it is open, or its writer died"
	if info.Clean {
		closed = "yes"
	}
	p.line("store     %s  format %d  created %s", info.StoreID, info.FormatVersion, stamp(info.Created))
	p.line("manifest  %s", info.Manifest)
	p.line("closed    %s", closed)
	if info.LastWriter != "" {
		p.line("writer    %s (the last one; it may be gone)", info.LastWriter)
	}
	p.line("records   up to %d, below %d in segments", info.LastLSN, info.FloorLSN)
	if info.Held {
		p.line("held      what waited when it was restored waits for stele release")
	}
	for _, k := range slices.Sorted(maps.Keys(info.Options)) {
		p.line("option    %s = %s", k, info.Options[k])
	}
	open := plural(info.Open.Replayed, "record") + " to replay"
	if info.Open.IndexRebuilt {
		open += ", index to rebuild: " + info.Open.RebuildReason
	}
	p.line("opening   %s", open)
	for _, f := range info.Open.Damage {
		p.line("damage    %s", f)
	}
	p.line("")
	var rows [][]any
	for _, f := range info.Files {
		what := f.Kind
		switch {
		case f.Missing:
			what += ", missing"
		case f.Kind == "log":
			what += fmt.Sprintf(" from record %d", f.MinLSN)
		case f.Kind == "segment":
			what += fmt.Sprintf(" of records %d to %d, %s, %s decoded", f.MinLSN, f.MaxLSN, plural(f.Values, "value"), size(f.Raw))
		case f.Kind == "image":
			what += fmt.Sprintf(" up to record %d", f.MaxLSN)
		}
		rows = append(rows, []any{f.Name, size(f.Size), what})
	}
	rows = append(rows, []any{"all", size(info.Bytes), plural(len(info.Files), "file")})
	p.table([]string{"file", "size", "what"}, rows)
}

func (a *app) statsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stats DIR", Short: "Count what a store holds, for people and for monitoring",
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(_ *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			s, err := admin.Stats(args[0], access)
			if err != nil {
				return err
			}
			return a.print(s, func(p *printer) { printStats(p, s) })
		},
	}
}

func printStats(p *printer, s *admin.StoreStats) {
	p.line("threads    %d, %d of them waiting, %d sleeping, %d failed, %d unfinished", s.Threads, s.Waiting, s.Sleeping, s.Failed, s.Unfinished)
	p.line("runs       %d", s.Runs)
	if s.Other > 0 {
		p.line("other      %d", s.Other)
	}
	p.line("records    up to %d, %d to replay at the next open", s.LastLSN, s.ReplayedNext)
	p.line("log        %s, %s", plural(s.LogFiles, "file"), size(s.LogBytes))
	p.line("segments   %s, %s, %s decoded (%.1f : 1)", plural(s.Segments, "file"), size(s.SegmentBytes), size(s.RawBytes), s.Ratio)
	p.line("images     %s, %s", plural(s.Images, "file"), size(s.ImageBytes))
	p.line("disk       %s, %s free on the device", size(s.Bytes), size(s.FreeBytes))
}

// statuses are those that a list of threads has.
var statuses = []saver.Status{saver.StatusDone, saver.StatusWaiting, saver.StatusSleeping, saver.StatusFailed, saver.StatusUnfinished}

func (a *app) threadsCmd() *cobra.Command {
	var q admin.ThreadQuery
	var filters []string
	var status string
	var unfinished bool
	var in place
	cmd := &cobra.Command{
		Use: "threads [DIR]", Short: "List threads: id, head, last update, how far they have come and what runs next",
		Example: `  stele threads store --status waiting
  stele threads --postgres "$URL"`,
		Args: in.args(0, ""), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Status = saver.Status(status); unfinished {
				q.Status = saver.StatusUnfinished
			}
			if status != "" && !slices.Contains(statuses, q.Status) {
				return &said{fmt.Sprintf("--status: no thread is %q; it is one of %q", status, statuses), saver.ErrInvalid}
			}
			if q.All && q.After != "" {
				return errors.New("--after pages through threads; it does not go with --all")
			}
			var err error
			if q.Metadata, err = parseFilter(filters); err != nil {
				return err
			}
			if q.All && in.postgres != "" {
				return errors.New("--all is of a store in a directory")
			}
			s, end, err := a.read(cmd.Context(), &in, args)
			if err != nil {
				return err
			}
			defer end()
			return a.printThreads(cmd.Context(), s, q, filterHint(filters))
		},
	}
	f := cmd.Flags()
	in.register(f)
	f.StringVar(&q.Prefix, "prefix", "", "threads whose id begins with it")
	f.StringVar(&q.After, "after", "", "threads with greater ids: the next page begins after the last id of this one")
	f.StringArrayVar(&filters, "filter", nil, "only threads of which a checkpoint matches: "+filterUsage+"; may be given again, and all must match")
	f.StringVar(&status, "status", "",
		"only threads that are \"done\", \"waiting\" for an answer or at a breakpoint, \"sleeping\" until an instant or a signal, "+
			"\"failed\" or \"unfinished\"")
	f.BoolVar(&unfinished, "unfinished", false, "only threads whose run ended in the middle, or is under way; the same as --status unfinished")
	cmd.MarkFlagsMutuallyExclusive("status", "unfinished")
	f.IntVar(&q.Limit, "limit", 100, "threads at most; 0 for all")
	f.BoolVar(&q.All, "all", false, "runs and whatever else the store keeps as well")
	return cmd
}

func (a *app) printThreads(ctx context.Context, s saver.Saver, q admin.ThreadQuery, hint string) error {
	p := a.printer()
	var rows [][]any
	last := ""
	for t, err := range admin.Threads(ctx, s, q) {
		if err != nil {
			return err
		}
		last = t.ID
		if p.json {
			if err := p.row(t); err != nil {
				return err
			}
			continue
		}
		status := orDash(string(t.Status))
		if t.Kind != "thread" {
			status = t.Kind
		}
		rows = append(rows, []any{printable(t.ID), orDash(t.Head), stamp(t.UpdatedAt), status, orDash(nodes(t.Graph)), orDash(nodes(t.Version)),
			orDash(nodes(t.Next...))})
	}
	if p.json {
		return p.err
	}
	if len(rows) == 0 {
		p.line("no threads")
		p.hint(hint)
		return p.err
	}
	p.table([]string{"thread", "head", "updated (UTC)", "status", "graph", "version", "next"}, rows)
	if q.Limit > 0 && len(rows) == q.Limit && !q.All {
		p.line("")
		p.line("%d shown; go on with --after %q", len(rows), last)
	}
	return p.err
}

// nodes joins the names that are not empty.
func nodes(names ...string) string {
	var out []string
	for _, n := range names {
		if n != "" {
			out = append(out, printable(n))
		}
	}
	return strings.Join(out, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable is s, quoted if it is empty or has characters that a terminal should not get.
func printable(s string) string {
	q := fmt.Sprintf("%q", s)
	if s == "" || q != `"`+s+`"` {
		return q
	}
	return s
}

func (a *app) logCmd() *cobra.Command {
	var q admin.LogQuery
	var ops bool
	cmd := &cobra.Command{
		Use: "log DIR", Short: "List the records of the log: what was committed, when, where it lies",
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			p, found := a.printer(), false
			for e, err := range admin.Log(cmd.Context(), args[0], access, q) {
				if err != nil {
					return err
				}
				if found = true; p.json {
					if err := p.row(e); err != nil {
						return err
					}
					continue
				}
				printLogEntry(p, &e, ops)
			}
			if found || p.err != nil {
				return p.err
			}
			return a.noRecords(cmd.Context(), args[0], q.Thread)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&q.From, "from", 0, "first record")
	f.Uint64Var(&q.To, "to", 0, "last record; 0 for the end")
	f.StringVar(&q.Thread, "thread", "", "only records that touch this thread")
	f.BoolVar(&q.Marks, "marks", false, "sync and close marks as well")
	f.IntVar(&q.Limit, "limit", 0, "records at most; 0 for all")
	f.BoolVar(&ops, "ops", false, "a line for each operation")
	return cmd
}

// noRecords says that no record was selected: it is an error if that is because the store has no such thread.
func (a *app) noRecords(ctx context.Context, dir, thread string) error {
	if thread != "" {
		d, err := a.flags.open(dir)
		if err != nil {
			return err
		}
		_, there, err := saver.ThreadOf(ctx, d, thread)
		if err = errors.Join(err, d.Close()); err != nil {
			return err
		}
		if !there {
			return noThread(shellWord(dir), thread)
		}
	}
	if !a.flags.json {
		a.printer().line("no such records in the log; a flush moves records into segments")
	}
	return nil
}

func printLogEntry(p *printer, e *admin.LogEntry, ops bool) {
	place := fmt.Sprintf("%s:%d", e.File, e.Offset)
	if e.Type != "record" {
		p.line("%8d  %-22s  %7s  %s  %s", e.LSN, place, size(e.Size), e.Type, e.Detail)
		return
	}
	counts, threads := map[string]int{}, map[string]bool{}
	for _, o := range e.Ops {
		counts[o.Op]++
		threads[o.Kind+" "+printable(o.Thread)] = true
	}
	var what []string
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		what = append(what, fmt.Sprintf("%s %d", op, counts[op]))
	}
	names := slices.Sorted(maps.Keys(threads))
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	p.line("%8d  %-22s  %7s  promise %-10d  %s  %s  %s", e.LSN, place, size(e.Size), e.Promise, stamp(e.Time), strings.Join(what, ", "), strings.Join(names, ", "))
	if !ops {
		return
	}
	for _, o := range e.Ops {
		stored := ""
		if o.Stored > 0 {
			stored = fmt.Sprintf("  %s, %s", plural(o.Stored, "value"), size(o.Bytes))
		}
		p.line("%10s%s %s %s %s%s", "", o.Op, o.Kind, printable(o.Thread), o.Entry, stored)
	}
}
