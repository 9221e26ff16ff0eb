package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

func (a *app) showCmd() *cobra.Command {
	var cfg saver.Config
	var history, width int
	var in place
	cmd := &cobra.Command{
		Use: "show [DIR] THREAD", Short: "Show a checkpoint with its values and writes, or the history of a thread",
		Example: `  stele show store order-7
  stele show --postgres "$URL" order-7`,
		Args: in.args(1, ", then the thread"), ValidArgsFunction: a.threadArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, end, err := a.read(cmd.Context(), &in, args)
			if err != nil {
				return err
			}
			defer end()
			cfg.ThreadID = args[len(args)-1]
			if cmd.Flags().Changed("history") {
				var ns *string
				if cmd.Flags().Changed("ns") {
					ns = &cfg.Namespace
				}
				return ifNoThread(cmd.Context(), s, in.words(), cfg.ThreadID, a.printHistory(cmd, s, cfg.ThreadID, ns, history))
			}
			v, err := admin.Show(cmd.Context(), s, cfg)
			if errors.Is(err, saver.ErrNotFound) && cfg.CheckpointID == "" && cfg.Namespace == "" {
				alone, aerr := writesAlone(cmd.Context(), s, cfg.ThreadID)
				if aerr != nil {
					return aerr
				}
				if alone != nil {
					return a.print(alone, func(p *printer) { printWritesAlone(p, alone, width) })
				}
			}
			if err != nil {
				return ifNoThread(cmd.Context(), s, in.words(), cfg.ThreadID, err)
			}
			shown := shownOf(cmd.Context(), s, v, cfg.CheckpointID == "")
			return a.print(shown, func(p *printer) { printCheckpoint(p, shown, width) })
		},
	}
	f := cmd.Flags()
	in.register(f)
	f.StringVar(&cfg.CheckpointID, "checkpoint", "", "id of the checkpoint; the newest if not given")
	f.StringVar(&cfg.Namespace, "ns", "", "checkpoint namespace; the root if not given")
	f.IntVar(&history, "history", 0, "list that many checkpoints instead, newest first; 0 for all")
	f.IntVar(&width, "width", 400, "bytes of each value shown; 0 for all")
	return cmd
}

// ifNoThread says that a thread is not in the store, which is where as a shell has it, if err is because of that, and
// else what the thread has.
func ifNoThread(ctx context.Context, s saver.Saver, where, thread string, err error) error {
	if !errors.Is(err, saver.ErrNotFound) {
		return err
	}
	if alone, _ := writesAlone(ctx, s, thread); alone != nil {
		return &said{fmt.Sprintf("thread %q has no checkpoint; see its writes with stele show %s %s", thread, where, shellWord(thread)), err}
	}
	if _, there, terr := saver.ThreadOf(ctx, s, thread); there || terr != nil {
		return fmt.Errorf("%w; see stele show %s %s --history 0", err, where, shellWord(thread))
	}
	return noThread(where, thread)
}

// noThread is the error of who names a thread that a store does not have.
func noThread(where, thread string) error {
	return &said{fmt.Sprintf("no thread %q; see stele threads %s", thread, where), saver.ErrNotFound}
}

func printCheckpoint(p *printer, v *shownCheckpoint, width int) {
	p.line("thread      %s", printable(v.Thread))
	p.line("namespace   %s", printable(v.Namespace))
	p.line("checkpoint  %s", v.Checkpoint)
	p.line("parent      %s", orDash(v.Parent))
	p.line("ts          %s  v %d", v.TS, v.V)
	printProgress(p, v.CheckpointView)
	if v.ChildOf != "" {
		p.line("child of    thread %s", printable(v.ChildOf))
	}
	p.line("metadata    %s", compact(v.Metadata, width))
	if v.Updated != nil {
		p.line("updated     %s", compact(v.Updated, width))
	}
	printSteps(p, v, width)
	printSignals(p, v, width)
	p.line("")
	p.line("channels")
	for _, name := range slices.Sorted(maps.Keys(v.Channels)) {
		ch := v.Channels[name]
		p.line("  %s  version %s%s", printable(name), ch.Version, valueText(ch.ValueView, width))
	}
	if len(v.Seen) > 0 {
		p.line("")
		p.line("versions seen")
		for _, node := range slices.Sorted(maps.Keys(v.Seen)) {
			p.line("  %s  %s", printable(node), compact(v.Seen[node], width))
		}
	}
	if len(v.Writes) > 0 {
		p.line("")
		p.line("pending writes")
		for _, w := range v.Writes {
			printWrite(p, w, width)
		}
	}
}

func printWrite(p *printer, w admin.WriteView, width int) {
	p.line("  task %s  %s[%d]%s", w.Task, printable(w.Channel), w.Index, valueText(w.ValueView, width))
}

// shownWrites is a thread that has pending writes and no checkpoint. PutWrites may come before the Put of the checkpoint, which
// then never came.
type shownWrites struct {
	Thread string             `json:"thread"`
	Writes []admin.WriteAlone `json:"writes"`
}

// writesAlone returns nil if the thread has a checkpoint, or is not there.
func writesAlone(ctx context.Context, s saver.Saver, thread string) (*shownWrites, error) {
	var tuples []*saver.Tuple
	var err error
	switch s := s.(type) {
	case *disk.Saver:
		tuples, err = s.Inside().WritesAlone(thread)
	case *postgres.Saver:
		tuples, err = postgres.WritesAlone(ctx, s, thread)
	}
	if err != nil || len(tuples) == 0 {
		return nil, err
	}
	if _, err := admin.History(ctx, s, thread, nil, 1); !errors.Is(err, saver.ErrNotFound) {
		return nil, err
	}
	return &shownWrites{thread, admin.WritesAlone(s, tuples)}, nil
}

func printWritesAlone(p *printer, v *shownWrites, width int) {
	p.line("thread      %s", printable(v.Thread))
	p.line("checkpoint  none")
	for i, w := range v.Writes {
		if i == 0 || w.Namespace != v.Writes[i-1].Namespace || w.Checkpoint != v.Writes[i-1].Checkpoint {
			p.line("")
			p.line("pending writes of checkpoint %s, namespace %s, which is not stored", printable(w.Checkpoint), printable(w.Namespace))
		}
		printWrite(p, w.WriteView, width)
	}
}

// printProgress prints the thread's status, and the nodes that were to run next when the
// checkpoint was made.
func printProgress(p *printer, v *admin.CheckpointView) {
	if v.Graph != "" {
		p.line("graph       %s", printable(v.Graph))
	}
	if v.Version != "" {
		p.line("version     %s", printable(v.Version))
	}
	next := nodes(v.Next...)
	switch v.Stop {
	case saver.StopBreakpoint:
		next += ", stopped at a breakpoint"
	case saver.StopSteps:
		next += ", out of steps"
	}
	switch {
	case v.Status != "" && next != "":
		p.line("status      %s, next: %s", v.Status, next)
	case v.Status != "":
		p.line("status      %s", v.Status)
	case next != "":
		p.line("next        %s", next)
	}
}

func valueText(v admin.ValueView, width int) string {
	switch {
	case v.Kind == "" && v.Error == "":
		return "  (no value)"
	case v.Error != "":
		return "  CANNOT BE READ: " + v.Error
	}
	return fmt.Sprintf("  %s, %s\n    %s", v.Kind, size(v.Bytes), compact(v.Value, width))
}

func (a *app) printHistory(cmd *cobra.Command, s saver.Saver, thread string, ns *string, limit int) error {
	list, err := admin.History(cmd.Context(), s, thread, ns, limit)
	if err != nil {
		return fmt.Errorf("thread %q: %w", thread, err)
	}
	return a.print(list, func(p *printer) { printCheckpoints(p, list) })
}

func printCheckpoints(p *printer, list []admin.CheckpointRow) {
	var rows [][]any
	for _, c := range list {
		if c.Error != "" {
			rows = append(rows, []any{"CANNOT BE READ: " + c.Error, "", "", "", "", "", ""})
			continue
		}
		rows = append(rows, []any{c.Checkpoint, printable(c.Namespace), compact(c.Step, 0), compact(c.Source, 0), orDash(c.Parent), c.Channels, c.Writes})
	}
	p.table([]string{"checkpoint", "namespace", "step", "source", "parent", "channels", "writes"}, rows)
}

func (a *app) diffCmd() *cobra.Command {
	var cfg saver.Config
	var width int
	cmd := &cobra.Command{
		Use: "diff DIR THREAD FROM TO", Short: "Compare two checkpoints of a thread: channels, versions, values",
		Args: cobra.ExactArgs(4), ValidArgsFunction: a.threadArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.flags.open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }() // read-only
			cfg.ThreadID = args[1]
			diff, err := admin.Diff(cmd.Context(), d, cfg, args[2], args[3])
			if err != nil {
				return ifNoThread(cmd.Context(), d, shellWord(args[0]), args[1], err)
			}
			return a.print(diff, func(p *printer) { printDiff(p, diff, width) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Namespace, "ns", "", "checkpoint namespace; the root if not given")
	f.IntVar(&width, "width", 400, "bytes of each value shown; 0 for all")
	return cmd
}

func printDiff(p *printer, diff *admin.Difference, width int) {
	p.line("thread %s  from %s to %s", printable(diff.Thread), diff.From, diff.To)
	printChanges(p, "metadata", diff.Metadata, width)
	for _, c := range diff.Channels {
		p.line("channel %s  %s -> %s", printable(c.Channel), orDash(c.FromVersion), orDash(c.ToVersion))
		if c.Error != "" {
			p.line("  CANNOT BE READ: %s", c.Error)
		}
		printChanges(p, "", c.Changes, width)
	}
	p.line("%s unchanged", plural(diff.Same, "channel"))
}

func printChanges(p *printer, title string, changes []admin.Change, width int) {
	if title != "" && len(changes) > 0 {
		p.line("%s", title)
	}
	for _, c := range changes {
		switch c.Op {
		case "add":
			p.line("  + %s %s", c.Path, compact(c.To, width))
		case "remove":
			p.line("  - %s %s", c.Path, compact(c.From, width))
		default:
			p.line("  - %s %s", c.Path, compact(c.From, width))
			p.line("  + %s %s", c.Path, compact(c.To, width))
		}
	}
}
