package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver/admin"
)

func (a *app) verifyCmd() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "verify DIR", Short: "Check every byte of a store or of a backup",
		Long: `Check every byte of a store: manifest, log, segments, images, that they agree, that
every checkpoint can be read and every value is right. It needs no lock and may run
beside a writer. In a directory that holds a backup, check that.

One line per finding: file:offset, what was read, what is wrong; then one for each
checkpoint and each version of a channel that it costs. Exit code 0: nothing
is damaged; 1: something is; 2: the check could not be made. Notices are what a crash
or a writer at work may leave; they count with --strict alone.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.VerifyReport, error) {
				rep, err := admin.Verify(cmd.Context(), args[0], admin.VerifyOptions{Access: access, Progress: tell})
				if err == nil && (!rep.Clean() || strict && len(rep.Notices) > 0) {
					a.code = exitFound
				}
				return rep, err
			}, printVerify)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 for notices as well")
	return cmd
}

func printVerify(p *printer, rep *admin.VerifyReport) {
	for _, f := range rep.Damage {
		p.line("DAMAGE  %s", f)
		if len(f.Threads) > 0 {
			p.line("        concerns %s", some(f.Threads))
		}
	}
	printLost(p, rep.LostCheckpoints, rep.LostValues, rep.LostMore)
	for _, f := range rep.Notices {
		p.line("notice  %s", f)
	}
	what := fmt.Sprintf("%s, %s, %s of the log, %s, %s, %s", plural(rep.Files, "file"), size(rep.Bytes), plural(rep.Records, "record"),
		plural(rep.Checkpoints, "checkpoint"), plural(rep.Entries, "index entry"), plural(rep.Values, "value"))
	if rep.Backup {
		what = fmt.Sprintf("backup of store %s: %s, %s", rep.StoreID, plural(rep.Files, "file"), size(rep.Bytes))
	}
	if rep.Compared {
		what += ", saved index compared"
	}
	verdict := "clean"
	if !rep.Clean() {
		verdict = fmt.Sprintf("%s of damage", plural(len(rep.Damage), "place"))
	}
	if n := len(rep.Notices); n > 0 {
		verdict += ", " + plural(n, "notice")
	}
	p.line("%s: %s (%s)", verdict, what, rep.Took.Round(time.Millisecond))
}

// some joins the first of a list, and says how many more there are.
func some(list []string) string {
	const most = 5
	var out []string
	for _, s := range list[:min(len(list), most)] {
		out = append(out, printable(s))
	}
	if len(list) > most {
		out = append(out, fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(out, ", ")
}

func (a *app) dumpCmd() *cobra.Command {
	var headers bool
	cmd := &cobra.Command{
		Use: "dump FILE", Short: "Explain any file of a store, byte range by byte range",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			p := a.printer()
			for e, err := range admin.Dump(cmd.Context(), args[0], access) {
				if err != nil {
					return err
				}
				if headers {
					e.Lines = nil
				}
				if p.json {
					err = p.row(e)
				} else {
					printDump(p, &e)
					err = p.err
				}
				if err != nil {
					return err
				}
			}
			return p.err
		},
	}
	cmd.Flags().BoolVar(&headers, "headers", false, "headers of frames only, not what they carry")
	return cmd
}

func printDump(p *printer, e *admin.DumpEntry) {
	var fields []string
	for _, f := range e.Fields {
		v := f.Value
		if t, ok := v.(time.Time); ok {
			v = t.Format(time.RFC3339Nano)
		}
		fields = append(fields, fmt.Sprintf("%s=%v", f.Name, v))
	}
	p.line("%10d  %8d  %-14s  %s", e.Offset, e.Size, e.Kind, strings.Join(fields, " "))
	for _, l := range e.Lines {
		p.line("%22s%s%s", "", strings.Repeat("  ", l.Depth), l.Text)
	}
	if e.Error != "" {
		p.line("%22s%s", "", e.Error)
	}
}
