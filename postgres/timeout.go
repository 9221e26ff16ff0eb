package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options.StatementTimeout is the server's setting statement_timeout. On a connection of a
// Saver's own pool that leads to the server itself it is set once, for the session: the
// connection is then marked. On others, behind a pooler and in pools of a caller's, each
// transaction sets it for itself, because who has the server's connection next would have the
// setting too. A pooler is known by the process number that it gives its clients: it must be
// one of its own, or a cancellation would reach whoever is there. Behind a pooler, what a
// connection asks about a statement that it has not sent before comes ahead of the transaction,
// and has no timeout but the context's.

// bounded marks a connection whose session has the timeout: see pgconn.PgConn.CustomData.
const bounded = "stele: bounded"

const setTimeout = "SELECT set_config('statement_timeout', $1, true)"

// newPool makes a pool of a Saver's own.
func newPool(ctx context.Context, connString string, opts Options) (*pgxpool.Pool, error) {
	cfg, err := ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	if d := opts.withDefaults().StatementTimeout; d > 0 {
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return boundSession(ctx, conn, d) }
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// boundSession sets the timeout of a new connection that leads to the server itself.
func boundSession(ctx context.Context, conn *pgx.Conn, d time.Duration) error {
	var direct bool
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid() = $1::bigint AND set_config('statement_timeout', $2, false) IS NOT NULL`,
		pgx.QueryExecModeExec, int64(conn.PgConn().PID()), timeoutText(d)).Scan(&direct)
	if err == nil && direct {
		conn.PgConn().CustomData()[bounded] = true
	}
	return err
}

// unbounded reports whether a transaction on conn has to set the timeout for itself, to text.
func (s *Saver) unbounded(conn *pgx.Conn) (text string, ok bool) {
	d := s.opts.StatementTimeout
	if d <= 0 || conn.PgConn().CustomData()[bounded] != nil {
		return "", false
	}
	return timeoutText(d), true
}

// queueTimeout adds the statement that bounds those of a transaction, where it is needed.
func (s *Saver) queueTimeout(b *pgx.Batch, conn *pgx.Conn) {
	if text, ok := s.unbounded(conn); ok {
		b.Queue(setTimeout, text)
	}
}

// timeoutText is d as the setting takes it, in milliseconds.
func timeoutText(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
