package wal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
)

// Log is an open log. All methods may be called concurrently.
//
// Four goroutines work for it, and Close joins them: two committers, of which the
// one that has the turn owns the write position (it is "the committer" elsewhere; where
// nothing else is under way a caller stands in for it, see lead);
// the preparer writes zeros ahead and makes the next file; the
// syncer (not in SyncAlways) syncs in the background. Lock order, outermost
// first: logFile.smu, logFile.wmu, Log.mu; queue.mu, preparer.mu and marker.mu are
// leaves.
// No callback runs under any of them.
type Log struct {
	opts  Options
	q     *queue
	reqs  requests
	prep  *preparer
	syn   *syncer // nil in SyncAlways and with Options.Inline
	marks marker
	count counters

	durable atomic.Uint64 // written under mu, so that poison freezes it
	last    atomic.Uint64

	// left counts the calls that gave up while the committer had their request;
	// settled is how many of them are known to have been answered since. See Sync.
	left, settled atomic.Uint64

	// mu guards what other goroutines need to know of the committer's work.
	mu struct {
		sync.Mutex
		cur     *logFile // nil before the first commit and after Rotate
		pos     Position // behind the last committed record, sync marks excluded
		applied Position // pos as of the last Apply that returned
		poison  error    // set once
		lag     lag
	}

	// Owned by the committer that has the turn, or the caller who stands in for it
	// (by Close once both have ended).
	w committer

	turn      chan struct{}  // capacity 1: a token; closed when the queue is drained
	workers   sync.WaitGroup // the committers
	closeOnce sync.Once
	closeErr  error
}

// New opens a log for writing where opts.Start says. It touches no file: the
// first is made at the first commit.
func New(opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		opts: opts,
		q:    newQueue(opts.MaxQueueBytes, opts.MaxQueueRecords),
		turn: make(chan struct{}, 1),
	}
	l.marks.mu.lsn = opts.Start.NextLSN - 1
	l.marks.fs, l.marks.dir, l.marks.origin = opts.FS, opts.Dir, opts.Origin
	l.mu.pos, l.mu.applied = opts.Start, opts.Start
	l.durable.Store(uint64(opts.Start.NextLSN - 1))
	l.last.Store(uint64(opts.Start.NextLSN - 1))
	l.w.init(opts.Start)
	l.prep = newPreparer(l)
	if opts.Mode != SyncAlways && !opts.Inline {
		l.syn = newSyncer(l)
	}
	l.turn <- struct{}{}
	l.workers.Go(l.run)
	l.workers.Go(l.run)
	return l, nil
}

func randomSalt() uint64 { return rand.Uint64() }

// Commit appends r and returns when it is committed: applied, and durable if
// the mode says so.
//
// If ctx cannot be cancelled and nothing else is under way, all this is done on the
// caller's goroutine, the log's callbacks included.
//
// ctx cancels the wait, not the write. If r was still queued it is withdrawn,
// nothing is written and the error is ctx's alone; if the committer had taken
// it, the error also matches fault.ErrOutcomeUnknown, and the log may go on
// using r.
//
// Other errors: what Prepare returned; fault.ErrTooLarge; fault.ErrDiskFull
// (nothing was acknowledged, the next call may succeed); fault.ErrPoisoned (after
// a failed sync the record may yet be found at the next open);
// fault.ErrClosed.
func (l *Log) Commit(ctx context.Context, r *Record) error {
	if r == nil || r.Prepare == nil {
		return errors.New("commit: a record needs Prepare")
	}
	return l.submit(ctx, l.reqs.get(r, controlNone))
}

// Rotate seals the current file: synced, marked as complete and closed. The
// next commit opens a new file. A log without records since the last rotation
// is left as it is.
func (l *Log) Rotate(ctx context.Context) error {
	return l.submit(ctx, l.reqs.get(nil, controlRotate))
}

// Sync returns nil when every call that returned before it is settled. What such a
// call committed is applied and durable. What else it asked for never will be, also
// if its outcome was unknown when it returned.
func (l *Log) Sync(ctx context.Context) error {
	if left := l.left.Load(); left > l.settled.Load() {
		// The committer has the requests of these calls. It answers them before it
		// takes one that is queued now.
		if err := l.submit(ctx, l.reqs.get(nil, controlSync)); err != nil {
			return err
		}
		l.noteSettled(left)
		return nil
	}
	switch {
	case l.syn != nil:
		return l.syn.barrier(ctx)
	case l.opts.Mode != SyncAlways:
		return l.submit(ctx, l.reqs.get(nil, controlSync))
	}
	if l.q.isClosed() {
		return fault.ErrClosed
	}
	if l.durable.Load() < l.last.Load() { // Deferred records
		return l.submit(ctx, l.reqs.get(nil, controlSync))
	}
	// Each applied batch was synced before it was applied.
	return l.stillThere()
}

// stillThere answers who asks for a sync when there is nothing to sync: what was made
// durable before must still be where the next Open finds it.
func (l *Log) stillThere() error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if err := l.opts.Guard(); err != nil {
		return l.fail("sync", err)
	}
	return nil
}

// noteSettled records that the first n calls that gave up have been answered.
func (l *Log) noteSettled(n uint64) {
	for {
		was := l.settled.Load()
		if was >= n || l.settled.CompareAndSwap(was, n) {
			return
		}
	}
}

// submit queues r and waits for the committer's answer.
func (l *Log) submit(ctx context.Context, r *request) error {
	err := ctx.Err()
	if err == nil {
		err = l.poisoned()
	}
	// Who can be cancelled must not be held by a device that hangs.
	if err == nil && ctx.Done() == nil && r.rec != nil && l.q.lead(r) {
		l.lead(r)
		err = <-r.done
		l.reqs.put(r)
		return err
	}
	if err == nil {
		err = l.q.push(ctx, r)
	}
	if err != nil {
		l.reqs.put(r)
		return err
	}
	cancelled := ctx.Done()
	if cancelled == nil { // a receive costs less than a choice of one
		err = <-r.done
		l.reqs.put(r)
		return err
	}
	select {
	case err = <-r.done:
		l.reqs.put(r)
		return err
	case <-cancelled:
	}
	if l.q.withdraw(r) {
		return fmt.Errorf("withdrawn from the log queue: %w", ctx.Err())
	}
	select {
	case err = <-r.done:
		l.reqs.put(r)
		return err
	default:
		// The committer will still answer into r.done: r is left to it.
		l.left.Add(1)
		return fmt.Errorf("commit: %w: %w", fault.ErrOutcomeUnknown, ctx.Err())
	}
}

// DurableLSN is the LSN up to which records are known to survive power loss.
// It can be ahead of Apply by the batch being applied. A poisoned log never
// advances it.
func (l *Log) DurableLSN() base.LSN { return base.LSN(l.durable.Load()) }

// LastLSN is the LSN of the last committed record; 0 in an empty log.
func (l *Log) LastLSN() base.LSN { return base.LSN(l.last.Load()) }

// Position is the place behind the last record that was applied; records that
// Apply has not been told of lie behind it. It may be handed to Recover as the place to
// read from once DurableLSN has reached NextLSN-1.
func (l *Log) Position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.applied
}

// Close commits what is queued, syncs, writes the close mark, cuts off unused
// preallocation and closes the file. Later calls return ErrClosed; a second
// Close returns what the first did. A poisoned log returns its poison: the file
// then has no close mark, and the next open treats it as after a crash.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.q.close()
		l.workers.Wait()
		if l.syn != nil {
			l.syn.close()
		}
		l.prep.close()
		l.closeErr = l.finish()
	})
	return l.closeErr
}

// finish ends the log once all its goroutines have.
func (l *Log) finish() error {
	err := l.poisoned()
	if err == nil {
		err = l.seal()
	}
	l.prep.discardSpare()
	if n := l.w.next; n != nil && err == nil {
		// Its header is durable but it holds no record and the manifest does
		// not name it. If the removal is lost, the next open sweeps it.
		l.discard(n)
	} else if n != nil {
		// OnCreate failed, and the manifest may name it after all.
		_ = n.f.Close()
	}
	l.mu.Lock()
	cur := l.mu.cur
	l.mu.cur = nil
	l.mu.Unlock()
	if cur != nil {
		l.prep.retire(cur)
	}
	l.prep.flushRetired()
	l.marks.close()
	return err
}

// poisoned returns the poison, or nil.
func (l *Log) poisoned() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.poison
}

// setPoison records the first cause after which the state on disk is unknown.
// It returns the poison, and whether this call set it; the caller then reports
// it by announcePoison, without locks.
func (l *Log) setPoison(op string, cause error) (error, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poison != nil {
		return l.mu.poison, false
	}
	l.mu.poison = fmt.Errorf("%w: %s: %w", fault.ErrPoisoned, op, cause)
	return l.mu.poison, true
}

// fail poisons the log and reports it. The caller holds no lock.
func (l *Log) fail(op string, cause error) error {
	err, first := l.setPoison(op, cause)
	l.announcePoison(err, first)
	return err
}

func (l *Log) announcePoison(err error, first bool) {
	if first && l.opts.Events.Poisoned != nil {
		l.opts.Events.Poisoned(err)
	}
}

// advanceDurable records that everything up to lsn is durable, unless the log
// is poisoned. The sync began at a moment when before bytes were owed.
func (l *Log) advanceDurable(lsn base.LSN, began time.Time, before int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poison == nil && lsn > base.LSN(l.durable.Load()) {
		l.durable.Store(uint64(lsn))
		l.mu.lag.synced(uint64(lsn) >= l.last.Load(), began, before)
	}
}

// owed is how many bytes are not durable.
func (l *Log) owed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lag.bytes
}

func (l *Log) observeSync(took time.Duration) {
	l.count.sync(took)
	if took >= l.opts.SlowSync && l.opts.Events.SlowSync != nil {
		l.opts.Events.SlowSync(took)
	}
}

// isNoSpace reports whether err says that the device or the quota is full, and
// not that this has already done harm.
func isNoSpace(err error) bool {
	if errors.Is(err, fault.ErrPoisoned) {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, fault.ErrDiskFull)
}
