package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// moveFlags say whose items to move, as they are typed.
type moveFlags struct {
	identities, except []string
	postgres, schema   string
	yes                bool
}

func (a *app) moveItemsCmd() *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use: "move-items [DIR]", Short: "Move items of a server's users to their places, from where an earlier version kept them",
		Long: `Move the items that users of a server have kept by its API to the places of these users,
("__stele_users__", identity). Earlier versions of the server kept them below (identity),
where programs store as well; no client sees them there any more. They keep their values,
their times and lives, and their vectors.

The users are those who own threads, assistants, crons and runs of the server. What lies
below the name of a user may be a program's all the same: if somebody is called "users",
and a program stores below ("users", …), only you know which is which. So without --yes
nothing is moved: it lists whose items would be, and the first namespaces below each, and
prints the command that moves them. It may run beside a writer. Take from that command
whose items are not a user's: --yes moves what --identity names, and nothing else.
--except says that what lies there is a program's. A server warns as long as there is
something to choose. It also lists what else lies at the root of the store: a program's
items, or those of a user of whom no record is left, whom you may name with --identity.

With --yes it opens the store for writing: no other process may have it open. With
--postgres, end the servers of earlier versions first. If it is interrupted, the same
command goes on. An item that is at its new place already, with another value, is not
replaced: it is listed, and the exit code is 1.

If the program encrypts values, only the program can read whose they are: call
server.MoveItems there.`,
		Example: `  stele move-items store
  stele move-items store --identity ada --except users --yes
  stele move-items --postgres "$URL" --identity ada --identity bob --yes`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			rep, err := a.moveItems(cmd.Context(), args, &f)
			return a.tellMoved(&rep, moveCommand(args, &f, &rep), err)
		},
	}
	p := cmd.Flags()
	p.StringArrayVar(&f.identities, "identity", nil, "identity of a user whose items to move; may be given again (without --yes: all who are known)")
	p.StringArrayVar(&f.except, "except", nil, "identity of a user of whom to move nothing, as a program has it; may be given again")
	p.StringVar(&f.postgres, "postgres", "", "the store of this database, a connection string, instead of a directory")
	p.StringVar(&f.schema, "schema", "", "schema that has the tables (default: the first of the search path); for --postgres")
	p.BoolVar(&f.yes, "yes", false, "move, and do not only say what would be")
	return cmd
}

func (a *app) moveItems(ctx context.Context, args []string, f *moveFlags) (rep server.MoveReport, err error) {
	o := server.MoveOptions{Identities: f.identities, Except: f.except, DryRun: !f.yes, Logger: slog.New(slog.NewTextHandler(a.err, nil))}
	var in *stores
	switch {
	case (f.postgres != "") == (len(args) > 0):
		return rep, errors.New("name the directory of a store, or a database by --postgres")
	case f.yes && len(f.identities)+len(f.except) == 0:
		return rep, errors.New("--yes moves the items of those alone whom --identity names; without --yes, the command that names all who are known is printed")
	case f.postgres != "":
		in, err = openDatabase(ctx, f.postgres, f.schema)
	default:
		in, err = a.openStores(ctx, args[0], !f.yes)
	}
	if err != nil {
		return rep, err
	}
	o.Store, o.Queue = in.items, in.queue
	rep, err = server.MoveItems(ctx, o)
	for _, u := range rep.Users {
		if len(u.Left) > 0 || isNothing(u) {
			a.code = exitFound
		}
	}
	return rep, errors.Join(err, in.end())
}

// isNothing reports whether a user was named who has no items where an earlier version kept them.
func isNothing(u server.MovedItems) bool { return u.Namespaces+u.Items == 0 && !u.Except }

// stores are those of a server, in a directory or a database.
type stores struct {
	saver saver.Saver
	items store.Store
	queue runs.Queue
	end   func() error
}

func (a *app) openStores(ctx context.Context, dir string, readOnly bool) (*stores, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err // disk.Open would make a store
	}
	access, err := a.flags.access()
	if err != nil {
		return nil, err
	}
	if access.Options.ReadOnly = readOnly; readOnly {
		access.Options.Replica = disk.Replica{} // nothing is written to the bucket
	}
	d, err := disk.Open(dir, access.Options)
	if err != nil {
		return nil, err
	}
	return with(ctx, d, d.Close)
}

// with adds to a saver the store and the queue beside it. end ends the saver when they are ended, and if there is an error.
func with(ctx context.Context, s saver.Saver, end func() error) (*stores, error) {
	in, err := beside(ctx, s)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	own := in.end
	in.end = func() error { return errors.Join(own(), end()) }
	return in, nil
}

// beside opens the store and the queue that lie beside a saver, in its directory or its database. Their end leaves the
// saver open.
func beside(ctx context.Context, s saver.Saver) (*stores, error) {
	if p, ok := s.(*postgres.Saver); ok {
		items, err := pgstore.On(ctx, p, store.Options{})
		if err != nil {
			return nil, err
		}
		queue := pgqueue.Open(p, pgqueue.Options{})
		return &stores{p, items, queue, func() error { return errors.Join(queue.Close(), items.Close()) }}, nil
	}
	items, err := store.On(s.(*disk.Saver), store.Options{})
	if err != nil {
		return nil, err
	}
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return nil, errors.Join(err, items.Close())
	}
	return &stores{s, items, queue, items.Close}, nil
}

func openDatabase(ctx context.Context, url, schema string) (*stores, error) {
	s, err := postgres.Open(ctx, url, postgres.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	return with(ctx, s, s.Close)
}

// tellMoved prints a report, also that of a move that failed half-way, and returns the error.
func (a *app) tellMoved(rep *server.MoveReport, command string, err error) error {
	if err != nil && (rep.DryRun || len(rep.Users) == 0) {
		return err
	}
	return errors.Join(err, a.print(rep, func(p *printer) { printMoved(p, rep, command, err) }))
}

// moveCommand returns the command that moves the items which a dry run lists.
func moveCommand(args []string, f *moveFlags, rep *server.MoveReport) string {
	command := "stele move-items"
	for _, dir := range args {
		command += " " + shellWord(dir)
	}
	if f.postgres != "" {
		command += ` --postgres "$URL"` // it may have a password
	}
	if f.schema != "" {
		command += " --schema " + shellWord(f.schema)
	}
	for _, u := range rep.Users {
		flag := " --identity "
		if u.Except {
			flag = " --except "
		}
		command += flag + shellWord(u.Identity)
	}
	return command + " --yes"
}

// plainWord matches words that need no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell. Users choose their identities, so control characters are
// escaped.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		var b strings.Builder
		for _, c := range []byte(s) {
			if c < ' ' || c > '~' || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\x%02x`, c)
			} else {
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// unknownShown is how many of those without a record are listed for people.
const unknownShown = 100

func printMoved(p *printer, rep *server.MoveReport, command string, failed error) {
	if rep.DryRun && len(rep.Unknown) > 0 {
		p.line("of nobody who is known, a program's or of users of whom no record is left:")
		for _, id := range rep.Unknown[:min(len(rep.Unknown), unknownShown)] {
			p.line("UNKNOWN %s", printable(id))
		}
		if more := len(rep.Unknown) - unknownShown; more > 0 {
			p.line("and %d more, which --json lists", more)
		}
		p.line("")
	}
	if len(rep.Users) == 0 {
		p.line("no known user has items where an earlier version kept them; nothing to move")
		return
	}
	var rows [][]any
	items := 0
	for _, u := range rep.Users {
		note := ""
		switch {
		case u.Except:
			note = "not moved, as --except says"
		case isNothing(u):
			note = "nothing there"
		case len(u.Left) > 0:
			note = fmt.Sprintf("%d left", len(u.Left))
		}
		rows = append(rows, []any{printable(u.Identity), prefixText(u.From), prefixText(u.To), u.Namespaces, u.Items, note})
		items += u.Items
	}
	p.table([]string{"identity", "from", "to", "namespaces", "items", ""}, rows)
	p.line("")
	for _, u := range rep.Users {
		for _, ns := range u.Below {
			p.line("BELOW   %s", prefixText(ns))
		}
		if more := u.Namespaces - len(u.Below); more > 0 && rep.DryRun {
			p.line("        and %s more below %s", plural(more, "namespace"), prefixText(u.From))
		}
		for _, l := range u.Left {
			p.line("LEFT    %s %s: %s", prefixText(l.Namespace), printable(l.Key), l.Reason)
		}
	}
	if rep.DryRun {
		p.line("would move %s; nothing was moved. Look whether all that is listed is these users', and not a program's: take out who is not, or make it --except", plural(items, "item"))
		p.line("%s", command)
		return
	}
	p.line("moved %s", plural(items, "item"))
	if failed != nil {
		p.line("it failed then: the same command goes on")
	} else if !rep.Settled {
		p.line("there is more where an earlier version kept items of users: the command without --identity and --yes lists it")
	}
}
