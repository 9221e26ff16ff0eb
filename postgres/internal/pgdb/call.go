package pgdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/saver"
)

// Call names one attempt at writing. The transaction checks that its call was not voided, and stores
// its name with its rows. So a call whose answer was lost can be settled: it is voided under the lock
// of the thread, and from then on either its name is found or it will never be written, however late
// its statements arrive.
type Call [16]byte

// NewCall is a name that no other call has.
func NewCall() (c Call) {
	rand.Read(c[:])
	return c
}

// settleFunc adds statements after which a call has been written already or never will be, and which
// say whether it has.
type settleFunc func(b *pgx.Batch, c Call, applied *bool)

// Backoff returns how long to wait before try n, from 1 on: growing, bounded, and random.
func Backoff(n int) time.Duration {
	d := min(10*time.Millisecond<<min(n-1, 10), time.Second)
	return d/2 + mathrand.N(d/2)
}

// Pause waits, or ends with ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Again calls do until it succeeds, fails for good, or was tried for long enough. do says whether
// its error may pass. Where the database was closed or ctx has ended, nothing is tried again, and
// that is the error, unless the outcome is unknown.
func (d *DB) Again(ctx context.Context, do func() (retry bool, err error)) error {
	if err := d.Ready(ctx); err != nil {
		return err
	}
	begin := time.Now()
	for n := 1; ; n++ {
		retry, err := do()
		if err == nil {
			return nil
		}
		wait := Backoff(n)
		if retry && d.Ready(ctx) == nil && time.Since(begin)+wait <= d.opts.RetryTime && Pause(ctx, wait) == nil {
			continue
		}
		if late := d.Ready(ctx); late != nil && !errors.Is(err, saver.ErrOutcomeUnknown) {
			return late
		}
		return err
	}
}

// Write is a call that writes, as a batch of statements: one round trip, and one transaction, which
// the Sync at the end of the batch commits. No statement of it may be BEGIN or COMMIT.
type Write struct {
	// Thread is the thread whose lock is taken; the call is settled under the same lock.
	Thread string
	// Queue adds the statements that follow the lock, and the look whether the call was voided.
	Queue func(b *pgx.Batch, c Call)
	// Locks: the statements of Queue take the lock and check the call themselves.
	Locks bool
	// Trace says whether the call c has been written; nil if it does no harm to write it twice.
	Trace func(b *pgx.Batch, c Call, applied *bool)
	// Settle, unless it is nil, settles the call in its own way, without a lock and a Trace.
	Settle func(b *pgx.Batch, c Call, applied *bool)
	// Refused makes the error of a refusal by stele_refuse. It may be nil, or return nil.
	Refused func(code, detail string) error
}

// Write performs a write. It tries again if the write was rolled back for a passing reason, was not
// sent, or is known not to have been made.
func (d *DB) Write(ctx context.Context, w Write) error {
	settle, later := settleFunc(w.Settle), settleFunc(w.Settle)
	if settle == nil {
		// Until a later Sync only the name of the call's thread is kept.
		settle, later = d.voids(w.Thread, w.Trace), d.voids(w.Thread, nil)
	}
	return d.Again(ctx, func() (bool, error) {
		c := NewCall()
		err := d.SendBatch(ctx, func(b *pgx.Batch) {
			if w.Settle == nil && !w.Locks {
				d.QueueLock(b, w.Thread)
				b.Queue(d.Qualify(guard), [16]byte(c))
			}
			w.Queue(b, c)
		})
		if err == nil {
			return false, nil
		}
		if code, detail, ok := Refusal(err); ok {
			var refused error
			if w.Refused != nil {
				refused = w.Refused(code, detail)
			}
			return false, cmp.Or(refused, fmt.Errorf("refused: %s %s", code, detail))
		}
		switch OutcomeOf(err) {
		case RolledBack:
			return Passing(err), d.Translate(err)
		case Unsent:
			return true, err
		}
		d.remember(c, later)
		if ctx.Err() != nil {
			return false, outcomeUnknown(ctx.Err())
		}
		applied, settled := d.settle(ctx, c, settle)
		if settled == nil && applied {
			return false, nil
		}
		return settled == nil, outcomeUnknown(err)
	})
}

const (
	void  = `INSERT INTO @.stele_voided (call, at) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	guard = `SELECT @.stele_refuse('` + RefusedVoided + `', '') WHERE EXISTS (SELECT FROM @.stele_voided WHERE call = $1)`
)

// VoidedFor is how long a call that was given up is kept from arriving late.
const VoidedFor = 24 * time.Hour

// voids settles a call under the lock of a thread.
func (d *DB) voids(thread string, trace settleFunc) settleFunc {
	return func(b *pgx.Batch, c Call, applied *bool) {
		d.QueueLock(b, thread)
		b.Queue(d.Qualify(void), [16]byte(c), d.Now())
		if trace != nil {
			trace(b, c, applied)
		}
	}
}

// QueueLock adds the statement that takes the lock of a thread, for the statements that follow.
func (d *DB) QueueLock(b *pgx.Batch, threadID string) {
	b.Queue(lock, LockKey(d.Schema, threadID))
}

const lock = `SELECT pg_advisory_xact_lock($1)`

// remember notes that the outcome of c is unknown.
func (d *DB) remember(c Call, settle settleFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending[c] = settle
}

// settle makes sure that c has been written already or never will be, and says which.
func (d *DB) settle(ctx context.Context, c Call, queue settleFunc) (applied bool, err error) {
	settling, done := ctx, func() {}
	if d.opts.RetryTime > 0 { // earlier tries may have taken longer
		settling, done = context.WithTimeout(ctx, d.opts.RetryTime)
	}
	defer done()
	err = d.Again(ctx, func() (bool, error) {
		err := d.SendBatch(settling, func(b *pgx.Batch) { queue(b, c, &applied) })
		return true, err
	})
	if err == nil {
		d.mu.Lock()
		delete(d.pending, c)
		d.mu.Unlock()
	}
	return applied, err
}

// Sync settles the calls of unknown outcome.
func (d *DB) Sync(ctx context.Context) error {
	d.mu.Lock()
	pending := maps.Clone(d.pending)
	d.mu.Unlock()
	for c, settle := range pending {
		if _, err := d.settle(ctx, c, settle); err != nil {
			return err
		}
	}
	return d.Ready(ctx)
}

// Flush makes a commit that waits for the server's disk, and so for all earlier ones. It takes no lock: nobody else has the
// call that it voids.
func (d *DB) Flush(ctx context.Context) error {
	_, err := d.settle(ctx, NewCall(), func(b *pgx.Batch, c Call, _ *bool) { b.Queue(d.Qualify(void), [16]byte(c), d.Now()) })
	return err
}

// SendBatch sends one transaction, in one round trip if possible.
func (d *DB) SendBatch(ctx context.Context, queue func(b *pgx.Batch)) error {
	return d.send(ctx, "", queue)
}

func (d *DB) send(ctx context.Context, begin string, queue func(b *pgx.Batch)) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return d.failures.note(ctx, notSent{err}, true)
	}
	defer conn.Release()
	err = committed(conn.Conn(), d.sendTx(ctx, conn.Conn(), begin, queue))
	return d.failures.note(ctx, err, conn.Conn().IsClosed())
}

// Repeat makes a transaction that may be made twice: if its outcome is not known it is made again. So
// queue must reset its results each time. begin is the statement that begins the transaction, or "".
func (d *DB) Repeat(ctx context.Context, begin string, queue func(b *pgx.Batch)) error {
	return d.Again(ctx, func() (bool, error) {
		err := d.send(ctx, begin, queue)
		return err != nil && (OutcomeOf(err) != RolledBack || Passing(err)), d.Translate(err)
	})
}

// Read sends statements that see one moment, in one round trip. It tries again as Repeat does.
func (d *DB) Read(ctx context.Context, queue func(b *pgx.Batch)) error {
	return d.Repeat(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", queue)
}

// unreplicated marks a connection on which the server said, with the success of a commit, that the
// wait for a replica was cancelled: see pgconn.PgConn.CustomData.
const unreplicated = "stele: unreplicated"

var errUnreplicated = errors.New("committed, but the wait for a synchronous replica was cancelled")

// committed returns the error of a commit. A commit that no replica has may be lost in a failover, so
// its outcome is unknown. Settling the call is a commit as well, later in the log: once that is
// replicated, this one is, too.
func committed(conn *pgx.Conn, err error) error {
	data := conn.PgConn().CustomData()
	_, marked := data[unreplicated]
	delete(data, unreplicated)
	if marked && err == nil {
		return errUnreplicated
	}
	return err
}

// notSent is an error of the pool: pgconn.SafeToRetry knows it by its method.
type notSent struct{ error }

// SafeToRetry is true: nothing of the call has left this program.
func (e notSent) SafeToRetry() bool { return true }

// Unwrap returns the error of the pool.
func (e notSent) Unwrap() error { return e.error }

// InTx runs f in a transaction that holds the locks of threads. It tries again if the transaction was
// rolled back for a passing reason, or because the connection was lost. f must not keep results from
// one try to the next.
func (d *DB) InTx(ctx context.Context, threadIDs []string, f func(tx pgx.Tx) error) error {
	return d.inTx(ctx, pgx.TxOptions{}, threadIDs, f)
}

// Snapshot runs f as InTx does, in a transaction that sees one moment, and writes nothing.
func (d *DB) Snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return d.inTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, nil, f)
}

func (d *DB) inTx(ctx context.Context, opts pgx.TxOptions, threadIDs []string, f func(tx pgx.Tx) error) error {
	return d.Again(ctx, func() (retry bool, err error) {
		conn, err := d.acquire(ctx)
		if err != nil {
			return true, d.failures.note(ctx, err, true)
		}
		defer conn.Release()
		defer func() { d.failures.note(ctx, err, conn.Conn().IsClosed()) }()
		tx, end, err := d.beginTx(ctx, conn, opts)
		defer end()
		if err != nil {
			return true, err
		}
		defer rollBack(ctx, tx.Rollback)
		if text, ok := d.unbounded(tx.Conn()); ok {
			_, err = tx.Exec(ctx, setTimeout, text)
		}
		for _, key := range LockKeys(d.Schema, threadIDs) { // one by one: their order must be that of every other call
			if err == nil {
				_, err = tx.Exec(ctx, lock, key)
			}
		}
		if err == nil {
			err = f(tx)
		}
		if err != nil {
			return Passing(err) || conn.Conn().IsClosed(), d.Translate(silent(ctx, tx.waiting, tx.most, err))
		}
		if opts.AccessMode == pgx.ReadOnly {
			return false, nil
		}
		err = silent(ctx, tx.waiting, tx.most, committed(conn.Conn(), tx.Commit(ctx)))
		if err != nil && OutcomeOf(err) == Unknown {
			// The transaction holds the locks until it has ended, so that settleFunc any call on its
			// threads waits for it.
			for _, id := range threadIDs {
				d.remember(NewCall(), d.voids(id, nil))
			}
			return false, outcomeUnknown(err)
		}
		return Passing(err), d.Translate(err)
	})
}

// rollbackTime bounds the wait for the answer to a ROLLBACK.
const rollbackTime = time.Second

// rollBack ends a transaction without a commit, even if ctx has ended. The transaction may have ended
// already. If the server does not answer in time, the connection is closed, which ends the transaction
// as well.
func rollBack(ctx context.Context, rollback func(context.Context) error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer done()
	rollback(ctx)
}
