package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/ops/transfer/sqlite"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// transferFlags say what to copy, and how, as they are typed.
type transferFlags struct {
	threads, filters        []string
	prefix, rejects, schema string
	below                   string
	replace, setup          bool
}

func (f *transferFlags) register(cmd *cobra.Command) *cobra.Command {
	p := cmd.Flags()
	p.StringArrayVar(&f.threads, "thread", nil, "id of a thread to copy; may be given again")
	p.StringVar(&f.prefix, "prefix", "", "only threads whose id begins with it")
	p.StringArrayVar(&f.filters, "filter", nil, "only threads of which a checkpoint matches: "+filterUsage+"; may be given again, and all must match")
	p.StringVar(&f.below, "items", "", "namespace, its labels joined with dots: only items of the long-term store below it, and no threads unless some are chosen (default: all, and none if threads are chosen)")
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
	if f.below != "" {
		if slices.Contains(strings.Split(f.below, "."), "") {
			return sel, fmt.Errorf("--items %s: a label is empty", f.below)
		}
		if !f.choosesThreads() {
			sel.Threads = []string{} // none
		}
	}
	sel.Metadata, err = parseFilter(f.filters)
	return sel, err
}

// choosesThreads reports whether some threads were chosen.
func (f *transferFlags) choosesThreads() bool {
	return len(f.threads) > 0 || f.prefix != "" || len(f.filters) > 0
}

// selectsItems reports whether the flags select items, and below which namespace.
func (f *transferFlags) selectsItems() (below store.Namespace, ok bool) {
	if f.below != "" {
		return strings.Split(f.below, "."), true
	}
	return nil, !f.choosesThreads()
}

// transferReport is the report of import and export.
type transferReport struct {
	From string `json:"from"`
	To   string `json:"to"`
	transfer.Report
	Items       transfer.ItemReport `json:"items"`
	RejectsFile string              `json:"rejects_file,omitempty"`
	Took        time.Duration       `json:"took_ns"`
}

const resumes = `
If it is killed, the same command again continues: what is there and equal is left alone. A
checkpoint or an item that is there with other content ends it, and nothing is overwritten
unless --replace is given. Every checkpoint and every item is read back and compared.

Items of the long-term store are copied with their times and their lives, but without
vectors, since no store knows which model has made them: put them again, or copy them in a
program whose store has an index, to find them by meaning. Which items, --items says.

What cannot be copied is kept apart with its bytes, a line of NDJSON for each, in the file
of --rejects; the exit code is then 1. A thread of --thread, or a namespace of --items, that is
not there is an error.`

// unknown runs a command that has only others below it: a script that names none of them, such as
// "stele export DIR > FILE", must not succeed.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	names := []string{}
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%s what? %q is not one of %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
}

func (a *app) importCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Copy checkpoints and items into a store: from LangGraph's SQLite or PostgreSQL, or from NDJSON",
		Long: `Copy checkpoints and items, whole stores or chosen threads, into the store in DIR, which is made if it
is missing. It opens the store for writing: no other process may have it open.
` + resumes,
		DisableFlagsInUseLine: true, RunE: unknown,
	}
	cmd.AddCommand(writing(a.importSQLiteCmd()), writing(a.importPostgresCmd()), writing(a.importNDJSONCmd()))
	return cmd
}

func (a *app) exportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Short: "Copy checkpoints and items out of a store: to PostgreSQL, or to NDJSON",
		Long: `Copy checkpoints and items, whole stores or chosen threads, out of the store in DIR. The store is only
read, and may be in use; of threads that are written to meanwhile an older part may be
copied.`,
		DisableFlagsInUseLine: true, RunE: unknown,
	}
	cmd.AddCommand(writing(a.exportPostgresCmd()), writing(a.exportNDJSONCmd()))
	return cmd
}

func (a *app) importSQLiteCmd() *cobra.Command {
	var f transferFlags
	return f.registerReplace(f.register(&cobra.Command{
		Use: "sqlite FILE DIR", Short: "Copy a file of LangGraph's SQLite saver or store, Python or JavaScript, into a store",
		Long: `Copy a file of LangGraph's SQLite saver, or of its SQLite store, into the store in DIR, which
is made if it is missing. Files of Python up to langgraph-checkpoint-sqlite 3.1 are read,
those of older releases too, and files of JavaScript. The file is only read, as it is at one
moment.
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
				err = a.importFrom(cmd.Context(), args[0], src, src, total, args[1], &f)
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
			items, err := a.databaseItems(cmd.Context(), &f, args[0], s)
			if err == nil {
				err = a.importFrom(cmd.Context(), "PostgreSQL", transfer.FromSaver(s), items, 0, args[1], &f)
			}
			return errors.Join(err, s.Close())
		},
	}), replacesCheckpoints), "make the tables of stele that are missing in the database")
}

func (a *app) importNDJSONCmd() *cobra.Command {
	var f transferFlags
	return f.registerReplace(f.register(&cobra.Command{
		Use: "ndjson FILE DIR", Short: "Copy a file that export ndjson wrote into a store",
		Long: `Copy a file of NDJSON, as export ndjson writes it, into the store in DIR, which is made if it
is missing. FILE may be - for standard input, which is kept in a temporary file.
` + resumes,
		Example: `  stele import ndjson threads.ndjson store`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := args[0]
			if path == "-" { // it is read more than once
				kept, err := keep(cmd.Context(), os.Stdin)
				if err != nil {
					return err
				}
				defer os.Remove(kept)
				path = kept
			} else if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && !st.IsDir() { // to open a pipe may take for ever
				return fmt.Errorf("%s is no regular file, and a file is read more than once: give - and pipe it in", path)
			}
			src := transfer.FromNDJSON(func() (io.ReadCloser, error) { return os.Open(path) })
			if err := src.Check(); err != nil { // before a store is made
				return err
			}
			return a.importFrom(cmd.Context(), args[0], src, src, 0, args[1], &f)
		},
	}), replacesCheckpoints)
}

// keep copies r to a temporary file, and returns its name. It ends with ctx, though nothing ends a read of a pipe: that
// goes on until the process ends.
func keep(ctx context.Context, r io.Reader) (path string, err error) {
	f, err := os.CreateTemp("", "stele-*.ndjson")
	if err != nil {
		return "", err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, r)
		read <- err
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		err = &said{"interrupted while it read standard input; nothing was imported", ctx.Err()}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// importFrom copies into the store in dir. items is nil if there are none.
func (a *app) importFrom(ctx context.Context, from string, src transfer.Source, items transfer.ItemSource, total int, dir string, f *transferFlags) error {
	return a.transfer(f, a.out, from, dir, dir, total, func(access admin.Access, o transfer.Options) (rep copied, err error) {
		opts := access.Options
		opts.Sync = disk.SyncInterval // data lost by a crash is copied again; the copy ends with a sync
		d, err := disk.Open(dir, opts)
		if err != nil {
			return rep, err
		}
		to, err := itemsOf(d)
		if err != nil {
			return rep, errors.Join(err, d.Close())
		}
		rep, err = copyAll(ctx, f, src, d, items, to, o)
		return rep, errors.Join(err, to.Close(), d.Close())
	})
}

// copied counts what a command copied.
type copied struct {
	checkpoints transfer.Report
	items       transfer.ItemReport
}

// copyAll copies items, and then checkpoints, so that what a copied thread has learned is there.
func copyAll(ctx context.Context, f *transferFlags, src transfer.Source, dst saver.Saver, items transfer.ItemSource, to transfer.ItemTarget,
	o transfer.Options) (rep copied, err error) {
	if below, ok := f.selectsItems(); ok && items != nil && to != nil {
		if rep.items, err = transfer.CopyItems(ctx, namedItems{items, f}, to, below, o); err != nil {
			return rep, err
		}
	} else if f.below != "" {
		return rep, f.noItems()
	}
	rep.checkpoints, err = transfer.Copy(ctx, namedThreads{src, f}, dst, o)
	return rep, err
}

// itemsOf is the long-term store in the directory of a saver. Values that are encrypted stay so.
func itemsOf(d *disk.Saver) (*store.Local, error) {
	return store.On(d, store.Options{NoRefreshOnRead: true, Serializer: transfer.PassEncrypted(d.Serializer())})
}

// databaseItems is the long-term store beside a saver; nil if there are no tables of one that
// stele reads.
func (a *app) databaseItems(ctx context.Context, f *transferFlags, url string, s *postgres.Saver) (transfer.ItemSource, error) {
	if _, ok := f.selectsItems(); !ok {
		return nil, nil
	}
	there, err := pgstore.Exists(ctx, s)
	switch {
	case errors.Is(err, postgres.ErrForeign):
		fmt.Fprintf(a.err, "items are not copied: %v\n", err)
		return nil, nil
	case err != nil || !there:
		return nil, err
	}
	items, err := f.databaseStore(ctx, url, s)
	if err != nil {
		return nil, err
	}
	return transfer.FromStore(items), nil
}

// databaseStore opens the long-term store beside a saver, and sets it up before if the flags say
// so.
func (f *transferFlags) databaseStore(ctx context.Context, url string, s *postgres.Saver) (*pgstore.Store, error) {
	if f.setup {
		if err := pgstore.Setup(ctx, url, postgres.Options{Schema: f.schema}, nil); err != nil {
			return nil, err
		}
	}
	items, err := pgstore.On(ctx, s, store.Options{NoRefreshOnRead: true, Serializer: transfer.PassEncrypted(s.Serializer())})
	if errors.Is(err, postgres.ErrNotSetUp) {
		err = fmt.Errorf("%w; --setup makes them", err)
	}
	return items, err
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
			return a.transfer(&f, a.out, args[0], "PostgreSQL", args[0], 0, func(access admin.Access, o transfer.Options) (rep copied, err error) {
				d, err := access.Open(args[0], true)
				if err != nil {
					return rep, err
				}
				defer func() { _ = d.Close() }() // read-only
				s, err := f.database(cmd.Context(), args[1])
				if err != nil {
					return rep, err
				}
				o.Refused = func(err error) bool { return errors.Is(err, postgres.ErrVersionTaken) }
				rep, err = exportTo(cmd.Context(), &f, d, args[1], s, o)
				return rep, errors.Join(err, s.Close())
			})
		},
	}), replacesCheckpoints), "make the tables that are missing")
}

// exportTo copies a store into a database. The tables of items are needed if there are some.
func exportTo(ctx context.Context, f *transferFlags, d *disk.Saver, url string, s *postgres.Saver, o transfer.Options) (rep copied, err error) {
	from, err := itemsOf(d)
	if err != nil {
		return rep, err
	}
	defer func() { _ = from.Close() }() // only read from
	var to transfer.ItemTarget
	if below, ok := f.selectsItems(); ok {
		some, err := from.Search(ctx, store.Query{Prefix: below, Limit: 1, NoRefresh: true})
		if err != nil {
			return rep, err
		}
		if len(some) > 0 {
			items, err := f.databaseStore(ctx, url, s)
			if err != nil {
				return rep, err
			}
			defer func() { _ = items.Close() }() // the saver's connections
			to = items
		}
	}
	return copyAll(ctx, f, transfer.FromSaver(d), s, transfer.FromStore(from), to, o)
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
--rejects; the exit code is then 1. A thread of --thread, or a namespace of --items, that is
not there is an error, and no file is made.`,
		Example: `  stele export ndjson store threads.ndjson --prefix customer-`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, file := args[0], args[1]
			beside, says := file, a.out
			if file == "-" {
				beside, says = dir, a.err
			}
			return a.transfer(&f, says, dir, file, beside, 0, func(access admin.Access, o transfer.Options) (rep copied, err error) {
				d, err := access.Open(dir, true)
				if err != nil {
					return rep, err
				}
				defer func() { _ = d.Close() }() // read-only
				items, err := itemsOf(d)
				if err != nil {
					return rep, err
				}
				defer func() { _ = items.Close() }() // only read from
				if below, ok := f.selectsItems(); ok {
					o.Items, o.Below = namedItems{transfer.FromStore(items), &f}, below
				}
				src := namedThreads{transfer.FromSaver(d), &f}
				if file == "-" {
					rep.checkpoints, err = transfer.Write(cmd.Context(), src, a.out, o)
				} else {
					rep.checkpoints, err = transfer.WriteFile(cmd.Context(), src, file, o)
					rep.items.Verified = rep.checkpoints.Items
				}
				rep.items.Items, rep.items.Copied = rep.checkpoints.Items, rep.checkpoints.Items
				return rep, err
			})
		},
	}), "write over a file that exists")
}

// transfer runs a copy and says to w what it did. What is rejected goes to a file, by default
// to one beside the path beside. total is the number of checkpoints, 0 if it is not known.
func (a *app) transfer(f *transferFlags, w io.Writer, from, to, beside string, total int, run func(admin.Access, transfer.Options) (copied, error)) error {
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
	rep := transferReport{From: from, To: to}
	done, err := run(access, o)
	rep.Report, rep.Items = done.checkpoints, done.items
	stop()
	rep.Took, rep.RejectsFile = time.Since(begin), rejects.Path()
	if err = errors.Join(err, rejects.Close()); err != nil {
		if errors.Is(err, context.Canceled) {
			checkpoints, items := rep.Copied+rep.Replaced, rep.Items.Copied+rep.Items.Replaced
			err = &said{fmt.Sprintf("interrupted; copied so far: %s, %s", plural(checkpoints, "checkpoint"), plural(items, "item")), err}
		}
		if rep.RejectsFile != "" {
			err = fmt.Errorf("%w; %d kept apart in %s so far", err, rep.Rejected+rep.Items.Rejected, rep.RejectsFile)
		}
		return err
	}
	if rep.Rejected+rep.Items.Rejected > 0 {
		a.code = exitFound
	}
	p := &printer{w: w, json: a.flags.json}
	if p.json {
		return p.object(rep)
	}
	printTransfer(p, &rep, filterHint(f.filters))
	return p.err
}

// transferProgress returns a function that reports the progress of a copy. total is the number of
// checkpoints, 0 if it is not known.
func transferProgress(tell func(admin.Progress), total int) func(step string, done int) {
	copied := 0
	return func(step string, done int) {
		p := admin.Progress{Step: step, Done: int64(done), Total: int64(max(total, done+1))}
		switch step {
		case "verify":
			p.Total = int64(copied)
		case "items":
			p.Total = int64(done + 1)
		default:
			copied = done
		}
		tell(p)
	}
}

func printTransfer(p *printer, rep *transferReport, hint string) {
	rejected := rep.Rejected + rep.Items.Rejected
	if rep.Checkpoints == 0 && rep.Items.Items == 0 && rejected == 0 {
		p.line("nothing to copy")
		p.hint(hint)
		return
	}
	parts := []string{plural(rep.Threads, "thread"),
		plural(rep.Checkpoints, "checkpoint") + before(rep.Checkpoints-rep.Copied-rep.Replaced, rep.Replaced), plural(rep.Writes, "pending write")}
	if it := rep.Items; it.Items > 0 {
		parts = append(parts, plural(it.Items, "item")+before(it.Items-it.Copied-it.Replaced, it.Replaced))
	}
	verified := "not read back"
	if rep.Verified == rep.Checkpoints && rep.Items.Verified == rep.Items.Items {
		verified = "verified"
	}
	if rep.Checkpoints > 0 {
		verified = size(rep.Bytes).String() + " of new values, " + verified
	}
	p.line("copied %s to %s: %s; %s (%s)", rep.From, rep.To, strings.Join(parts, ", "), verified, rep.Took.Round(time.Millisecond))
	if it := rep.Items; it.Copied+it.Replaced > 0 {
		p.line("vectors are not copied: to find these items by meaning, put them again where the store has an index")
	}
	if rejected > 0 {
		p.line("kept apart %d in %s", rejected, rep.RejectsFile)
	}
}

// before says how many things were there before, and how many of these were replaced.
func before(there, replaced int) string {
	switch {
	case there > 0 && replaced > 0:
		return fmt.Sprintf(" (%d there before, %d replaced)", there, replaced)
	case there > 0:
		return fmt.Sprintf(" (%d there before)", there)
	case replaced > 0:
		return fmt.Sprintf(" (%d replaced)", replaced)
	}
	return ""
}
