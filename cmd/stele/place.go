package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"
)

// place is the store that a command reads: a directory, or a database.
type place struct{ dir, postgres, schema string }

func (p *place) register(f *pflag.FlagSet) {
	f.StringVar(&p.postgres, "postgres", "", "the store of this database, a connection string, instead of a directory")
	f.StringVar(&p.schema, "schema", "", "schema that has the tables (default: the first of the search path); for --postgres")
}

// args wants the directory, unless a database is named, and so many arguments more, which then names.
func (p *place) args(more int, then string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		want := more
		if p.postgres == "" {
			want++
		}
		if len(args) != want {
			return errors.New("name the directory of a store, or a database by --postgres" + then)
		}
		return nil
	}
}

// words are the place as a shell has it. A connection string may have a password.
func (p *place) words() string {
	if p.postgres == "" {
		return shellWord(p.dir)
	}
	if p.schema != "" {
		return `--postgres "$URL" --schema ` + shellWord(p.schema)
	}
	return `--postgres "$URL"`
}

// read opens a place for reading: the database, or the directory that is the first of args. end closes it.
func (a *app) read(ctx context.Context, p *place, args []string) (s saver.Saver, end func(), err error) {
	if p.postgres != "" {
		db, err := postgres.Open(ctx, p.postgres, postgres.Options{Schema: p.schema})
		if err != nil {
			return nil, nil, err
		}
		return db, func() { _ = db.Close() }, nil // nothing was written
	}
	p.dir = args[0]
	d, err := a.flags.open(p.dir)
	if err != nil {
		return nil, nil, err
	}
	return d, func() { _ = d.Close() }, nil // read-only
}
