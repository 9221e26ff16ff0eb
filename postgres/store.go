package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Store is a store.Store on PostgreSQL, in the tables of LangGraph's store for Python. It
// implements store.Scanner, store.Restorer, store.Mover and store.Sweeper too. Its methods are safe for concurrent use,
// by any number of Stores and processes on one database.
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
	db     *Saver // its pool, its schema, and how it reads and tries again
	alone  bool   // db is of this Store
	opts   store.Options
	codec  serde.Serializer
	sql    *storeStatements
	closed atomic.Bool
	puts   atomic.Uint64 // transactions that were sent

	mu      sync.Mutex
	pending map[call]bool // calls of unknown outcome

	stop    context.CancelFunc // of the background sweep
	swept   sync.WaitGroup
	closing sync.Once
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Scanner = (*Store)(nil)
	_ store.Sweeper = (*Store)(nil)

	_ store.Restorer = (*Store)(nil)
	_ store.Mover    = (*Store)(nil)

	_ io.Closer = (*Store)(nil)
)

// OpenStore opens a store in the database that connString names, with a pool of connections
// of its own. The schema must have been set up; see SetupStore. Of opts it takes Schema,
// Serializer, Clock, StatementTimeout and RetryTime. Of so it does not take Clock and
// VectorBytes. Close the Store after use.
//
// Errors: InvalidError, SchemaError, and those of connecting.
func OpenStore(ctx context.Context, connString string, opts Options, so store.Options) (*Store, error) {
	pool, err := newPool(ctx, connString, opts)
	if err != nil {
		return nil, err
	}
	s, err := OpenStorePool(ctx, pool, opts, so)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.db.ours = true
	return s, nil
}

// OpenStorePool is OpenStore with a pool of the caller's, made of ParseConfig, which stays
// open when the Store is closed.
func OpenStorePool(ctx context.Context, pool *pgxpool.Pool, opts Options, so store.Options) (*Store, error) {
	if err := checkPool(pool); err != nil {
		return nil, err
	}
	s, err := newStore(ctx, &Saver{opts: opts.withDefaults(), pool: pool, schema: opts.Schema}, so)
	if err != nil {
		return nil, err
	}
	s.alone = true
	return s, nil
}

// Store is the store beside the saver: in its schema, through its connections, with its
// clock. It is closed before the saver. SetupStore makes its tables. See OpenStore for so and
// the errors.
func (s *Saver) Store(ctx context.Context, so store.Options) (*Store, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return newStore(ctx, s, so)
}

// HasStore reports whether the saver's schema has the table of LangGraph's store for Python,
// whether or not SetupStore has made stele's beside it. Where a store for JavaScript has the
// table, the error is ErrForeign.
func (s *Saver) HasStore(ctx context.Context) (bool, error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	found, err := inspectStore(ctx, conn.Conn(), s.schema)
	if err != nil {
		return false, err
	}
	return found.version >= 0, nil
}

func newStore(ctx context.Context, db *Saver, so store.Options) (*Store, error) {
	if err := so.Validate(); err != nil {
		return nil, err
	}
	if so.Serializer == nil {
		so.Serializer = db.opts.Serializer
	}
	if so.Logger == nil {
		so.Logger = slog.New(slog.DiscardHandler)
	}
	probe, err := so.Serializer.Encode(map[string]any{})
	if err != nil {
		return nil, err
	}
	if so.Index != nil && encrypted(probe) {
		return nil, saver.Invalidf("serializer", "encrypts values, and their vectors cannot be encrypted here; use a serializer that does not, or no index")
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	found, err := inspectStore(ctx, conn.Conn(), db.schema)
	if err != nil {
		return nil, err
	}
	dims := 0
	if so.Index != nil {
		dims = so.Index.Dims
	}
	if err := found.ready(dims); err != nil {
		return nil, err
	}
	s := &Store{db: db, opts: so, codec: so.Serializer, sql: newStoreStatements(found), pending: map[call]bool{}}
	if so.SweepEvery > 0 {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		s.swept.Go(func() { s.sweepEvery(ctx) })
	}
	return s, nil
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

// Close ends the Store: later calls fail with saver.ErrClosed. A pool that OpenStore made is
// closed when the calls under way have ended. A second Close does nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.stop != nil {
			s.stop()
			s.swept.Wait()
		}
		s.closed.Store(true)
		if s.alone {
			s.db.closed.Store(true)
		}
		if s.alone && s.db.ours {
			s.db.pool.Close()
		}
	})
	return nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, ns store.Namespace, key string, opts ...store.GetOption) (*store.Item, error) {
	op := store.GetOp{Namespace: ns, Key: key}
	for _, o := range opts {
		o(&op)
	}
	results, err := s.Batch(ctx, op)
	if err != nil {
		return nil, err
	}
	if results[0].Item == nil {
		return nil, fmt.Errorf("key %q in namespace %q: %w", key, []string(ns), store.ErrNotFound)
	}
	return results[0].Item, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, ns store.Namespace, key string, value map[string]any, opts ...store.PutOption) error {
	if err := store.CheckNamespace(ns); err != nil {
		return err
	}
	if value == nil {
		return saver.Invalidf("value", "nil; Delete removes an item")
	}
	op := store.PutOp{Namespace: ns, Key: key, Value: value}
	for _, o := range opts {
		o(&op)
	}
	_, err := s.Batch(ctx, op)
	return err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, ns store.Namespace, key string) error {
	_, err := s.Batch(ctx, store.PutOp{Namespace: ns, Key: key})
	return err
}

// Search implements store.Store.
func (s *Store) Search(ctx context.Context, q store.Query) ([]store.Found, error) {
	results, err := s.Batch(ctx, q)
	if err != nil {
		return nil, err
	}
	return results[0].Found, nil
}

// ListNamespaces implements store.Store.
func (s *Store) ListNamespaces(ctx context.Context, q store.NamespaceQuery) ([]store.Namespace, error) {
	results, err := s.Batch(ctx, q)
	if err != nil {
		return nil, err
	}
	return results[0].Namespaces, nil
}

// Scan implements store.Scanner. All that q selects is in memory before the first is yielded;
// take parts with Limit and Offset.
func (s *Store) Scan(ctx context.Context, q store.Query) iter.Seq2[store.Found, error] {
	return func(yield func(store.Found, error) bool) {
		if q.Limit == 0 {
			q.Limit = store.NoLimit
		}
		found, err := s.Search(ctx, q)
		if err != nil {
			yield(store.Found{}, err)
			return
		}
		for _, f := range found {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Batch implements store.Store: the reads are one round trip with one snapshot, the puts one
// transaction and one round trip after it.
func (s *Store) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	if len(ops) > store.MaxBatch {
		return nil, saver.Invalidf("ops", "%d in one batch, the limit is %d", len(ops), store.MaxBatch)
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	results := make([]store.Result, len(ops))
	var puts []store.PutOp
	var asked []question
	for i, op := range ops {
		var q question
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

// ready refuses a call that comes too late.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return saver.ErrClosed
	}
	return s.db.ready(ctx)
}
