package wal

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
)

// committer is the state of the committer goroutine.
type committer struct {
	start Start    // where the next file continues while there is no current one
	lsn   base.LSN // of the next record
	next  *logFile // header durable, OnCreate refused: to be tried again

	batch   []*request
	records []*Record
	refused []refusal // answered when the fate of the batch is known
	bytes   int64     // frame bytes of the batch

	buf    []byte  // small parts of the batch, joined
	pieces []piece // the batch as it goes to the file
	idle   *time.Timer

	full       bool  // the last batch found no space
	low        bool  // free space was below the reserve when last asked
	lowSpace   bool  // it was below the watermark
	sinceAsked int64 // bytes committed since then
}

// refusal is a request that Prepare refused, perhaps for what a record of the
// same batch did.
type refusal struct {
	r   *request
	err error
}

func (c *committer) init(start Start) {
	c.start, c.lsn = start, start.NextLSN
	c.idle = time.NewTimer(time.Hour)
	c.idle.Stop()
	c.low = true // ask before the first record
}

// run is the committer goroutine: it serves the queue until it is closed and
// empty.
func (l *Log) run() {
	defer close(l.done)
	defer l.w.idle.Stop()
	for {
		r := l.q.pop(0, true)
		switch {
		case r == nil && l.q.drained():
			return
		case r == nil:
			select {
			case <-l.q.wake:
			case <-l.w.idle.C:
				l.idleMark()
			}
		case r.control == controlNone:
			l.commitBatch(r)
		default:
			r.finish(l.control(r.control))
		}
	}
}

func (l *Log) control(kind controlKind) error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if kind == controlRotate {
		return l.seal()
	}
	if f := l.mu.cur; f != nil && f.synced.Load() < f.end {
		return l.syncFile(f, f.end, l.w.lsn-1)
	}
	return nil
}

// commitBatch commits first and what else is queued and fits.
func (l *Log) commitBatch(first *request) {
	c := &l.w
	l.collect(first)
	if len(c.batch) == 0 {
		return
	}
	f, err := l.fileFor(c.bytes)
	if err == nil {
		err = l.writeBatch(f)
	}
	if err == nil && l.opts.Mode == SyncAlways && !c.deferred() {
		err = l.syncFile(f, f.end, c.lsn+base.LSN(len(c.batch))-1)
	}
	if f != nil && l.opts.Inline {
		// Before the callers wake, or what they do next goes on beside it.
		l.prep.afterBatch(f)
	}
	if err != nil {
		l.refuse(err)
	} else {
		l.publish(f)
	}
	l.answerRefused(err)
	// Neither records nor their bytes may be kept alive by the next batch.
	clear(c.batch)
	clear(c.records)
	clear(c.pieces)
	c.batch, c.records, c.pieces, c.bytes = c.batch[:0], c.records[:0], c.pieces[:0], 0
	if cap(c.buf) > 4*maxBatchBytes {
		c.buf = nil
	}
	if f != nil && !l.opts.Inline {
		l.prep.afterBatch(f)
	}
}

// deferred reports whether nobody waits for the batch to be durable.
func (c *committer) deferred() bool {
	return !slices.ContainsFunc(c.records, func(r *Record) bool { return !r.Deferred })
}

// collect prepares first and its followers until the batch is full or the queue
// is empty. A record refused on the way is answered at once if nothing stands
// before it in the batch, else with the batch: it was decided upon records that
// nobody may know of before they are committed.
func (l *Log) collect(first *request) {
	c := &l.w
	limit := min(maxBatchBytes, l.opts.FileSize)
	for r := first; r != nil; r = l.q.pop(limit-c.bytes, false) {
		switch err := l.prepare(r); {
		case err == nil:
		case len(c.batch) == 0:
			r.finish(err)
		default:
			c.refused = append(c.refused, refusal{r, err})
		}
		if len(c.batch) == maxBatchRecords || c.bytes >= limit {
			return
		}
	}
}

// prepare asks r for its bytes and adds it to the batch.
func (l *Log) prepare(r *request) error {
	c := &l.w
	if err := l.admit(r.rec); err != nil {
		return err
	}
	parts, err := r.rec.Prepare(c.lsn + base.LSN(len(c.batch)))
	if err != nil {
		return err
	}
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	if n > base.MaxRecord {
		// Prepared, so the owner must hear that it will not be written, and
		// before it prepares the next one on top of it.
		l.count.refused.Add(1)
		l.opts.Abort([]*Record{r.rec})
		return fmt.Errorf("record of %d bytes, the limit is %d: %w", n, base.MaxRecord, base.ErrTooLarge)
	}
	r.parts, r.size = parts, n
	c.batch = append(c.batch, r)
	c.records = append(c.records, r.rec)
	c.bytes += l.frameSize(n)
	return nil
}

// frameSize is what a payload of n bytes occupies in a file of this log.
func (l *Log) frameSize(n int64) int64 {
	if l.opts.Keys != nil {
		n = seal.SealedLen(n)
	}
	return frameSize(n)
}

// reserveStep is how many bytes are committed between two looks at the free
// space of the device.
const reserveStep = 256 << 10

// admit refuses a record before it is prepared.
func (l *Log) admit(r *Record) error {
	if err := l.poisoned(); err != nil {
		return err
	}
	if l.opts.Reserve == 0 && l.opts.LowSpace == 0 {
		return nil
	}
	c := &l.w
	if c.low || c.sinceAsked >= reserveStep {
		free, err := l.opts.FS.FreeSpace(l.opts.Dir)
		if err != nil {
			// Not knowing is no reason to refuse: a full device says so itself.
			free = max(l.opts.Reserve, l.opts.LowSpace)
		}
		c.low, c.sinceAsked = free < l.opts.Reserve, 0
		l.noteSpace(free)
	}
	if !c.low || r.Urgent {
		return nil
	}
	err := fmt.Errorf("less than %d bytes are free: %w", l.opts.Reserve, base.ErrDiskFull)
	l.noteFull(err)
	return err
}

// noteSpace reports that free space fell below the watermark, once until it was
// above it again.
func (l *Log) noteSpace(free int64) {
	low := free < l.opts.LowSpace
	if low && !l.w.lowSpace && l.opts.Events.LowSpace != nil {
		l.opts.Events.LowSpace(free)
	}
	l.w.lowSpace = low
}

func (l *Log) noteFull(err error) {
	if !l.w.full && l.opts.Events.DiskFull != nil {
		l.opts.Events.DiskFull(err)
	}
	l.w.full = true
}

// publish makes the batch visible and wakes its callers. Its bytes are written,
// and durable if the mode says so.
func (l *Log) publish(f *logFile) {
	c := &l.w
	n := len(c.batch)
	c.lsn += base.LSN(n)
	c.full = false
	c.sinceAsked += c.bytes
	l.mu.Lock()
	l.mu.pos = Start{NextLSN: c.lsn, File: f.info.Num, Offset: f.end, Chain: f.chain}
	l.last.Store(uint64(c.lsn - 1))
	l.mu.lag.wrote(uint64(c.lsn-1), l.durable.Load(), c.bytes)
	l.mu.Unlock()
	l.count.batch(n)
	l.count.records.Add(int64(n))
	l.count.bytes.Add(c.bytes)
	l.opts.Apply(c.records)
	l.mu.Lock()
	l.mu.applied = l.mu.pos
	l.mu.Unlock()
	if l.syn != nil {
		l.syn.wrote()
	}
	for _, r := range c.batch {
		r.finish(nil)
	}
	l.armIdle()
	if n > 1 && l.opts.Mode == SyncAlways {
		// Let the callers just woken queue their next records before the next
		// batch is cut, or the log settles into two half batches that wait for
		// each other's sync.
		runtime.Gosched()
	}
}

// refuse answers a batch that was prepared and is not committed. The LSNs go to
// the next batch.
func (l *Log) refuse(err error) {
	c := &l.w
	l.count.refused.Add(int64(len(c.batch)))
	if isNoSpace(err) && l.poisoned() == nil {
		l.noteFull(err)
	}
	l.opts.Abort(c.records)
	for _, r := range c.batch {
		r.finish(err)
	}
}

// answerRefused answers what was decided upon the batch. A decision upon records
// that were not committed does not count: it gets their error.
func (l *Log) answerRefused(batch error) {
	c := &l.w
	for _, d := range c.refused {
		if batch != nil {
			d.err = batch
		}
		d.r.finish(d.err)
	}
	clear(c.refused)
	c.refused = c.refused[:0]
}
