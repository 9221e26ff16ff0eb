package pgdb

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options.StatementTimeout is the server's setting statement_timeout. On a connection of a
// DB's own pool that leads to the server itself it is set once, for the session: the
// connection is then marked. On others, behind a pooler and in pools of a caller's, each
// transaction sets it for itself, because who has the server's connection next would have the
// setting too. A pooler is known by the process number that it gives its clients: it must be
// one of its own, or a cancellation would reach whoever is there. Behind a pooler, what a
// connection asks about a statement that it has not sent before would come ahead of the
// transaction, and wait for a lock without a timeout. So such a transaction is begun, and given
// its timeout, in round trips of their own.

// bounded marks a connection whose session has the timeout: see pgconn.PgConn.CustomData.
const bounded = "stele: bounded"

const setTimeout = "SELECT set_config('statement_timeout', $1, true)"

// boundSession sets the timeout of a new connection that leads to the server itself.
func (d *DB) boundSession(ctx context.Context, conn *pgx.Conn) error {
	var direct bool
	ctx, done := context.WithTimeout(ctx, d.patience()) // that of a pool has no end
	defer done()
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid() = $1::bigint AND set_config('statement_timeout', $2, false) IS NOT NULL`,
		pgx.QueryExecModeExec, int64(conn.PgConn().PID()), timeoutText(d.opts.StatementTimeout)).Scan(&direct)
	if err == nil && direct {
		conn.PgConn().CustomData()[bounded] = true
	}
	return err
}

// unbounded reports whether a transaction on conn has to set the timeout for itself, to text.
func (d *DB) unbounded(conn *pgx.Conn) (text string, ok bool) {
	if d.opts.StatementTimeout <= 0 || conn.PgConn().CustomData()[bounded] != nil {
		return "", false
	}
	return timeoutText(d.opts.StatementTimeout), true
}

// described are the statements that a connection behind a pooler has sent: see
// pgconn.PgConn.CustomData.
const described = "stele: described"

// maxDescribed is how many of them are kept: fewer than the descriptions that pgx keeps, so that pgx
// has the descriptions of all statements kept here.
const maxDescribed = 128

// sendTx sends the statements of queue as one transaction: in one round trip, unless the
// connection is behind a pooler and has not sent them before. begin is "" for a transaction
// that needs no statement to begin. queue may be called twice.
func (d *DB) sendTx(ctx context.Context, conn *pgx.Conn, begin string, queue func(b *pgx.Batch)) error {
	b := &pgx.Batch{}
	if begin != "" {
		b.Queue(begin)
	}
	text, bounds := d.unbounded(conn)
	if bounds {
		b.Queue(setTimeout, text)
	}
	before := b.Len()
	queue(b)
	statements := b.Len() - before
	if begin != "" {
		b.Queue("COMMIT")
	}
	known, _ := conn.PgConn().CustomData()[described].(map[string]bool)
	if !bounds || !slices.ContainsFunc(b.QueuedQueries, func(q *pgx.QueuedQuery) bool { return !known[q.SQL] }) {
		return d.answered(ctx, statements, func(ctx context.Context) error {
			if q := b.QueuedQueries; len(q) == 1 && q[0].Fn == nil { // is the same, and costs this program less
				_, err := conn.Exec(ctx, q[0].SQL, q[0].Arguments...)
				return err
			}
			return conn.SendBatch(ctx, b).Close()
		})
	}
	first, rest := &pgx.Batch{}, &pgx.Batch{}
	first.Queue(cmp.Or(begin, "BEGIN"))
	first.Queue(setTimeout, text)
	send := func(b *pgx.Batch, statements int) error {
		return d.answered(ctx, statements, func(ctx context.Context) error { return conn.SendBatch(ctx, b).Close() })
	}
	if err := send(first, 1); err != nil {
		return err
	}
	queue(rest)
	rest.Queue("COMMIT")
	if err := send(rest, statements); err != nil {
		rollBack(ctx, func(ctx context.Context) error { // else the pool drops the connection
			_, err := conn.Exec(ctx, "ROLLBACK")
			return err
		})
		return err
	}
	if known == nil || len(known)+b.Len() > maxDescribed {
		known = map[string]bool{}
		conn.PgConn().CustomData()[described] = known
	}
	for _, q := range b.QueuedQueries {
		known[q.SQL] = true
	}
	return nil
}

// timeoutText is d as the setting takes it, in milliseconds.
func timeoutText(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
