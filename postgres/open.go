package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Saver is a saver.Saver on PostgreSQL. Its methods are safe for concurrent use, by any
// number of Savers and processes on one database.
type Saver struct {
	opts   Options
	pool   *pgxpool.Pool
	ours   bool // the pool ends with the Saver
	schema string
	sql    *statements
	named  bool // statements are prepared under names
	traced bool // every statement goes through pgx, which tells a tracer
	closed atomic.Bool
	leases leases

	deferred atomic.Bool // writes were deferred since the last Sync

	mu      sync.Mutex
	pending map[call]string // calls of unknown outcome, and their threads
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
func ParseConfig(connString string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(connString, "default_query_exec_mode") {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "stele"
	}
	next := cfg.ConnConfig.OnNotice
	cfg.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[unreplicated] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
	return cfg, nil
}

// Open opens the database that connString names, with a pool of connections of its own.
// The schema must have been set up; see Setup. Errors besides those of connecting are
// SchemaErrors. Close the Saver after use.
func Open(ctx context.Context, connString string, opts Options) (*Saver, error) {
	pool, err := newPool(ctx, connString, opts)
	if err != nil {
		return nil, err
	}
	s, err := OpenPool(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ours = true
	return s, nil
}

// OpenPool is Open with a pool of the caller's, made of ParseConfig, which stays open when
// the Saver is closed.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Saver, error) {
	if err := checkPool(pool); err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	found, err := inspect(ctx, conn.Conn(), opts.Schema)
	if err != nil {
		return nil, err
	}
	if err := found.ready(); err != nil {
		return nil, err
	}
	cfg := conn.Conn().Config()
	s := &Saver{opts: opts.withDefaults(), pool: pool, schema: found.schema, sql: newStatements(found.schema), pending: map[call]string{}}
	s.named, s.traced = cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement, cfg.Tracer != nil
	s.leases.held = map[string]*lease{}
	return s, nil
}

// checkPool refuses a pool that does not send what statements need.
func checkPool(pool *pgxpool.Pool) error {
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	if mode == pgx.QueryExecModeSimpleProtocol || mode == pgx.QueryExecModeExec {
		return fmt.Errorf("the pool's query exec mode is %v, which does not carry typed parameters; use postgres.ParseConfig", mode)
	}
	return nil
}

// Close ends the Saver: later calls fail with saver.ErrClosed, and the threads it owns
// become free. A pool that Open made is closed when the calls under way have ended.
func (s *Saver) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.releaseAll()
	if s.ours {
		s.pool.Close()
	}
	return nil
}

// ready refuses a call that comes too late.
func (s *Saver) ready(ctx context.Context) error {
	if s.closed.Load() {
		return saver.ErrClosed
	}
	return ctx.Err()
}

// now is the clock's time as it is stored.
func (s *Saver) now() time.Time { return s.opts.Clock().UTC().Truncate(time.Microsecond) }

// rememberedSince is the time since which deletions are remembered; far ahead if none is.
func (s *Saver) rememberedSince() time.Time {
	if s.opts.DeletedMemory < 0 {
		return s.now().AddDate(100, 0, 0)
	}
	return s.now().Add(-s.opts.DeletedMemory)
}

// Serializer implements saver.Saver.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }

// NextVersion implements saver.Saver: LangGraph's mint.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}

// lockKey is the key of the advisory lock of a thread, or, for "", of the setup. Two
// threads of one key only wait for each other.
func lockKey(schema, threadID string) int64 {
	h := fnv.New64a()
	io.WriteString(h, "stele\x00"+schema+"\x00"+threadID)
	return int64(h.Sum64())
}
