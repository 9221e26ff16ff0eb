// Package pgdb is one schema of a PostgreSQL database as the saver, the store and the queue use
// it: transactions that are bounded, tried again, and settled where their answer was lost, and the
// look at a schema and its migrations.
package pgdb

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/saver"
)

// Options are those of postgres.Options that every call needs.
type Options struct {
	Schema                      string
	Clock                       func() time.Time
	StatementTimeout, RetryTime time.Duration
	// Setup is the function to call where a table is missing; "" leaves the error of the database.
	Setup string
}

// DB is a pool and the schema in which its users work. Its methods are safe for concurrent use.
type DB struct {
	Pool   *pgxpool.Pool
	Schema string

	opts Options
	owns bool // the pool ends with the DB
	// poolBounds: the pool bounds its waits for the server, to connect and to ping.
	poolBounds bool
	above      *DB // this one is a share of it
	failures   *failures
	closed     atomic.Bool

	mu      sync.Mutex
	pending map[Call]settleFunc // calls of unknown outcome
}

// ParseConfig is postgres.ParseConfig.
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
	if !strings.Contains(connString, "pool_ping_timeout") {
		cfg.PingTimeout = pingTimeout
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

// Open opens a database with a pool of its own, which Close closes. Nothing is looked at yet.
func Open(ctx context.Context, connString string, opts Options) (*DB, error) {
	cfg, err := ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	d := &DB{owns: true, opts: opts}
	d.setDefaults()
	if d.opts.StatementTimeout > 0 {
		cfg.AfterConnect = d.boundSession
	}
	d.boundConnect(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return d, d.use(pool)
}

// OpenPool opens the database of the caller's pool. A pool that does not send the settings that
// statements need is refused.
func OpenPool(pool *pgxpool.Pool, opts Options) (*DB, error) {
	if pool == nil {
		return nil, errNilPool
	}
	d := &DB{opts: opts}
	d.setDefaults()
	return d, d.use(pool)
}

func (d *DB) setDefaults() {
	if d.opts.Clock == nil {
		d.opts.Clock = time.Now
	}
	if d.opts.StatementTimeout == 0 {
		d.opts.StatementTimeout = defaultStatementTimeout
	}
	if d.opts.RetryTime == 0 {
		d.opts.RetryTime = 15 * time.Second
	}
}

var errNilPool = saver.Invalidf("pool", "nil; make one with postgres.ParseConfig and pgxpool.NewWithConfig")

// PoolConfig is how the connections of a pool are made.
func PoolConfig(pool *pgxpool.Pool) (*pgx.ConnConfig, error) {
	if pool == nil {
		return nil, errNilPool
	}
	return pool.Config().ConnConfig, nil
}

func (d *DB) use(pool *pgxpool.Pool) error {
	cfg := pool.Config()
	mode := cfg.ConnConfig.DefaultQueryExecMode
	d.poolBounds = cfg.PingTimeout > 0 && cfg.ConnConfig.ConnectTimeout > 0
	d.Pool, d.Schema, d.pending, d.failures = pool, d.opts.Schema, map[Call]settleFunc{}, new(failures)
	if mode != pgx.QueryExecModeSimpleProtocol && mode != pgx.QueryExecModeExec {
		return nil
	}
	err := fmt.Errorf("the pool's query exec mode is %v, which does not carry typed parameters; use postgres.ParseConfig", mode)
	d.Close()
	return err
}

// Look looks at the schema by a function, and keeps its name. It comes before all other calls.
func (d *DB) Look(ctx context.Context, look func(ctx context.Context, conn *pgx.Conn, schema string) (*SchemaState, error)) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var found *SchemaState
	err = within(ctx, d.patience(), func(ctx context.Context) error {
		found, err = look(ctx, conn.Conn(), d.Schema)
		return err
	})
	if err != nil {
		return d.Translate(err)
	}
	d.Schema = found.Schema
	return nil
}

// Share returns the same database for another user, whose Close closes neither the pool nor d. When d
// is closed, so is the share. setup is as in Options.
func (d *DB) Share(setup string) *DB {
	opts := d.opts
	opts.Setup = setup
	return &DB{Pool: d.Pool, Schema: d.Schema, opts: opts, above: d, failures: d.failures, poolBounds: d.poolBounds, pending: map[Call]settleFunc{}}
}

// Close makes later calls fail with saver.ErrClosed. A pool that Open made is closed when the calls
// under way have ended, and so have last. A second Close does nothing.
func (d *DB) Close(last ...func()) {
	if d.closed.Swap(true) {
		return
	}
	for _, f := range last {
		f()
	}
	if d.owns {
		d.Pool.Close()
	}
}

// Closed reports whether Close was called.
func (d *DB) Closed() bool { return d.closed.Load() || d.above != nil && d.above.Closed() }

// Ready refuses a call that comes too late.
func (d *DB) Ready(ctx context.Context) error {
	if d.Closed() {
		return saver.ErrClosed
	}
	return ctx.Err()
}

// Now is the clock's time as it is stored.
func (d *DB) Now() time.Time { return d.opts.Clock().UTC().Truncate(time.Microsecond) }

// Qualify puts the schema before the tables of a statement, which are written "@.name".
func (d *DB) Qualify(sql string) string { return Qualify(d.Schema, sql) }

// Qualify puts a schema before the tables of a statement, which are written "@.name".
func Qualify(schema, sql string) string { return strings.ReplaceAll(sql, "@.", Quoted(schema)+".") }

// Quoted is a name as SQL takes it.
func Quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// LockKey is the key of the advisory lock of a thread, or, for "", of the setup. Two threads of one
// key only wait for each other.
func LockKey(schema, threadID string) int64 {
	h := fnv.New64a()
	io.WriteString(h, "stele\x00"+schema+"\x00"+threadID)
	return int64(h.Sum64())
}

// LockKeys are the keys of names in the order in which every call takes them.
func LockKeys(schema string, names []string) []int64 {
	keys := make([]int64, 0, len(names))
	for _, name := range names {
		keys = append(keys, LockKey(schema, name))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Storable reports whether a column of type text, or a string in JSON, can hold s.
func Storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// CheckText returns an error for the first text that is not Storable. fields are names of fields and
// their texts, alternating.
func CheckText(fields ...string) error {
	for pair := range slices.Chunk(fields, 2) {
		if !Storable(pair[1]) {
			return saver.Invalidf(pair[0], "%q is not text that PostgreSQL can store; use UTF-8 without U+0000", pair[1])
		}
	}
	return nil
}
