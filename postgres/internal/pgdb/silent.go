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
	// leastGrace is how much longer than the server this side waits, at least: as a rule it is the
	// server that ends a statement, and says that nothing was written.
	leastGrace = time.Second
	// pingTimeout is how long the check of an idle connection takes at most, before another is taken.
	pingTimeout = 5 * time.Second
)

// patience is how long one answer of the server is waited for, or a connection to it.
func (d *DB) patience() time.Duration { return d.patienceFor(1) }

// patienceFor is patience for statements that are sent at once: the server sends no answer before it
// has them all.
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

// silent is err, as a silentError where waiting has ended before ctx did, and that is why.
func silent(ctx, waiting context.Context, most time.Duration, err error) error {
	var pg *pgconn.PgError
	if err == nil || waiting.Err() == nil || ctx.Err() != nil || errors.As(err, &pg) {
		return err
	}
	return &silentError{most, err}
}

// answered calls f, which waits for the answer to statements: no longer than patienceFor, unless
// nobody says how long a statement may take.
func (d *DB) answered(ctx context.Context, statements int, f func(context.Context) error) error {
	if d.opts.StatementTimeout < 0 {
		return f(ctx)
	}
	return within(ctx, d.patienceFor(statements), f)
}

// acquire takes a connection of the pool. While others use them all, only ctx ends the wait: how long
// they may is another question than whether the server is there. What the pool asks of the server
// is bounded by the pool, each host by itself, so that the next one has its turn. One that bounds
// nothing is waited for as long as the server.
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

// boundTx is a transaction each of whose statements, with what is done with its rows, is waited for
// as answered does. The contexts of its methods are not looked at: it has one of its own.
type boundTx struct {
	pgx.Tx
	waiting context.Context
	timer   *time.Timer   // ends waiting
	most    time.Duration // how long the wait under way is at most
	db      *DB
}

// beginTx begins a transaction on a connection. end gives back what it holds.
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

func (t *boundTx) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.Tx.SendBatch(t.next(b.Len()), b)
}

func (t *boundTx) Commit(context.Context) error { return t.Tx.Commit(t.next(1)) }
