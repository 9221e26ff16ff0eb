package postgres

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Saver is a saver.Saver on PostgreSQL. Its methods are safe for concurrent use, by any
// number of Savers and processes on one database.
type Saver struct {
	opts     Options
	db       *pgdb.DB
	sql      *statements
	leases   leases
	deferred atomic.Bool // writes were deferred since the last Sync
}

var (
	_ saver.Saver = (*Saver)(nil)
	_ io.Closer   = (*Saver)(nil)
)

// ParseConfig reads a connection string, a URL or keywords and values, and sets what a
// Saver needs where the string does not say otherwise: statements that no pooler in
// between has to know (pgx.QueryExecModeCacheDescribe), and a name for pg_stat_activity.
// Connections are checked before use when they have been idle for a second. It listens
// for the server's notice that it gave up waiting for a replica.
//
// On a direct connection, default_query_exec_mode=cache_statement in the string saves the
// server the planning.
func ParseConfig(connString string) (*pgxpool.Config, error) { return pgdb.ParseConfig(connString) }

// Open opens the database that connString names, with a pool of connections of its own.
// The schema must have been set up; see Setup. Errors besides those of connecting are
// SchemaErrors. Close the Saver after use.
func Open(ctx context.Context, connString string, opts Options) (*Saver, error) {
	db, err := pgdb.Open(ctx, connString, opts.shared())
	return open(ctx, db, err, opts)
}

// OpenPool is Open with a pool of the caller's, made of ParseConfig, which stays open when
// the Saver is closed.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Saver, error) {
	db, err := pgdb.OpenPool(pool, opts.shared())
	return open(ctx, db, err, opts)
}

func open(ctx context.Context, db *pgdb.DB, err error, opts Options) (*Saver, error) {
	if err != nil {
		return nil, err
	}
	err = db.Look(ctx, func(ctx context.Context, conn *pgx.Conn, schema string) (*pgdb.SchemaState, error) {
		found, err := inspect(ctx, conn, schema)
		if err != nil {
			return nil, err
		}
		return found.SchemaState, found.ready()
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return &Saver{opts: opts.withDefaults(), db: db, sql: newStatements(db.Schema), leases: leases{held: map[string]*lease{}}}, nil
}

// Inside is the database of a Saver, for the packages of this module.
func Inside(s *Saver) *pgdb.DB { return s.db }

// Metrics are those of the pool, and of what the Saver, and the queue and the store on it, sent. It asks no
// server, and may be called after Close.
func (s *Saver) Metrics() metrics.Database { return s.db.Metrics() }

// Close ends the Saver: later calls fail with saver.ErrClosed, and the threads it owns
// become free. A pool that Open made is closed when the calls under way have ended; for a server
// that is silent, Close waits LeaseTime and 15 seconds at most after them.
func (s *Saver) Close() error {
	s.db.Close(s.releaseAll)
	return nil
}

// Sync implements saver.Saver: it settles the calls of unknown outcome, and makes
// deferred writes durable by a commit of its own. Other calls that returned without an
// error are durable already, as far as the server's synchronous_commit goes.
func (s *Saver) Sync(ctx context.Context) error {
	if s.deferred.Swap(false) {
		if err := s.db.Flush(ctx); err != nil {
			s.deferred.Store(true)
			return err
		}
	}
	return s.db.Sync(ctx)
}

// rememberedSince returns the time since which deletions are remembered; far in the future if none are.
func (s *Saver) rememberedSince() time.Time {
	if s.opts.DeletedMemory < 0 {
		return s.db.Now().AddDate(100, 0, 0)
	}
	return s.db.Now().Add(-s.opts.DeletedMemory)
}

// Serializer implements saver.Saver.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }

// NextVersion implements saver.Saver: LangGraph's mint.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}
