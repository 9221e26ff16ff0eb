package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/transfer"
	"github.com/stele-go/stele/transfer/sqlite"
)

// transferFlags say what to copy, and how, as they are typed.
type transferFlags struct {
	threads, filters        []string
	prefix, rejects, schema string
	replace, setup          bool
	items                   int // of a long-term store beside the checkpoints, which are not copied
}

func (f *transferFlags) register(cmd *cobra.Command) *cobra.Command {
	p := cmd.Flags()
	p.StringArrayVar(&f.threads, "thread", nil, "id of a thread to copy; may be given again")
	p.StringVar(&f.prefix, "prefix", "", "only threads whose id begins with it")
	p.StringArrayVar(&f.filters, "filter", nil, "only threads of which a checkpoint matches: "+filterUsage+"; may be given again, and all must match")
	p.StringVar(&f.rejects, "rejects", "", "file for what cannot be copied (default: beside the directory or the file that is written, .rejects.ndjson)")
	return cmd
}

func (f *transferFlags) registerReplace(cmd *cobra.Command, what string) *cobra.Command {
	cmd.Flags().BoolVar(&f.replace, "replace", false, what)
	return cmd
}

const replacesCheckpoints = "put checkpoints again that are there with other content; pending writes that are there stay"

func (f *transferFlags) registerDatabase(cmd *cobra.Command, setup string) *cobra.Command {
	cmd.Flags().BoolVar(&f.setup, "setup", false, setup)
	cmd.Flags().StringVar(&f.schema, "schema", "", "schema that has the tables (default: the first of the search path)")
	return cmd
}

func (f *transferFlags) selection() (sel transfer.Selection, err error) {
	sel = transfer.Selection{Threads: f.threads, Prefix: f.prefix}
	sel.Metadata, err = parseFilter(f.filters)
	return sel, err
}

// transferReport is what import and export say at their end.
type transferReport struct {
	From string `json:"from"`
	To   string `json:"to"`
	transfer.Report
	RejectsFile string        `json:"rejects_file,omitempty"`
	ItemsLeft   int           `json:"items_left"` // of a long-term store, not copied
	Took        time.Duration `json:"took_ns"`
}

const resumes = `
If it is killed, the same command again continues: what is there and equal is left alone. A
checkpoint that is there with other content ends it, and nothing is overwritten unless
--replace is given. At the end every checkpoint is read back and compared.

What cannot be copied is kept apart with its bytes, a line of NDJSON for each, in the file
of --rejects; the exit code is then 1.`

func (a *app) importCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Copy checkpoints into a store: from LangGraph's SQLite or PostgreSQL, or from NDJSON",
		Long: `Copy checkpoints, whole stores or chosen threads, into the store in DIR, which is made if it
is missing. It opens the store for writing: no other process may have it open.
` + resumes,
	}
	cmd.AddCommand(writing(a.importSQLiteCmd()), writing(a.importPostgresCmd()), writing(a.importNDJSONCmd()))
	return cmd
}

func (a *app) exportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Copy checkpoints out of a store: to PostgreSQL, or to NDJSON",
		Long: `Copy checkpoints, whole stores or chosen threads, out of the store in DIR. The store is only
read, and may be in use; of threads that are written to meanwhile an older part may be
copied.`,
	}
	cmd.AddCommand(writing(a.exportPostgresCmd()), writing(a.exportNDJSONCmd()))
	return cmd
}

func (a *app) importSQLiteCmd() *cobra.Command {
	var f transferFlags
	return f.registerReplace(f.register(&cobra.Command{
		Use: "sqlite FILE DIR", Short: "Copy a file of LangGraph's SQLite saver, Python or JavaScript, into a store",
		Long: `Copy a file of LangGraph's SQLite saver into the store in DIR, which is made if it is
missing. Files of Python up to langgraph-checkpoint-sqlite 3.1 are read, those of older
releases too, and files of JavaScript. The file is only read, as it is at one moment. Items
of LangGraph's SQLite store are not copied.
` + resumes,
		Example: `  stele import sqlite checkpoints.sqlite store
  stele import sqlite checkpoints.sqlite store --filter user=ada`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := sqlite.Open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			total, err := src.Count(cmd.Context())
			if err == nil {
				f.items, err = src.Items(cmd.Context())
			}
			if err == nil {
				err = a.importFrom(cmd.Context(), args[0], src, total, args[1], &f)
			}
			return errors.Join(err, src.Close())
		},
	}), replacesCheckpoints)
}

func (a *app) importPostgresCmd() *cobra.Command {
	var f transferFlags
	return f.registerDatabase(f.registerReplace(f.register(&cobra.Command{
		Use: "postgres URL DIR", Short: "Copy the database of LangGraph's saver, or of stele's, into a store",
		Long: `Copy a database of LangGraph's saver on PostgreSQL, or of stele's, into the store in DIR,
which is made if it is missing. URL is a connection string; what it leaves out, such as the
password, is taken from the environment (PGPASSWORD) and the password file.

A database that only LangGraph has used needs --setup once: it adds the tables that stele
reads beside LangGraph's, and changes nothing in these. Otherwise nothing is written to the
database.
` + resumes,
		Example: `  stele import postgres 'host=db dbname=agents user=app' store`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.database(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = a.importFrom(cmd.Context(), "PostgreSQL", transfer.FromSaver(s), 0, args[1], &f)
			return errors.Join(err, s.Close())
		},
	}), replacesCheckpoints), "make the tables of stele that are missing in the database")
}

func (a *app) importNDJSONCmd() *cobra.Command {
	var f transferFlags
	return f.registerReplace(f.register(&cobra.Command{
		Use: "ndjson FILE DIR", Short: "Copy a file that export ndjson wrote into a store",
		Long: `Copy a file of NDJSON, as export ndjson writes it, into the store in DIR, which is made if it
is missing. FILE may be - for standard input; --filter then does not work, because it reads
the file twice.
` + resumes,
		Example: `  stele import ndjson threads.ndjson store`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			open := func() (io.ReadCloser, error) { return os.Open(args[0]) }
			if args[0] == "-" {
				if len(f.filters) > 0 {
					return errors.New("--filter reads the file twice; it does not go with standard input")
				}
				open = func() (io.ReadCloser, error) { return io.NopCloser(os.Stdin), nil }
			}
			return a.importFrom(cmd.Context(), args[0], transfer.FromNDJSON(open), 0, args[1], &f)
		},
	}), replacesCheckpoints)
}

// importFrom copies into the store in dir.
func (a *app) importFrom(ctx context.Context, from string, src transfer.Source, total int, dir string, f *transferFlags) error {
	return a.transfer(f, a.out, from, dir, dir, total, func(access admin.Access, o transfer.Options) (transfer.Report, error) {
		opts := access.Options
		opts.Sync = disk.SyncInterval // what a crash takes is copied again; the copy ends with a sync
		d, err := disk.Open(dir, opts)
		if err != nil {
			return transfer.Report{}, err
		}
		rep, err := transfer.Copy(ctx, src, d, o)
		return rep, errors.Join(err, d.Close())
	})
}

func (a *app) exportPostgresCmd() *cobra.Command {
	var f transferFlags
	return f.registerDatabase(f.registerReplace(f.register(&cobra.Command{
		Use: "postgres DIR URL", Short: "Copy a store into the database of LangGraph's saver on PostgreSQL",
		Long: `Copy the store in DIR into a database in which LangGraph's saver and stele's work. URL is a
connection string; what it leaves out, such as the password, is taken from the environment
(PGPASSWORD) and the password file.

PostgreSQL cannot hold some names and metadata that a store can, and has one value for a
channel and a version of it. A checkpoint that it refuses is kept apart.
` + resumes,
		Example: `  stele export postgres store 'host=db dbname=agents user=app' --setup`,
		Args:    cobra.ExactArgs(2), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.transfer(&f, a.out, args[0], "PostgreSQL", args[0], 0, func(access admin.Access, o transfer.Options) (transfer.Report, error) {
				d, err := access.Open(args[0], true)
				if err != nil {
					return transfer.Report{}, err
				}
				defer func() { _ = d.Close() }() // read-only
				s, err := f.database(cmd.Context(), args[1])
				if err != nil {
					return transfer.Report{}, err
				}
				o.Refused = func(err error) bool { return errors.Is(err, postgres.ErrVersionTaken) }
				rep, err := transfer.Copy(cmd.Context(), transfer.FromSaver(d), s, o)
				return rep, errors.Join(err, s.Close())
			})
		},
	}), replacesCheckpoints), "make the tables that are missing")
}

// database opens a database, and sets it up before if the flags say so.
func (f *transferFlags) database(ctx context.Context, url string) (*postgres.Saver, error) {
	opts := postgres.Options{Schema: f.schema}
	if f.setup {
		if err := postgres.Setup(ctx, url, opts); err != nil {
			return nil, err
		}
	}
	s, err := postgres.Open(ctx, url, opts)
	if errors.Is(err, postgres.ErrNotSetUp) {
		err = fmt.Errorf("%w; --setup makes them", err)
	}
	return s, err
}

func (a *app) exportNDJSONCmd() *cobra.Command {
	var f transferFlags
	return f.registerReplace(f.register(&cobra.Command{
		Use: "ndjson DIR FILE", Short: "Copy a store into a file of NDJSON",
		Long: `Copy the store in DIR into a file of NDJSON, which must not exist. It is written as FILE.part,
read back and compared, and gets its name when it is whole and durable. If the command is
killed, the same command again begins anew. FILE may be - for standard output, which is not
read back.

What cannot be read is kept apart with its bytes, a line of NDJSON for each, in the file of
--rejects; the exit code is then 1.`,
		Example: `  stele export ndjson store threads.ndjson --prefix customer-`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, file := args[0], args[1]
			beside, says := file, a.out
			if file == "-" {
				beside, says = dir, a.err
			}
			return a.transfer(&f, says, dir, file, beside, 0, func(access admin.Access, o transfer.Options) (transfer.Report, error) {
				d, err := access.Open(dir, true)
				if err != nil {
					return transfer.Report{}, err
				}
				defer func() { _ = d.Close() }() // read-only
				if file == "-" {
					return transfer.Write(cmd.Context(), transfer.FromSaver(d), a.out, o)
				}
				return transfer.WriteFile(cmd.Context(), transfer.FromSaver(d), file, o)
			})
		},
	}), "write over a file that exists")
}

// transfer runs a copy and says to w what it did. What is rejected goes to a file, by default
// to one beside the path beside. total is the number of checkpoints, 0 if it is not known.
func (a *app) transfer(f *transferFlags, w io.Writer, from, to, beside string, total int, run func(admin.Access, transfer.Options) (transfer.Report, error)) error {
	access, err := a.flags.access()
	if err != nil {
		return err
	}
	o := transfer.Options{Replace: f.replace}
	if o.Select, err = f.selection(); err != nil {
		return err
	}
	path := f.rejects
	if path == "" {
		if path, err = filepath.Abs(beside); err != nil { // which makes a name of "."
			return err
		}
		path += ".rejects.ndjson"
	}
	rejects := transfer.NewRejects(path)
	o.Reject = rejects.Add
	tell, stop := a.progress()
	if tell != nil {
		o.Progress = transferProgress(tell, total)
	}
	begin := time.Now()
	rep := transferReport{From: from, To: to, ItemsLeft: f.items}
	rep.Report, err = run(access, o)
	stop()
	rep.Took, rep.RejectsFile = time.Since(begin), rejects.Path()
	if err = errors.Join(err, rejects.Close()); err != nil {
		if rep.RejectsFile != "" {
			err = fmt.Errorf("%w; %d kept apart in %s so far", err, rep.Rejected, rep.RejectsFile)
		}
		return err
	}
	if rep.Rejected > 0 {
		a.code = exitFound
	}
	p := &printer{w: w, json: a.flags.json}
	if p.json {
		return p.object(rep)
	}
	printTransfer(p, &rep, filterHint(f.filters))
	return p.err
}

// transferProgress tells of a copy. Of how many checkpoints it will be is known only
// sometimes.
func transferProgress(tell func(admin.Progress), total int) func(step string, done int) {
	copied := 0
	return func(step string, done int) {
		p := admin.Progress{Step: step, Done: int64(done), Total: int64(max(total, done+1))}
		if step == "verify" {
			p.Total = int64(copied)
		} else {
			copied = done
		}
		tell(p)
	}
}

func printTransfer(p *printer, rep *transferReport, hint string) {
	if rep.ItemsLeft > 0 {
		p.line("NOTE    %s of LangGraph's store in the file: import copies checkpoints, and no items", plural(rep.ItemsLeft, "item"))
	}
	if rep.Checkpoints == 0 && rep.Rejected == 0 {
		p.line("nothing to copy")
		p.hint(hint)
		return
	}
	parts := []string{plural(rep.Threads, "thread"), plural(rep.Checkpoints, "checkpoint"), plural(rep.Writes, "pending write")}
	if there := rep.Checkpoints - rep.Copied - rep.Replaced; there > 0 {
		parts = append(parts, fmt.Sprintf("%d of them there before", there))
	}
	if rep.Replaced > 0 {
		parts = append(parts, fmt.Sprintf("%d replaced", rep.Replaced))
	}
	verified := "not read back"
	if rep.Verified == rep.Checkpoints {
		verified = "verified"
	}
	p.line("copied %s to %s: %s; %s written, %s (%s)", rep.From, rep.To, strings.Join(parts, ", "), size(rep.Bytes), verified, rep.Took.Round(time.Millisecond))
	if rep.Rejected > 0 {
		p.line("kept apart %d in %s", rep.Rejected, rep.RejectsFile)
	}
}
