package wal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

// committer is the commit pipeline. It turns the records that callers queue into commits: durable,
// visible, and in one order.
//
//	queue → prepare → write → sync → publish → wake
//
// # Stages
//
// Queue. [Log.Commit] appends a request to a bounded queue and waits for the answer. The order of the
// queue is the order of commits.
//
// Prepare. The committer takes what is queued as one batch and asks each record for its bytes
// ([Record.Prepare]). These calls come one at a time and in commit order, so the owner of the log can
// decide there, without a lock, on the strength of everything that was committed before: check a
// condition, refuse the record, or choose what to log. A refused record gets no LSN.
//
// Write. The frames of the batch are written one behind the other, with one write unless they are
// large. Each of them promises what is durable at that moment, which is everything up to the end of the
// batch before (see Recover for what promises are for).
//
// Sync. In SyncAlways one sync makes the whole batch durable. A check follows that the store still has
// its lock and the file its name: what is acknowledged must be where the next Open will look for it.
// Then the durable mark is written, and Options.Replicate gets the records.
//
// Publish. Options.Apply makes the batch visible to readers, and only then do its callers wake. Data
// that a crash could still take back is never read or built upon, except by the batch that follows it
// in this pipeline.
//
// # Two goroutines
//
// One goroutine that took each batch through all stages left the processor idle during syncs, and the
// device idle between them. So two goroutines take turns, and Log.turn is the token they pass. The one
// that has the turn prepares and writes a batch; then it gives the turn away and syncs. Meanwhile the
// other one publishes the batch before that, prepares the next and builds its frames. It does not write
// them until the sync has ended. If it did, two batches would lie at the end of the log that nothing
// promises, and Recover could not tell damage in the first of them from a torn write.
//
// Batches form by themselves: what is queued during one sync is the next batch, and no timer is needed.
// Left alone, though, callers split into two groups, one of which is prepared while the other is
// synced, and each sync serves half of them. Where callers come back quickly it is better to wait for
// all: see pace.
//
// # The caller as committer
//
// A lone caller gains nothing from a second goroutine, and pays for waking it and for being woken. So
// while the log is idle the goroutine that has the turn offers to lend it, and Commit borrows it and
// runs the same stages on the caller's goroutine: see commitAlone. It does not if the context can be
// cancelled, since a caller in a sync cannot return before the device does, nor after a batch of
// several records, when company is likely and committing alone would make batches smaller.
// docs/adr/0017-leading-caller.md has the figures.
//
// # Errors
//
// A record that Prepare refuses fails alone. It is answered immediately, unless records that are not
// published yet stand before it: the refusal may be due to one of them, so it is held back, and if they
// fail it fails with their error.
//
// A batch that finds no space fails as a whole. What was written of it is cut off, durably, before
// anyone is told, because its LSNs go to the next batch (undo).
//
// After any other failed write, and any failed sync, nobody knows what is on the device, and a second
// sync would report success for pages the kernel has dropped. The log is poisoned: it fails that batch,
// the one prepared upon it, and all later calls. Records of the failed batch may still be found at the
// next open.
//
// # A crash
//
//   - before the write: nothing of the batch is in the log;
//   - during the write or the sync: the log may end with any part of the batch. A
//     frame that is not whole is a torn tail, which Recover cuts off. Frames that
//     are whole are kept, although nobody was told of them, and CopyEnd copies
//     them so that they do not depend on the page cache;
//   - between the sync and the answer: the batch is in the log, and is replayed;
//   - during a rotation: see openNext.
//
// # Ownership
//
// The fields below belong to whoever has Log.turn, or to the caller it is lent to. A batch that is
// being synced belongs to the goroutine that syncs it until its result is in syncDone. The turn is
// offered only when that result was taken and the callers of the batch have their answers, so no batch
// of the other goroutine is in work while a caller leads. What other goroutines may ask of the log's
// state is copied to Log.mu.
type committer struct {
	start Position // where the next file continues while there is no current one
	lsn   base.LSN // of the next record to be written
	next  *logFile // the next file, while the manifest could not be told of it

	batch      *batch     // being prepared
	syncing    *batch     // written; the other goroutine syncs it
	synced     *batch     // as durable as it needs to be; to be published
	syncDone   chan error // capacity 1: the result of the sync of syncing
	syncBegan  time.Time  // when that began
	free       []*batch   // empty, to be used again
	deferredAt time.Time  // when the first batch with a deferred sync that has not begun was written; zero: none
	deferred   base.LSN   // the last record of that batch
	gather     bool       // the next batch waits for callers of the last; see pace
	lone       bool       // the last batch was a single record, or there was none

	buf    []byte  // the frames of one batch, but for large records
	pieces []piece // that batch in the order of the file
	idle   *time.Timer

	full       bool  // the last batch found no space
	low        bool  // free space was below Options.Reserve when last checked
	lowSpace   bool  // it was below Options.LowSpace
	sinceAsked int64 // bytes committed since then
}

func (c *committer) init(start Position) {
	c.start, c.lsn = start, start.NextLSN
	c.batch, c.syncDone = &batch{}, make(chan error, 1)
	c.idle = time.NewTimer(time.Hour)
	c.idle.Stop()
	c.low = true // ask before the first record
	c.lone = true
}

// batch is a run of records that share one write and one sync.
type batch struct {
	reqs    []*request
	records []*Record // of reqs
	refused []refusal // held back until the fate of the batch is known
	callers int       // who wait for reqs
	bytes   int64     // of the frames
	framed  frames    // those built so far

	// Set by writeBatch.
	file *logFile
	end  Position // behind its last record
}

// refusal is a request that Prepare refused, and the error to answer it with.
type refusal struct {
	r   *request
	err error
}

// deferred reports whether all records of the batch are Deferred, so that it needs
// no sync.
func (b *batch) deferred() bool {
	return !slices.ContainsFunc(b.records, func(r *Record) bool { return !r.Deferred })
}

// answerRefused answers the refusals that were held back: with their own errors if the records before
// them are committed, otherwise with the error of those.
func (b *batch) answerRefused(failed error) {
	for _, d := range b.refused {
		if failed != nil {
			d.err = failed
		}
		d.r.finish(d.err)
	}
	clear(b.refused)
	b.refused = b.refused[:0]
}

// newBatch returns an empty batch.
func (c *committer) newBatch() *batch {
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	return &batch{}
}

// recycle takes back a batch whose callers have their answers. It drops all
// references, so that no record is kept alive by the batch that comes next.
func (c *committer) recycle(b *batch) {
	clear(b.reqs)
	clear(b.records)
	clear(b.refused)
	*b = batch{reqs: b.reqs[:0], records: b.records[:0], refused: b.refused[:0]}
	c.free = append(c.free, b)
}

// run is the loop of each of the two committer goroutines.
func (l *Log) run() {
	for range l.turn {
		b := l.serve()
		if b == nil {
			l.c.idle.Stop()
			close(l.turn)
			return
		}
		l.turn <- struct{}{}
		l.c.syncDone <- l.syncBatch(b)
	}
}

// serve commits batches until one can be synced while the other goroutine continues, and returns that
// batch. It returns nil when the queue is closed and empty.
func (l *Log) serve() *batch {
	c := &l.c
	for {
		l.publishSynced()
		if c.syncing != nil {
			l.prepareDuringSync()
			continue
		}
		if len(c.batch.reqs) == 0 {
			c.batch.answerRefused(nil)
			if !l.fill() {
				return nil
			}
		}
		if len(c.batch.reqs) > 0 && l.commitBatch(false) {
			return c.syncing
		}
	}
}

// fill waits for a record and prepares a batch that begins with it. Rotations and
// syncs that are queued before it are served on the way. It reports false when the
// queue is closed and empty.
func (l *Log) fill() bool {
	for {
		r := l.q.pop(0, true)
		switch {
		case r == nil && l.q.drained():
			return false
		case r == nil:
			l.rest()
		case r.control == controlNone:
			l.collect(r)
			return true
		default:
			r.finish(l.control(r.control))
		}
	}
}

// control rotates or syncs, with nothing unpublished before it.
func (l *Log) control(kind controlKind) error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if kind == controlRotate {
		return l.finishFile()
	}
	if f := l.mu.cur; f != nil && f.synced.Load() < f.end {
		return l.syncFile(f, f.end, l.c.lsn-1)
	}
	return l.checkGuard()
}

// collect prepares first, unless it is nil, and then the queued records, until the batch is full or the
// queue is empty.
func (l *Log) collect(first *request) {
	c := &l.c
	b := c.batch
	limit := min(maxBatchBytes, l.opts.FileSize)
	for r := first; ; r = nil {
		if r == nil {
			if len(b.reqs) == maxBatchRecords || b.bytes >= limit {
				return
			}
			if r = l.q.pop(limit-b.bytes, false); r == nil {
				return
			}
		}
		err := l.prepare(r)
		r.failed = err != nil
		switch {
		case err == nil:
		case len(b.reqs)+len(b.refused) == 0 && c.syncing == nil && c.synced == nil: // else answers keep their order
			r.finish(err)
		default:
			b.refused = append(b.refused, refusal{r, err})
		}
	}
}

// prepare asks r for its bytes and adds it to the batch.
func (l *Log) prepare(r *request) error {
	b := l.c.batch
	if r.before != nil && r.before.failed {
		return errBefore
	}
	if err := l.admit(r.rec); err != nil {
		return err
	}
	parts, err := r.rec.Prepare(l.c.lsn + base.LSN(len(b.reqs)))
	if err != nil {
		return err
	}
	n := partsLen(parts)
	if n > base.MaxRecord {
		// The owner must hear that a record it prepared will not be written before
		// it prepares another on top of it.
		l.count.refused.Add(1)
		l.opts.Abort([]*Record{r.rec})
		return fmt.Errorf("record of %d bytes, the limit is %d: %w", n, base.MaxRecord, fault.ErrTooLarge)
	}
	r.parts, r.size = parts, n
	b.reqs = append(b.reqs, r)
	b.records = append(b.records, r.rec)
	b.bytes += l.frameSize(n)
	if r.before == nil {
		b.callers++
	}
	return nil
}

// errBefore refuses a record of CommitAll behind one that is not committed.
var errBefore = errors.New("the record before it was not committed")

// frameSize returns how many bytes a payload of n bytes takes in a file of this log.
func (l *Log) frameSize(n int64) int64 {
	if l.opts.Keys != nil {
		n = seal.SealedLen(n)
	}
	return frameSize(n)
}

// prepareDuringSync prepares queued records while the batch before is synced, and returns when that
// sync has ended.
func (l *Log) prepareDuringSync() {
	c := &l.c
	grew := c.syncBegan // when the batch last grew
	for {
		n := len(c.batch.reqs)
		l.collect(nil)
		if len(c.batch.reqs) > n {
			grew = time.Now()
			if l.fits(c.batch.bytes) {
				c.frameDuringSync()
			}
		}
		select {
		case <-l.q.wake:
		case err := <-c.syncDone:
			l.finishSync(err, grew)
			return
		}
	}
}

// finishSync passes a batch on when the other goroutine has synced it. If the sync
// failed, the batch prepared meanwhile fails with it: it was decided upon records
// that are lost.
func (l *Log) finishSync(err error, grew time.Time) {
	c := &l.c
	b := c.syncing
	c.syncing = nil
	if err == nil {
		c.synced = b
		l.pace(b.callers, grew)
		return
	}
	l.failBatch(b, err)
	l.failBatch(c.batch, err)
	c.batch = c.newBatch()
	clear(c.pieces)
	c.pieces = c.pieces[:0]
}

// pace decides whether the batch that was prepared during a sync of n records waits
// for the callers of those n, who are about to be answered.
//
// Not waiting keeps the device busy, but with two or more groups of callers in turn,
// each sync serves one group alone. Waiting is right if the callers are back sooner
// than one more sync would cost. That cost is the part of a sync that does not
// depend on its size, for which half of the last sync stands. How soon they are back
// is estimated from the callers before them: grew is when the last of these came.
//
// An estimate from a small batch alone made batches grow and shrink by turns. So the
// number of callers goes into it, and having waited, the log measures how long the
// callers really took.
func (l *Log) pace(n int, grew time.Time) {
	c := &l.c
	if n < 2 {
		return
	}
	now := time.Now()
	took := now.Sub(c.syncBegan)
	if !c.gather {
		came := c.batch.callers
		c.gather = came > 0 && grew.Sub(c.syncBegan)*time.Duration(max(n, came))/time.Duration(came) < took/2
		return
	}
	l.publishSynced()
	l.collect(nil)
	c.gather = time.Since(now) < took/2
}

// commitBatch writes the batch that was prepared. True: this goroutine must sync it while the other one
// continues. Otherwise commitBatch syncs the batch itself, if the mode requires it, and the batch waits
// to be published. alone says that a caller commits, which goes through all stages.
func (l *Log) commitBatch(alone bool) bool {
	c := &l.c
	b := c.batch
	if !l.fits(b.bytes) {
		l.publishSynced() // before OnCreate is called for a new file
	}
	f, err := l.fileFor(b.bytes)
	if err == nil {
		err = l.writeBatch(f, b)
	}
	if err == nil && l.syncs(b) {
		c.deferredAt = time.Time{}
		if !alone && !l.opts.Inline && (b.callers > 1 || c.synced != nil || l.q.waiting()) {
			c.batch, c.syncing, c.syncBegan = c.newBatch(), b, time.Now()
			return true
		}
		err = l.syncBatch(b)
	} else if err == nil {
		if rerr := l.checkReachable(f, b.end.Offset); rerr != nil {
			err = l.fail("after the write to log "+f.info.Num.String(), rerr)
		}
	}
	c.batch = c.newBatch()
	l.publishSynced()
	if err == nil {
		c.synced = b // published next, by serve or commitAlone
		return false
	}
	if f != nil {
		l.prealloc.afterBatch(f, 0)
	}
	l.failBatch(b, err)
	return false
}

// syncs reports whether a written batch is synced before it is published. Deferred records are not,
// unless the first of them has waited for Options.IdleMark: a caller that defers without a pause, as a
// run that streams does, would otherwise never be safe from a power failure.
func (l *Log) syncs(b *batch) bool {
	if l.opts.Mode != SyncAlways || !b.deferred() {
		return l.opts.Mode == SyncAlways
	}
	if l.opts.IdleMark < 0 || l.opts.Inline {
		return false
	}
	c := &l.c
	if c.deferredAt.IsZero() || l.DurableLSN() >= c.deferred { // or the idle log, or a barrier, has synced it
		c.deferredAt, c.deferred = time.Now(), b.end.NextLSN-1
	}
	return time.Since(c.deferredAt) > l.opts.IdleMark
}

// syncBatch makes a written batch durable.
func (l *Log) syncBatch(b *batch) error {
	return l.syncFile(b.file, b.end.Offset, b.end.NextLSN-1)
}

// publishSynced publishes the batch that waits for it, if there is one.
func (l *Log) publishSynced() {
	c := &l.c
	b := c.synced
	if b == nil {
		return
	}
	c.synced = nil
	n := b.callers
	l.publish(b)
	if n > 1 && c.syncing == nil && (c.gather || l.opts.Mode != SyncAlways) {
		// Let the callers just woken queue their next records before the next batch
		// is cut.
		runtime.Gosched()
	}
}

// publish makes a batch visible and wakes its callers.
func (l *Log) publish(b *batch) {
	if l.opts.Inline {
		// Before the callers wake: their next work would run at the same time.
		l.prealloc.afterBatch(b.file, b.bytes)
	}
	n := len(b.reqs)
	l.c.lone = b.callers <= 1
	l.mu.Lock()
	l.mu.pos = b.end
	last := uint64(b.end.NextLSN - 1)
	l.last.Store(last)
	l.mu.lag.wrote(last, l.durable.Load(), b.bytes)
	l.mu.Unlock()
	l.count.batch(n)
	l.count.records.Add(int64(n))
	l.count.bytes.Add(b.bytes)
	l.opts.Apply(b.records)
	l.mu.Lock()
	l.mu.applied = b.end
	l.mu.Unlock()
	if l.syn != nil {
		l.syn.wrote()
	}
	for _, r := range b.reqs {
		r.finish(nil)
	}
	b.answerRefused(nil)
	l.armIdle()
	if !l.opts.Inline {
		l.prealloc.afterBatch(b.file, b.bytes)
	}
	l.c.recycle(b)
}

// failBatch answers a batch that will not be acknowledged. If it found no space, or no
// file, its LSNs go to the next batch. After a poison there is no next batch.
func (l *Log) failBatch(b *batch, err error) {
	l.count.refused.Add(int64(len(b.reqs)))
	if isNoSpace(err) && l.poisoned() == nil {
		l.noteFull(err)
	}
	if len(b.records) > 0 {
		l.opts.Abort(b.records)
	}
	for _, r := range b.reqs {
		r.failed = true // read before it is answered only
		r.finish(err)
	}
	b.answerRefused(err)
	l.c.recycle(b)
}

// rest waits until something is queued, or until the log has been idle for so long
// that it writes a sync mark. While it waits a caller may borrow the turn; what is
// queued behind that caller is served when it gives the turn back.
func (l *Log) rest() {
	l.q.offerLoan(l.c.lone)
	for {
		idle := false
		select {
		case <-l.q.wake:
		case <-l.c.idle.C:
			idle = true
		}
		switch mine := l.q.endOffer(); {
		case mine && idle:
			l.idleMark()
			return
		case mine:
			return
		case idle: // a caller has the turn: ask again later
			l.armIdle()
		}
	}
}

// commitAlone takes r through all stages on its caller's goroutine, after queue.takeLoan.
// While the turn is offered nothing is being prepared, synced or published, so that
// there is nothing else to do.
//
// A callback that panics leaves its work half done, and unlike a committer goroutine,
// which would end the process, the caller may recover. So the log is poisoned.
func (l *Log) commitAlone(r *request) {
	returned := false
	defer func() {
		if !returned {
			l.c.batch, l.c.synced = &batch{}, nil
			_ = l.fail("commit", errPanicked) // the next caller gets the error
		}
		l.q.returnLoan()
	}()
	if err := l.prepare(r); err != nil {
		r.finish(err)
	} else {
		l.commitBatch(true)
		l.publishSynced()
	}
	returned = true
}

var errPanicked = errors.New("a callback did not return")

// reserveStep is how many bytes are committed between two checks of the free space of the device.
const reserveStep = 256 << 10

// admit refuses a record before it is prepared if the log is poisoned, or if space is low and the
// record is not Urgent.
func (l *Log) admit(r *Record) error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if l.opts.Reserve == 0 && l.opts.LowSpace == 0 {
		return nil
	}
	c := &l.c
	if c.low || c.sinceAsked >= reserveStep {
		free, err := l.opts.FS.FreeSpace(l.opts.Dir)
		if err != nil {
			// If the free space is not known, nothing is refused: a full device reports an error
			// itself.
			free = max(l.opts.Reserve, l.opts.LowSpace)
		}
		c.low, c.sinceAsked = free < l.opts.Reserve, 0
		l.noteSpace(free)
	}
	if !c.low || r.Urgent {
		return nil
	}
	err := fmt.Errorf("less than %d bytes are free: %w", l.opts.Reserve, fault.ErrDiskFull)
	l.noteFull(err)
	return err
}

// noteSpace reports that free space fell below Options.LowSpace, and does so again
// only after it rose above.
func (l *Log) noteSpace(free int64) {
	low := free < l.opts.LowSpace
	if low && !l.c.lowSpace && l.opts.Events.LowSpace != nil {
		l.opts.Events.LowSpace(free)
	}
	l.c.lowSpace = low
}

// noteFull reports the first refusal for want of space since the last batch was
// written.
func (l *Log) noteFull(err error) {
	if !l.c.full && l.opts.Events.DiskFull != nil {
		l.opts.Events.DiskFull(err)
	}
	l.c.full = true
}
