package wal

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
)

// Log is a log that is open for writing. All methods may be called concurrently.
//
// Up to four goroutines work for it, and Close waits for them: two committer
// goroutines, which share the pipeline described at committer; a preallocator, which
// readies disk space ahead of them; and, except in SyncAlways, a syncer, which syncs in
// the background.
//
// Lock order, outermost first: logFile.smu, logFile.wmu, Log.mu. The locks of queue,
// preallocator and markWriter are leaves. No callback runs under any of them, except
// Options.Guard and Options.Replicate: after a sync Guard runs under logFile.smu. It runs
// under no lock where nothing is synced: see checkGuard and commitBatch. Replicate runs
// under replication.sending, under which no other lock is taken.
type Log struct {
	opts        Options
	q           *queue
	prealloc    *preallocator
	syn         *syncer // nil in SyncAlways and with Options.Inline
	durableMark markWriter
	replication replication
	count       counters

	durable atomic.Uint64 // written under mu, so that poison freezes it
	last    atomic.Uint64

	// left counts the calls that gave up while the committer had their request;
	// settled is how many of them are known to have been answered since. See Sync.
	left, settled atomic.Uint64

	// mu guards the state of the committer that other goroutines read.
	mu struct {
		sync.Mutex
		cur     *logFile // nil before the first commit and after Rotate
		pos     Position // behind the last committed record, sync marks excluded
		applied Position // pos as of the last Apply that returned
		poison  error    // set once
		lag     lag
	}

	c         committer
	turn      chan struct{}  // capacity 1: the token of committer; closed when the queue is drained
	workers   sync.WaitGroup // the two committer goroutines
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
	l.durableMark.mu.lsn = opts.Start.NextLSN - 1
	l.durableMark.fs, l.durableMark.dir, l.durableMark.origin = opts.FS, opts.Dir, opts.Origin
	l.mu.pos, l.mu.applied = opts.Start, opts.Start
	l.durable.Store(uint64(opts.Start.NextLSN - 1))
	l.last.Store(uint64(opts.Start.NextLSN - 1))
	l.c.init(opts.Start)
	l.prealloc = newPreallocator(l)
	if opts.Mode != SyncAlways && !opts.Inline {
		l.syn = newSyncer(l)
	}
	l.turn <- struct{}{}
	l.workers.Go(l.run)
	l.workers.Go(l.run)
	return l, nil
}

func randomSalt() uint64 { return rand.Uint64() }

var errNoPrepare = errors.New("commit: a record needs Prepare")

// Commit appends r and returns when it is committed: applied, and durable if the mode
// says so.
//
// Cancelling ctx ends the wait, not the write. If r was still queued it is withdrawn,
// nothing is written, and the error is that of ctx alone. If the committer had taken
// it, the error also matches fault.ErrOutcomeUnknown, and the log may go on using r.
//
// Other errors are those of Prepare; fault.ErrTooLarge; fault.ErrDiskFull (nothing
// was written, and the next call may succeed); fault.ErrPoisoned (after a failed sync
// the record may yet be found at the next open); fault.ErrClosed.
//
// If ctx cannot be cancelled, the log is idle, and the last batch was a single record or
// there was none, all this happens on the caller's goroutine, the log's callbacks
// included.
func (l *Log) Commit(ctx context.Context, r *Record) error {
	if r == nil || r.Prepare == nil {
		return errNoPrepare
	}
	return l.submit(ctx, newRequest(r, controlNone))
}

// CommitAll is Commit of several records together. They are committed in order and, as far as they fit
// into a batch, with one write. When one of them is not committed, none behind it is. It returns how
// many were committed, and the error of the next one. If that error matches fault.ErrOutcomeUnknown,
// the outcome of those behind it is unknown as well.
func (l *Log) CommitAll(ctx context.Context, rs []*Record) (int, error) {
	for _, r := range rs {
		if r == nil || r.Prepare == nil {
			return 0, errNoPrepare
		}
	}
	if len(rs) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := l.poisoned(); err != nil {
		return 0, err
	}
	reqs := make([]*request, len(rs))
	for i, r := range rs {
		if reqs[i] = newRequest(r, controlNone); i > 0 {
			reqs[i].before = reqs[i-1]
		}
	}
	err := l.q.push(ctx, reqs...)
	n := 0
	if err == nil {
		last := reqs[len(reqs)-1]
		select {
		case err := <-last.done: // all others were answered before
			last.done <- err
		case <-ctx.Done():
			return l.leave(ctx, reqs)
		}
		n, _, err = answers(reqs)
	}
	return n, err
}

// leave gives up a CommitAll. Requests that the committer has taken are left to it.
func (l *Log) leave(ctx context.Context, reqs []*request) (int, error) {
	taken := len(reqs)
	for taken > 0 && l.q.withdraw(reqs[taken-1]) { // the last first, so that no gap comes to be
		taken--
	}
	n, all, err := answers(reqs[:taken])
	switch {
	case err != nil || n == len(reqs):
		return n, err
	case !all:
		l.left.Add(1)
		return n, fmt.Errorf("commit: %w: %w", fault.ErrOutcomeUnknown, ctx.Err())
	}
	return n, fmt.Errorf("withdrawn from the log queue: %w", ctx.Err())
}

// answers takes the answers that reqs have: how many were committed, whether all are
// answered, and the first error.
func answers(reqs []*request) (n int, all bool, first error) {
	for _, r := range reqs {
		select {
		case err := <-r.done:
			if err != nil && first == nil {
				first = err
			} else if err == nil {
				n++
			}
		default:
			return n, false, first
		}
	}
	return n, true, first
}

// Rotate finishes the current file: it is synced, marked as complete and closed. The next
// commit begins a new file. A log without records since the last rotation is left as
// it is.
func (l *Log) Rotate(ctx context.Context) error {
	return l.submit(ctx, newRequest(nil, controlRotate))
}

// Sync makes durable what was committed before. When it returns nil, every call that returned before
// Sync was called has had its final effect: its records are either applied and durable, or will never
// appear, even if its outcome was unknown when it returned.
func (l *Log) Sync(ctx context.Context) error {
	if left := l.left.Load(); left > l.settled.Load() {
		// The committer has the requests of these calls. It answers them before it
		// takes one that is queued now.
		if err := l.submit(ctx, newRequest(nil, controlSync)); err != nil {
			return err
		}
		l.noteSettled(left)
		return nil
	}
	switch {
	case l.syn != nil:
		return l.syn.barrier(ctx)
	case l.opts.Mode != SyncAlways:
		return l.submit(ctx, newRequest(nil, controlSync))
	}
	if l.q.isClosed() {
		return fault.ErrClosed
	}
	if l.durable.Load() < l.last.Load() || l.opts.Replicate != nil { // Deferred records; what is not replicated
		return l.submit(ctx, newRequest(nil, controlSync))
	}
	// Each applied batch was synced before it was applied.
	return l.checkGuard()
}

// checkGuard is the rest of a Sync that has nothing to sync: it checks that durable data is still where
// the next Open will look for it, and waits until it is replicated.
func (l *Log) checkGuard() error {
	if err := l.poisoned(); err != nil {
		return err
	}
	err := l.opts.Guard()
	if vfs.Unreadable(err) {
		return fmt.Errorf("sync: %w", err) // nobody saw anything wrong, and nothing was written
	}
	if err == nil {
		err = l.checkCurrent()
	}
	if err != nil {
		return l.fail("sync", err)
	}
	return l.replicate(l.DurableLSN())
}

// checkCurrent checks that the current file is still there, and whole.
func (l *Log) checkCurrent() error {
	f, _ := l.hold()
	if f == nil {
		return nil
	}
	defer f.busy.Done()
	err := f.checkWhole()
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.cur != f {
			return nil // it was finished meanwhile, and may be flushed and removed
		}
	}
	return err
}

// noteSettled records that the first n calls that gave up have been answered since.
func (l *Log) noteSettled(n uint64) {
	for {
		was := l.settled.Load()
		if was >= n || l.settled.CompareAndSwap(was, n) {
			return
		}
	}
}

// submit hands r to the committer and waits for the answer, or becomes the committer.
func (l *Log) submit(ctx context.Context, r *request) error {
	err := ctx.Err()
	if err == nil {
		err = l.poisoned()
	}
	// A caller that can be cancelled must not be held up by a device that hangs.
	if err == nil && ctx.Done() == nil && r.rec != nil && l.q.takeLoan(r) {
		l.commitAlone(r)
		return <-r.done
	}
	if err == nil {
		err = l.q.push(ctx, r)
	}
	if err != nil {
		return err
	}
	select {
	case err = <-r.done:
		return err
	case <-ctx.Done():
	}
	if l.q.withdraw(r) {
		return fmt.Errorf("nothing was written: withdrawn from the log queue: %w", ctx.Err())
	}
	select {
	case err = <-r.done:
		return err
	default:
		// The committer will still answer into r.done: r is left to it.
		l.left.Add(1)
		return fmt.Errorf("commit: %w: %w", fault.ErrOutcomeUnknown, ctx.Err())
	}
}

// DurableLSN is the LSN up to which records are known to survive power loss. It may include a batch
// that was not passed to Apply yet. It never advances once the log is poisoned.
func (l *Log) DurableLSN() base.LSN { return base.LSN(l.durable.Load()) }

// LastLSN is the LSN of the last committed record; 0 in an empty log.
func (l *Log) LastLSN() base.LSN { return base.LSN(l.last.Load()) }

// Position returns the place behind the last record that was passed to Apply. Once DurableLSN has
// reached its NextLSN-1, Recover can start reading there.
func (l *Log) Position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.applied
}

// Close commits queued records, syncs, writes the close mark, cuts off the zeros written ahead and
// closes the file. Later calls return fault.ErrClosed; a second Close returns what the first did. A
// poisoned log returns its poison: its file gets no close mark, and the next open treats it as one that
// crashed.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.q.close()
		l.workers.Wait()
		if l.syn != nil {
			l.syn.close()
		}
		l.prealloc.close()
		l.closeErr = l.finish()
	})
	return l.closeErr
}

// finish ends the log once all its goroutines have.
func (l *Log) finish() error {
	err := l.poisoned()
	if err == nil {
		err = l.finishFile()
	}
	l.prealloc.discardSpare()
	if n := l.c.next; n != nil && err == nil {
		// It holds no record, and the manifest does not name it. If the removal is
		// lost, the next open sweeps it.
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
		l.prealloc.retire(cur)
	}
	l.prealloc.flushRetired()
	l.durableMark.close()
	return err
}

// Poison is the reason why the log refuses all writes; nil if it does not.
func (l *Log) Poison() error { return l.poisoned() }

// poisoned returns the poison, or nil.
func (l *Log) poisoned() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.poison
}

// setPoison poisons the log, unless it is poisoned already. It returns the poison and
// whether this call set it. If so, the caller passes both to announcePoison when it
// holds no lock.
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
	if first && errors.Is(err, fault.ErrCorrupt) {
		l.markLost()
	}
	if first && l.opts.Events.Poisoned != nil {
		l.opts.Events.Poisoned(err)
	}
}

// advanceDurable records that everything up to lsn is durable, unless the log is
// poisoned. The sync that made it so began at began, when unsynced bytes were not
// durable.
func (l *Log) advanceDurable(lsn base.LSN, began time.Time, unsynced int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poison == nil && lsn > base.LSN(l.durable.Load()) {
		l.durable.Store(uint64(lsn))
		l.mu.lag.synced(uint64(lsn) >= l.last.Load(), began, unsynced)
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

// lag is how far durability is behind commits. Log.mu guards it.
type lag struct {
	bytes int64
	since time.Time // when the oldest record that is not durable was written; zero if all are
}

// wrote counts a batch that ends with record last.
func (g *lag) wrote(last, durable uint64, bytes int64) {
	if last <= durable {
		return
	}
	g.bytes += bytes
	if g.since.IsZero() {
		g.since = time.Now()
	}
}

// synced subtracts the bytes that a sync made durable: all, or those that were unsynced when it began.
// The rest was written since.
func (g *lag) synced(all bool, began time.Time, unsynced int64) {
	if all {
		*g = lag{}
		return
	}
	g.bytes, g.since = max(0, g.bytes-unsynced), began
}

// Lag says how far durability is behind commits now. It never waits for I/O.
func (l *Log) Lag() metrics.Lag {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, durable := l.last.Load(), l.durable.Load()
	if last <= durable {
		return metrics.Lag{}
	}
	g := metrics.Lag{Records: last - durable, Bytes: l.mu.lag.bytes}
	if !l.mu.lag.since.IsZero() {
		g.Age = time.Since(l.mu.lag.since)
	}
	return g
}

// unsynced returns how many committed bytes are not durable.
func (l *Log) unsynced() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lag.bytes
}

// counters are the numbers that Metrics reads.
type counters struct {
	records, batches, bytes, refused   atomic.Int64
	syncs, syncNanos                   atomic.Int64
	batchSize                          [metrics.BatchBuckets]atomic.Int64
	syncTime                           [metrics.SyncBuckets]atomic.Int64
	syncMarks, rotations, preallocated atomic.Int64
}

func (c *counters) batch(records int) {
	c.batches.Add(1)
	c.batchSize[min(bits.Len(uint(records-1)), metrics.BatchBuckets-1)].Add(1)
}

func (c *counters) sync(took time.Duration) {
	c.syncs.Add(1)
	c.syncNanos.Add(int64(took))
	b := bits.Len64(uint64(took.Microseconds()))
	c.syncTime[min(b, metrics.SyncBuckets-1)].Add(1)
}

// Metrics returns the counters of the log. It never waits for I/O.
func (l *Log) Metrics() metrics.LogMetrics {
	c := &l.count
	m := metrics.LogMetrics{
		Records:      c.records.Load(),
		Batches:      c.batches.Load(),
		Bytes:        c.bytes.Load(),
		Refused:      c.refused.Load(),
		Syncs:        c.syncs.Load(),
		SyncTotal:    time.Duration(c.syncNanos.Load()),
		Marks:        c.syncMarks.Load(),
		Rotations:    c.rotations.Load(),
		Preallocated: c.preallocated.Load(),
	}
	m.QueueDepth, m.QueueBytes = l.q.load()
	for i := range c.batchSize {
		m.BatchSize[i] = c.batchSize[i].Load()
	}
	for i := range c.syncTime {
		m.SyncTime[i] = c.syncTime[i].Load()
	}
	return m
}
