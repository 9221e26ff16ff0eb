package pgdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The server bounds its statements, but a server that is silent, behind a network that loses
// everything or stopped as a process, bounds nothing. So every wait for it has an end on this side
// as well, by the deadlines of pgx, which close the connection. What was sent on it may be done
// or not: see OutcomeOf.

const (
	defaultStatementTimeout = 30 * time.Second
	// leastGrace is the least time that a client waits longer than the server: usually the server ends
	// a statement, and reports that nothing was written.
	leastGrace = time.Second
	// pingTimeout is how long the check of an idle connection takes at most, before another is taken.
	pingTimeout = 5 * time.Second
)

// patience returns how long to wait for one answer of the server, or for a connection to it.
func (d *DB) patience() time.Duration { return d.patienceFor(1) }

// patienceFor is patience for several statements that are sent together: the server answers only when
// it has all of them.
func (d *DB) patienceFor(statements int) time.Duration {
	most := d.opts.StatementTimeout
	if most < 0 {
		most = defaultStatementTimeout
	}
	return time.Duration(max(statements, 1))*most + max(most/2, leastGrace)
}

// silentError is a wait for the server that took too long.
type silentError struct {
	after time.Duration
	err   error
}

// Error says for how long nothing came.
func (e *silentError) Error() string {
	return fmt.Sprintf("the server has not answered within %v: %v", e.after, context.DeadlineExceeded)
}

// Unwrap gives the error of pgx, which knows whether something was sent.
func (e *silentError) Unwrap() []error { return []error{context.DeadlineExceeded, e.err} }

// within calls f with a context that ends after most.
func within(ctx context.Context, most time.Duration, f func(context.Context) error) error {
	waiting, done := context.WithTimeout(ctx, most)
	defer done()
	err := f(waiting)
	return silent(ctx, waiting, most, err)
}

// silent returns err, as a silentError if the wait ended before ctx did and has caused it.
func silent(ctx, waiting context.Context, most time.Duration, err error) error {
	var pg *pgconn.PgError
	if err == nil || waiting.Err() == nil || ctx.Err() != nil || errors.As(err, &pg) {
		return err
	}
	return &silentError{most, err}
}

// answered calls f, which waits for the answer to statements, with a context that ends after
// patienceFor, unless statements have no timeout.
func (d *DB) answered(ctx context.Context, statements int, f func(context.Context) error) error {
	if d.opts.StatementTimeout < 0 {
		return f(ctx)
	}
	return within(ctx, d.patienceFor(statements), f)
}

// acquire takes a connection of the pool. While other calls use all of them, only ctx bounds the wait.
// The pool bounds its own work with the server, for each host separately, so that the next host is
// tried. A pool without such bounds is waited for as long as the server.
func (d *DB) acquire(ctx context.Context) (conn *pgxpool.Conn, err error) {
	if d.poolBounds {
		return d.Pool.Acquire(ctx)
	}
	err = within(ctx, d.patience(), func(ctx context.Context) error {
		conn, err = d.Pool.Acquire(ctx)
		return err
	})
	return conn, err
}

// boundConnect bounds the wait for each host, unless that was done.
func (d *DB) boundConnect(cfg *pgx.ConnConfig) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = d.patience()
	}
}

// boundTx is a transaction that bounds the wait for each statement and its rows as answered does. It
// ignores the contexts passed to its methods, and uses its own.
type boundTx struct {
	pgx.Tx
	waiting context.Context
	timer   *time.Timer   // ends waiting
	most    time.Duration // how long the wait under way is at most
	db      *DB
}

// beginTx begins a transaction on a connection. end releases its context.
func (d *DB) beginTx(ctx context.Context, conn *pgxpool.Conn, opts pgx.TxOptions) (tx *boundTx, end func(), err error) {
	waiting, cancel := context.WithCancel(ctx)
	tx = &boundTx{waiting: waiting, most: d.patience(), db: d}
	tx.timer = time.AfterFunc(tx.most, cancel)
	tx.Tx, err = conn.BeginTx(waiting, opts)
	return tx, func() { tx.timer.Stop(); cancel() }, silent(ctx, waiting, d.patience(), err)
}

// next begins the wait for the answer to statements.
func (t *boundTx) next(statements int) context.Context {
	if t.most = t.db.patienceFor(statements); t.db.opts.StatementTimeout < 0 {
		t.most = math.MaxInt64
	}
	t.timer.Reset(t.most)
	return t.waiting
}

// Exec implements pgx.Tx, with the time of one statement.
func (t *boundTx) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(t.next(1), sql, args...)
}

// Query implements pgx.Tx, with the time of one statement.
func (t *boundTx) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(t.next(1), sql, args...)
}

// QueryRow implements pgx.Tx, with the time of one statement.
func (t *boundTx) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(t.next(1), sql, args...)
}

// SendBatch implements pgx.Tx. It is bounded by the timeouts of its statements together.
func (t *boundTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.Tx.SendBatch(t.next(b.Len()), b)
}

// Commit implements pgx.Tx. It is bounded by the timeout of one statement.
func (t *boundTx) Commit(context.Context) error { return t.Tx.Commit(t.next(1)) }
