package wal

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
)

// batch is a run of records that are written and synced together.
type batch struct {
	reqs    []*request
	records []*Record // of reqs
	refused []refusal // answered when the fate of the batch is known
	bytes   int64     // of the frames
	made    frames    // of the first records

	// Set when the batch is written.
	file *logFile
	end  Position // behind its last record
}

// refusal is a request that Prepare refused, perhaps for what a record before it
// did that is not committed yet.
type refusal struct {
	r   *request
	err error
}

// deferred reports whether nobody waits for the batch to be durable.
func (b *batch) deferred() bool {
	return !slices.ContainsFunc(b.records, func(r *Record) bool { return !r.Deferred })
}

// answerRefused answers what was decided upon the batch, or upon those before it. A
// decision upon records that were not committed does not count: it gets their error.
func (b *batch) answerRefused(fate error) {
	for _, d := range b.refused {
		if fate != nil {
			d.err = fate
		}
		d.r.finish(d.err)
	}
	clear(b.refused)
	b.refused = b.refused[:0]
}

// collect prepares first, if it is not nil, and what is queued behind it, until the
// batch is full or the queue is empty. A record refused on the way is answered at
// once if nothing stands before it that is not published, else with the batch: it
// was decided upon records that nobody may know of before they are committed.
func (l *Log) collect(first *request) {
	c := &l.w
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
		switch err := l.prepare(r); {
		case err == nil:
		case len(b.reqs) == 0 && c.air == nil && c.landed == nil:
			r.finish(err)
		default:
			b.refused = append(b.refused, refusal{r, err})
		}
	}
}

// prepare asks r for its bytes and adds it to the batch.
func (l *Log) prepare(r *request) error {
	b := l.w.batch
	if err := l.admit(r.rec); err != nil {
		return err
	}
	parts, err := r.rec.Prepare(l.w.lsn + base.LSN(len(b.reqs)))
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
		return fmt.Errorf("record of %d bytes, the limit is %d: %w", n, base.MaxRecord, fault.ErrTooLarge)
	}
	r.parts, r.size = parts, n
	b.reqs = append(b.reqs, r)
	b.records = append(b.records, r.rec)
	b.bytes += l.frameSize(n)
	return nil
}

// frameSize is what a payload of n bytes occupies in a file of this log.
func (l *Log) frameSize(n int64) int64 {
	if l.opts.Keys != nil {
		n = seal.SealedLen(n)
	}
	return frameSize(n)
}

// publish makes a batch visible and wakes its callers. Its bytes are written, and
// durable if the mode says so.
func (l *Log) publish(b *batch) {
	if l.opts.Inline {
		// Before the callers wake, or what they do next goes on beside it.
		l.prep.afterBatch(b.file, b.bytes)
	}
	n := len(b.reqs)
	l.w.alone = n == 1
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
		l.prep.afterBatch(b.file, b.bytes)
	}
	l.w.recycle(b)
}

// refuse answers a batch that was prepared and is not committed. The LSNs go to
// the next batch.
func (l *Log) refuse(b *batch, err error) {
	l.count.refused.Add(int64(len(b.reqs)))
	if isNoSpace(err) && l.poisoned() == nil {
		l.noteFull(err)
	}
	if len(b.records) > 0 {
		l.opts.Abort(b.records)
	}
	for _, r := range b.reqs {
		r.finish(err)
	}
	b.answerRefused(err)
	l.w.recycle(b)
}
