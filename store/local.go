package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// Options configures On and NewMemory. The zero value is the documented default.
type Options struct {
	// Index makes items searchable by nearness. Nil: they are not.
	Index *Index
	// TTL is how long an item lives that is put without a TTL of its own. 0 means for ever.
	TTL time.Duration
	// By default a read of an item, by Get or as the result of a search, restarts its TTL;
	// NoRefreshOnRead turns that off. The new time is stored only when a sixteenth of the TTL has
	// passed. If storing it fails, the read still succeeds.
	NoRefreshOnRead bool
	// ShowExpired makes reads see expired items until they are swept.
	ShowExpired bool
	// SweepEvery removes expired items in the background; 0 leaves it to Sweep. A follower leaves it to its leader.
	SweepEvery time.Duration

	// Serializer encodes and decodes values. The default is that of the saver, and in memory
	// serde.Default(). If it encrypts, vectors are encrypted too, and the index keeps no part of a
	// value, so that filters read every value.
	Serializer serde.Serializer
	// VectorBytes bounds the memory for vectors. The vectors of a namespace are loaded when it is
	// searched, and those of the namespace searched longest ago go first. Default 512 MiB. One
	// namespace may exceed the bound alone.
	VectorBytes int64
	// Clock is the time of a store in memory; default time.Now. On a saver it is
	// the saver's.
	Clock func() time.Time
	// Logger reports what a background sweep could not do; default: none.
	Logger *slog.Logger
}

const defaultVectorBytes = 512 << 20

// Local is a Store of this process, in memory or on a durable saver. It
// implements Store, Scanner, Restorer, Mover and Sweeper.
type Local struct {
	opts  Options
	codec serde.Serializer
	back  backend
	disk  *durable // nil in memory
	m     *engine.ReadCounts

	stop    context.CancelFunc
	swept   sync.WaitGroup
	closing sync.Once
}

var (
	_ Store   = (*Local)(nil)
	_ Scanner = (*Local)(nil)
	_ Sweeper = (*Local)(nil)

	_ Restorer = (*Local)(nil)
	_ Mover    = (*Local)(nil)
)

// On returns the store in the directory of d. Several stores may be on one d, with options of their
// own; they see the same items. Close it before d.
//
// Items have the guarantees of d. They are durable when a call returns, as d's Sync mode says. A call
// stores all or nothing. Every read sees one consistent state. Damage is found and named. Reads keep at
// most Options.VectorBytes in memory, besides d's cache and its index. For each item of a namespace
// that was read, the index holds its key, its times, and its scalar fields up to 1 KiB.
//
// Errors: InvalidError.
func On(d *disk.Saver, opts Options) (*Local, error) {
	if d == nil {
		return nil, saver.Invalidf("saver", "nil; open one with disk.Open")
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Serializer == nil {
		opts.Serializer = d.Serializer()
	}
	b := newDurable(d.Inside().Engine, &opts)
	return start(&Local{opts: opts, codec: opts.Serializer, back: b, disk: b, m: d.Inside().Counters}), nil
}

// NewMemory is an empty store in memory. Errors: InvalidError.
func NewMemory(opts Options) (*Local, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Serializer == nil {
		opts.Serializer = serde.Default()
	}
	return start(&Local{opts: opts, codec: opts.Serializer, back: newMemory(&opts)}), nil
}

// start starts the background sweep.
func start(s *Local) *Local {
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if s.opts.SweepEvery == 0 || s.Follows() { // the leader sweeps
		return s
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.swept.Go(func() {
		tick := time.NewTicker(s.opts.SweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			switch _, err := s.back.sweep(ctx); {
			case errors.Is(err, saver.ErrClosed) || ctx.Err() != nil:
				return
			case err != nil:
				s.opts.Logger.Error("sweep of expired items", "error", err)
			}
		}
	})
	return s
}

// Close stops the background sweep. It closes no saver and loses nothing; a
// second Close does nothing.
func (s *Local) Close() error {
	s.closing.Do(func() {
		if s.stop != nil {
			s.stop()
			s.swept.Wait()
		}
	})
	return nil
}

// Sync makes durable what was stored with a context of saver.DeferSync: such calls return when
// what they store survives the death of the process, but not yet a power failure.
func (s *Local) Sync(ctx context.Context) error { return s.back.sync(ctx) }

// SharesLog reports whether x, a *disk.Saver or a *Local, stores in the same log. Then what one of
// them has stored is durable when a later call of the other one is.
func (s *Local) SharesLog(x any) bool {
	switch x := x.(type) {
	case *disk.Saver:
		return s.disk != nil && s.disk.e == x.Inside().Engine
	case *Local:
		return s.disk != nil && x.disk != nil && s.disk.e == x.disk.e
	}
	return false
}

// Sweep implements Sweeper.
func (s *Local) Sweep(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.back.sweep(ctx)
}

// Get implements Store.
func (s *Local) Get(ctx context.Context, ns Namespace, key string, opts ...GetOption) (*Item, error) {
	op := GetOp{Namespace: ns, Key: key}
	for _, o := range opts {
		o(&op)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := CheckAddress(ns, key); err != nil {
		return nil, err
	}
	en, value, err := s.back.get(ctx, idOf(ns), key, s.visible())
	if err != nil {
		return nil, err
	}
	if s.m.Item(value != nil); value == nil {
		return nil, notFound(ns, key)
	}
	s.renew(ctx, op.NoRefresh, &en)
	return itemOf(en, value), nil
}

// Put implements Store.
func (s *Local) Put(ctx context.Context, ns Namespace, key string, value map[string]any, opts ...PutOption) error {
	op, err := putOf(ns, key, value, opts)
	if err != nil {
		return err
	}
	return s.write(ctx, []PutOp{op})
}

// Delete implements Store.
func (s *Local) Delete(ctx context.Context, ns Namespace, key string) error {
	return s.write(ctx, []PutOp{{Namespace: ns, Key: key}})
}

func (s *Local) write(ctx context.Context, puts []PutOp) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil || len(changes) == 0 {
		return err
	}
	return s.back.commit(ctx, changes)
}

// Batch implements Store.
func (s *Local) Batch(ctx context.Context, ops ...Op) ([]Result, error) {
	if len(ops) > MaxBatch {
		return nil, invalidf("ops", "%d in one batch, the limit is %d", len(ops), MaxBatch)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := batch{s: s, ops: ops, results: make([]Result, len(ops)), queries: make([]*search, len(ops))}
	if err := b.check(ctx); err != nil {
		return nil, err
	}
	changes, err := s.prepare(ctx, b.puts)
	if err != nil {
		return nil, err
	}
	if b.reads > 0 {
		if err := b.read(ctx); err != nil {
			return nil, err
		}
	}
	if len(changes) > 0 {
		if err := s.back.commit(ctx, changes); err != nil {
			return nil, err
		}
	}
	return b.results, nil
}

// batch is one call of Batch.
type batch struct {
	s       *Local
	ops     []Op
	results []Result
	queries []*search
	puts    []PutOp
	reads   int
}

// check refuses the whole batch for one bad operation.
func (b *batch) check(ctx context.Context) error {
	for i, op := range b.ops {
		switch op := op.(type) {
		case PutOp:
			b.puts = append(b.puts, op)
			continue
		case GetOp:
			if err := CheckAddress(op.Namespace, op.Key); err != nil {
				return err
			}
		case Query:
			q, err := b.s.newSearch(ctx, op)
			if err != nil {
				return err
			}
			b.queries[i] = q
		case NamespaceQuery:
			if err := op.Validate(); err != nil {
				return err
			}
		default:
			return invalidf("ops", "operation %d has type %T", i, op)
		}
		b.reads++
	}
	return nil
}

// read answers everything but the puts from one view.
func (b *batch) read(ctx context.Context) error {
	v, err := b.s.back.view(ctx)
	if err != nil {
		return err
	}
	defer v.release()
	for i, op := range b.ops {
		switch op := op.(type) {
		case GetOp:
			b.results[i].Item, err = b.s.getFrom(ctx, v, op)
		case Query:
			b.results[i].Found, err = b.s.find(ctx, v, b.queries[i])
		case NamespaceQuery:
			b.results[i].Namespaces, err = b.s.namespaces(ctx, v, op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Local) getFrom(ctx context.Context, v view, op GetOp) (*Item, error) {
	en, ok, err := v.get(idOf(op.Namespace), op.Key)
	if err != nil {
		return nil, err
	}
	ok = ok && s.visible()(en.meta)
	if s.m.Item(ok); !ok {
		return nil, nil
	}
	value, err := v.read(ctx, &en)
	if err != nil {
		return nil, err
	}
	s.renew(ctx, op.NoRefresh, &en)
	return itemOf(en, value), nil
}

// visible returns a function that reports whether reads see an item.
func (s *Local) visible() func(meta) bool {
	if s.opts.ShowExpired {
		return func(meta) bool { return true }
	}
	now := s.back.now()
	return func(m meta) bool { return m.live(now) }
}

// renew extends the life of entries that were read, if enough of it has passed. It also
// updates the entries. A failure to store it is not an error of the read, because the store
// may be read-only or full.
func (s *Local) renew(ctx context.Context, off bool, entries ...*entry) {
	if off || s.opts.NoRefreshOnRead {
		return
	}
	now := s.back.now()
	var due []entry
	for _, en := range entries {
		m, ok := en.meta.renewed(now)
		if !ok || !en.meta.live(now) {
			continue
		}
		en.meta = m
		due = append(due, *en)
	}
	if len(due) == 0 {
		return
	}
	if err := s.back.renew(ctx, due); err != nil {
		s.opts.Logger.Warn("renew items that were read", "error", err)
	}
}

func itemOf(en entry, value map[string]any) *Item {
	ns, _ := namespaceOf(en.ns)
	return &Item{Namespace: ns, Key: en.key, Value: value, CreatedAt: timeOf(en.meta.created), UpdatedAt: timeOf(en.meta.updated),
		ExpiresAt: timeOf(en.meta.expires), TTL: time.Duration(en.meta.ttl) * time.Microsecond}
}
