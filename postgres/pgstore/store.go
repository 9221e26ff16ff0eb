package pgstore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// Store is a store.Store on PostgreSQL, in the tables of LangGraph's store for Python. It
// implements store.Scanner, store.Restorer, store.Mover, store.Appender and store.Sweeper too. Its methods are safe for
// concurrent use, by any number of Stores and processes on one database.
//
// Every call that writes is one transaction, durable when it returns nil, as far as the
// server's synchronous_commit goes. Reads see one moment. A Scan reads all that it selects
// before it yields the first item, so that no connection waits for the caller's code.
//
// Namespaces, keys and fields are UTF-8 without U+0000; labels are not empty and have no
// dot. A put of others is refused with a store.NamespaceError or a store.InvalidError; reads
// find nothing under them.
//
// After saver.ErrOutcomeUnknown the call may have been committed; Sync settles it. A Store
// cannot store items in one transaction with a checkpoint: Options.AtomicStore of package
// pregel refuses it.
type Store struct {
	store.Batched
	db    *pgdb.DB
	opts  store.Options
	codec serde.Serializer
	sql   *statements
	puts  atomic.Uint64 // transactions that were sent

	stop  context.CancelFunc // of the background sweep
	swept sync.WaitGroup
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Scanner = (*Store)(nil)
	_ store.Sweeper = (*Store)(nil)

	_ store.Restorer = (*Store)(nil)
	_ store.Mover    = (*Store)(nil)
	_ store.Appender = (*Store)(nil)

	_ io.Closer = (*Store)(nil)
)

// Open opens a store in the database that connString names, with a pool of connections of
// its own. The schema must have been set up; see Setup. Of opts it takes Schema, Serializer,
// Clock, StatementTimeout and RetryTime. Of so it does not take Clock and VectorBytes. Close
// the Store after use.
//
// Errors: InvalidError, SchemaError, and those of connecting.
func Open(ctx context.Context, connString string, opts postgres.Options, so store.Options) (*Store, error) {
	db, err := pgdb.Open(ctx, connString, shared(opts))
	return open(ctx, db, err, opts.Serializer, so)
}

// OpenPool is Open with a pool of the caller's, made of postgres.ParseConfig, which stays
// open when the Store is closed.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts postgres.Options, so store.Options) (*Store, error) {
	db, err := pgdb.OpenPool(pool, shared(opts))
	return open(ctx, db, err, opts.Serializer, so)
}

// On returns the store beside a saver: in its schema, through its connections, with its clock. Close it
// before the saver. Setup makes its tables. See Open for so and the errors.
func On(ctx context.Context, s *postgres.Saver, so store.Options) (*Store, error) {
	if s == nil {
		return nil, saver.Invalidf("saver", "nil; open one with postgres.Open")
	}
	db := postgres.Inside(s).Share(setupCall)
	return open(ctx, db, db.Ready(ctx), s.Serializer(), so)
}

// setupCall names the function to call if tables are missing.
const setupCall = "pgstore.Setup"

func shared(o postgres.Options) pgdb.Options {
	return pgdb.Options{Schema: o.Schema, Clock: o.Clock, StatementTimeout: o.StatementTimeout, RetryTime: o.RetryTime, Setup: setupCall}
}

// Exists reports whether a saver's schema has the table of LangGraph's store for Python,
// whether or not Setup has made stele's beside it. Where a store for JavaScript has the
// table, the error is postgres.ErrForeign.
func Exists(ctx context.Context, s *postgres.Saver) (exists bool, err error) {
	db := postgres.Inside(s).Share("")
	if err := db.Ready(ctx); err != nil {
		return false, err
	}
	err = db.Look(ctx, func(ctx context.Context, conn *pgx.Conn, schema string) (*pgdb.SchemaState, error) {
		found, err := inspect(ctx, conn, schema)
		if err != nil {
			return nil, err
		}
		exists = found.items.Version >= 0
		return found.SchemaState, nil
	})
	return exists, err
}

// open makes a Store, which closes db, unless err says that there is none. codec is for a Store without a serializer of its own.
func open(ctx context.Context, db *pgdb.DB, err error, codec serde.Serializer, so store.Options) (*Store, error) {
	if err != nil {
		return nil, err
	}
	so.Serializer = cmp.Or(so.Serializer, codec, serde.Serializer(serde.Default()))
	if so.Logger == nil {
		so.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{db: db, opts: so, codec: so.Serializer}
	s.Batched = s.Batch
	if err := s.begin(ctx); err != nil {
		db.Close()
		return nil, err
	}
	if so.SweepEvery > 0 {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		s.swept.Go(func() { s.sweepEvery(ctx) })
	}
	return s, nil
}

// begin checks the options, and looks at the schema.
func (s *Store) begin(ctx context.Context) error {
	if err := s.opts.Validate(); err != nil {
		return err
	}
	probe, err := s.codec.Encode(map[string]any{})
	if err != nil {
		return err
	}
	dims := 0
	if s.opts.Index != nil {
		if dims = s.opts.Index.Dims; encrypted(probe) {
			return saver.Invalidf("serializer", "encrypts values, and their vectors cannot be encrypted here; use a serializer that does not, or no index")
		}
	}
	return s.db.Look(ctx, func(ctx context.Context, conn *pgx.Conn, schema string) (*pgdb.SchemaState, error) {
		found, err := inspect(ctx, conn, schema)
		if err != nil {
			return nil, err
		}
		s.sql = newStatements(found)
		return found.SchemaState, found.ready(dims)
	})
}

// encrypted reports whether a serializer that gives t encrypts: its kinds have a suffix.
func encrypted(t serde.Typed) bool { return strings.Contains(t.Kind, "+") }

// sweepEvery sweeps until ctx ends or the Store is closed.
func (s *Store) sweepEvery(ctx context.Context) {
	tick := time.NewTicker(s.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch _, err := s.Sweep(ctx); {
		case errors.Is(err, saver.ErrClosed) || ctx.Err() != nil:
			return
		case err != nil:
			s.opts.Logger.Error("sweep of expired items", "error", err)
		}
	}
}

// Close ends the Store: later calls fail with saver.ErrClosed. A pool that Open made is
// closed when the calls under way have ended. A second Close does nothing.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
		s.swept.Wait()
	}
	s.db.Close()
	return nil
}

// Scan implements store.Scanner. All that q selects is in memory before the first is yielded;
// take parts with Limit and Offset.
func (s *Store) Scan(ctx context.Context, q store.Query) iter.Seq2[store.Found, error] {
	q.Limit = cmp.Or(q.Limit, store.NoLimit)
	return pgdb.Yield(ctx, s.db, func() ([]store.Found, error) { return s.Search(ctx, q) })
}

// Batch implements store.Store: the reads are one round trip with one snapshot, the puts one
// transaction and one round trip after it.
func (s *Store) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	if len(ops) > store.MaxBatch {
		return nil, saver.Invalidf("ops", "%d in one batch, the limit is %d", len(ops), store.MaxBatch)
	}
	if err := s.db.Ready(ctx); err != nil {
		return nil, err
	}
	results := make([]store.Result, len(ops))
	var puts []store.PutOp
	var asked []batchRead
	for i, op := range ops {
		var q batchRead
		var err error
		switch op := op.(type) {
		case store.PutOp:
			puts = append(puts, op)
			continue
		case store.GetOp:
			q, err = s.newGet(op, &results[i])
		case store.Query:
			q, err = s.newSearch(ctx, op, &results[i])
		case store.NamespaceQuery:
			q, err = s.newListing(op, &results[i])
		default:
			err = saver.Invalidf("ops", "operation %d has type %T", i, op)
		}
		if err != nil {
			return nil, err
		}
		asked = append(asked, q)
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return nil, err
	}
	if err := s.answer(ctx, asked); err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		if err := s.commit(ctx, changes); err != nil {
			return nil, err
		}
	}
	return results, nil
}
