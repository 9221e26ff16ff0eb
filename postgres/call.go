package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/saver"
)

// call names one attempt at writing. The transaction looks whether its call was voided,
// and leaves its name in what it writes. So a call whose answer was lost can be settled:
// under the lock of the thread it is voided, and from then on either its trace is there or
// it will never be written, however late its statements arrive.
type call [16]byte

func newCall() call {
	var c call
	rand.Read(c[:])
	return c
}

// backoff is how long to wait before try n, from 1 on: growing, bounded, and never the
// same for two.
func backoff(n int) time.Duration {
	d := min(10*time.Millisecond<<min(n-1, 10), time.Second)
	return d/2 + mathrand.N(d/2)
}

// again calls do until it succeeds, fails for good, or was tried for long enough. do says
// whether its error may pass.
func (s *Saver) again(ctx context.Context, do func() (retry bool, err error)) error {
	begin := time.Now()
	for n := 1; ; n++ {
		retry, err := do()
		if err == nil || !retry {
			return err
		}
		wait := backoff(n)
		if time.Since(begin)+wait > s.opts.RetryTime || pause(ctx, wait) != nil {
			return err
		}
	}
}

// write is a call that writes to one thread, as a batch of statements: one round trip, and
// one transaction, which the Sync at the end of the batch commits. No statement of it may
// be BEGIN or COMMIT.
type write struct {
	threadID string
	// queue adds the statements that follow the lock of the thread.
	queue func(b *pgx.Batch, c call)
	// locks: what queue adds takes the lock itself, as putFunction does.
	locks bool
	// trace says whether the call c has been written; nil if it does no harm to write it
	// twice.
	trace func(b *pgx.Batch, c call, applied *bool)
	// refused makes the error of a refusal by stele_refuse.
	refused func(code, detail string) error
}

// run performs a write. It tries again what was rolled back for reasons that pass, what
// was not sent, and what is known not to have been written.
func (s *Saver) run(ctx context.Context, w write) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.again(ctx, func() (bool, error) {
		c := newCall()
		err := s.sendBatch(ctx, func(b *pgx.Batch) {
			if !w.locks {
				s.queueLock(b, w.threadID)
			}
			w.queue(b, c)
		})
		if err == nil {
			return false, nil
		}
		if code, detail, ok := refusal(err); ok {
			return false, w.refused(code, detail)
		}
		switch outcomeOf(err) {
		case rolledBack:
			return passing(err), s.translate(err)
		case unsent:
			return ctx.Err() == nil && !s.closed.Load(), err
		}
		s.remember(c, w.threadID)
		if ctx.Err() != nil {
			return false, outcomeUnknown(ctx.Err())
		}
		var applied bool
		if settled := s.settle(ctx, c, w.threadID, w.trace, &applied); settled != nil {
			return false, outcomeUnknown(err)
		}
		if applied {
			return false, nil
		}
		return true, outcomeUnknown(err)
	})
	if s.closed.Load() && err != nil && !errors.Is(err, saver.ErrOutcomeUnknown) {
		return saver.ErrClosed
	}
	return err
}

// sendBatch sends one transaction, as sendTx.
func (s *Saver) sendBatch(ctx context.Context, queue func(b *pgx.Batch)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return notSent{err}
	}
	defer conn.Release()
	return committed(conn.Conn(), s.sendTx(ctx, conn.Conn(), "", queue))
}

// queueLock takes the lock of a thread, for the statements that follow.
func (s *Saver) queueLock(b *pgx.Batch, threadID string) {
	b.Queue("SELECT pg_advisory_xact_lock($1)", lockKey(s.schema, threadID))
}

// unreplicated marks a connection on which the server said, with the success of a commit,
// that the wait for a replica was cancelled: see pgconn.PgConn.CustomData.
const unreplicated = "stele: unreplicated"

var errUnreplicated = errors.New("committed, but the wait for a synchronous replica was cancelled")

// committed is the error of a commit. What is on no replica may be lost in a failover.
// Settling the call is a commit as well, which comes later in the log: once that is
// replicated, so is this.
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

// remember notes that nobody knows whether c was written.
func (s *Saver) remember(c call, threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[c] = threadID
}

// settle makes sure that c has been written already or never will be, and asks trace
// which.
func (s *Saver) settle(ctx context.Context, c call, threadID string, trace func(*pgx.Batch, call, *bool), applied *bool) error {
	err := s.again(ctx, func() (bool, error) {
		err := s.sendBatch(ctx, func(b *pgx.Batch) {
			s.queueLock(b, threadID)
			b.Queue(s.sql.void, [16]byte(c), s.now())
			if trace != nil {
				trace(b, c, applied)
			}
		})
		return err != nil && ctx.Err() == nil, err
	})
	if err == nil {
		s.mu.Lock()
		delete(s.pending, c)
		s.mu.Unlock()
	}
	return err
}

// Sync implements saver.Saver: it settles the calls of unknown outcome, and makes
// deferred writes durable by a commit of its own. Other calls that returned without an
// error are durable already, as far as the server's synchronous_commit goes.
func (s *Saver) Sync(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.deferred.Swap(false) {
		if err := s.settle(ctx, newCall(), "", nil, nil); err != nil {
			s.deferred.Store(true)
			return err
		}
	}
	s.mu.Lock()
	pending := maps.Clone(s.pending)
	s.mu.Unlock()
	for c, threadID := range pending {
		if err := s.settle(ctx, c, threadID, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// goesOn reports whether a transaction that was not asked to commit, and met an error, is to be tried again: for a
// reason that passes, or as its connection was lost, which rolls it back.
func (s *Saver) goesOn(ctx context.Context, conn *pgx.Conn, err error) bool {
	return ctx.Err() == nil && !s.closed.Load() && (passing(err) || conn.IsClosed())
}

// inTx runs f in a transaction that holds the locks of threads, and tries again what was
// rolled back for reasons that pass, or as the connection was lost. f must not keep what it
// finds from one try to the next.
func (s *Saver) inTx(ctx context.Context, threadIDs []string, f func(tx pgx.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys := lockKeys(s.schema, threadIDs)
	err := s.again(ctx, func() (bool, error) {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return ctx.Err() == nil && !s.closed.Load(), err
		}
		defer conn.Release()
		tx, err := conn.Begin(ctx)
		if err != nil {
			return ctx.Err() == nil && !s.closed.Load(), err
		}
		defer rollBack(ctx, tx.Rollback)
		if err := s.lockAll(ctx, tx, keys); err != nil {
			return s.goesOn(ctx, conn.Conn(), err), s.translate(err)
		}
		if err := f(tx); err != nil {
			return s.goesOn(ctx, conn.Conn(), err), s.translate(err)
		}
		if err := committed(conn.Conn(), tx.Commit(ctx)); err != nil {
			if outcomeOf(err) == unknown {
				// The transaction holds the locks until it has ended, so that settling any
				// call on its threads waits for it.
				for _, id := range threadIDs {
					s.remember(newCall(), id)
				}
				return false, outcomeUnknown(err)
			}
			return passing(err), s.translate(err)
		}
		return false, nil
	})
	if err != nil && s.closed.Load() {
		return saver.ErrClosed
	}
	return err
}

// rollbackTime is how long the answer to a ROLLBACK is waited for.
const rollbackTime = time.Second

// rollBack ends a transaction that is not to be committed, or ended already, also where ctx
// has ended. If the server does not answer in time, the connection is closed, which ends the
// transaction as well.
func rollBack(ctx context.Context, rollback func(context.Context) error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer done()
	rollback(ctx)
}

func (s *Saver) lockAll(ctx context.Context, tx pgx.Tx, keys []int64) error {
	if text, ok := s.unbounded(tx.Conn()); ok {
		if _, err := tx.Exec(ctx, setTimeout, text); err != nil {
			return err
		}
	}
	for _, key := range keys { // one by one: their order must be that of every other call
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", key); err != nil {
			return err
		}
	}
	return nil
}
