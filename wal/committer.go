package wal

import (
	"fmt"
	"runtime"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
)

// committer is the state of the commit path. It belongs to the committer that has
// the turn, see run, but while that waits for a caller who leads; see lead.
type committer struct {
	start Position // where the next file continues while there is no current one
	lsn   base.LSN // of the next record to be written
	next  *logFile // header durable, OnCreate refused: to be tried again

	batch  *batch     // being collected
	air    *batch     // in the air: written, its sync under way
	landed *batch     // committed, and not yet published
	spare  []*batch   // empty ones
	fate   chan error // capacity 1: how the sync of air ended
	began  time.Time  // when it began
	gather bool       // see pace
	alone  bool       // the last batch was one record, or there was none yet

	buf    []byte  // small parts of the batch, joined: of the last that got a frame
	pieces []piece // that batch as it goes to the file
	idle   *time.Timer

	full       bool  // the last batch found no space
	low        bool  // free space was below the reserve when last asked
	lowSpace   bool  // it was below the watermark
	sinceAsked int64 // bytes committed since then
}

func (c *committer) init(start Position) {
	c.start, c.lsn = start, start.NextLSN
	c.batch, c.fate = &batch{}, make(chan error, 1)
	c.idle = time.NewTimer(time.Hour)
	c.idle.Stop()
	c.low = true // ask before the first record
	c.alone = true
}

// blank is an empty batch.
func (c *committer) blank() *batch {
	if n := len(c.spare); n > 0 {
		b := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return b
	}
	return &batch{}
}

// recycle takes back a batch whose callers have their answers. Neither records nor
// their bytes may be kept alive by the next one.
func (c *committer) recycle(b *batch) {
	clear(b.reqs)
	clear(b.records)
	clear(b.refused)
	*b = batch{reqs: b.reqs[:0], records: b.records[:0], refused: b.refused[:0]}
	c.spare = append(c.spare, b)
}

// run is one of the two committer goroutines. They take turns: the one that has
// written a batch gives the turn away and then syncs it, so that the other publishes
// the batch before and prepares the next one while the device works. What
// is prepared meanwhile is written only when the sync has ended: its frames promise
// the batch before it, or there would be two batches at the end of the log that
// nothing vouches for.
func (l *Log) run() {
	for range l.turn {
		b := l.serve()
		if b == nil {
			l.w.idle.Stop()
			close(l.turn)
			return
		}
		l.turn <- struct{}{}
		l.w.fate <- l.syncBatch(b)
	}
}

// serve commits until a batch is in the air, and returns it; nil when the queue is
// closed and empty.
func (l *Log) serve() *batch {
	c := &l.w
	for {
		l.settle()
		if c.air != nil {
			l.beside()
			continue
		}
		if len(c.batch.reqs) == 0 {
			c.batch.answerRefused(nil)
			if !l.fill() {
				return nil
			}
		}
		if len(c.batch.reqs) > 0 && l.commitBatch(false) {
			return c.air
		}
	}
}

// fill waits for the first record of a batch and collects what else is queued and
// fits. It serves what is queued before it. It reports false when the queue is
// closed and empty.
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
	return l.stillThere()
}

// beside prepares what is queued while the batch before is in the air. It returns
// when that has landed or has failed.
func (l *Log) beside() {
	c := &l.w
	last := c.began // when the batch last grew
	for {
		n := len(c.batch.reqs)
		l.collect(nil)
		if len(c.batch.reqs) > n {
			last = time.Now()
			if l.fits(c.batch.bytes) {
				c.frameBeside()
			}
		}
		select {
		case <-l.q.wake:
		case err := <-c.fate:
			l.land(err, last)
			return
		}
	}
}

// land takes the batch out of the air.
func (l *Log) land(err error, last time.Time) {
	c := &l.w
	b := c.air
	c.air = nil
	if err == nil {
		c.landed = b
		l.pace(len(b.reqs), last)
		return
	}
	l.refuse(b, err)
	// What was prepared beside it builds on it.
	l.refuse(c.batch, err)
	c.batch = c.blank()
	clear(c.pieces)
	c.pieces = c.pieces[:0]
}

// pace decides whether what was prepared beside a batch just landed, and last grew
// then, waits for the next records of that batch's callers. If it does not, the
// device is never idle, and the callers take turns with it in two parts or more:
// right unless they are back in less time than one more sync costs. That cost is the
// part of a sync that does not depend on its size, of which little is known; half a
// sync stands for it. They are expected back as quickly as those before them came.
func (l *Log) pace(landed int, last time.Time) {
	c := &l.w
	if landed < 2 {
		return
	}
	now := time.Now()
	took := now.Sub(c.began)
	if !c.gather {
		n := len(c.batch.reqs)
		c.gather = n > 0 && last.Sub(c.began)*time.Duration(max(landed, n))/time.Duration(n) < took/2
		return
	}
	l.settle()
	l.collect(nil)
	c.gather = time.Since(now) < took/2
}

// settle publishes the batch that has landed, if there is one.
func (l *Log) settle() {
	c := &l.w
	b := c.landed
	if b == nil {
		return
	}
	c.landed = nil
	n := len(b.reqs)
	l.publish(b)
	if n > 1 && c.air == nil && (c.gather || l.opts.Mode != SyncAlways) {
		// Let the callers just woken queue their next records before the next
		// batch is cut.
		runtime.Gosched()
	}
}

// commitBatch writes what was collected, and syncs it; or reports true: then it is in
// the air, and the caller is to sync it. With led, a caller leads: it never is.
func (l *Log) commitBatch(led bool) bool {
	c := &l.w
	b := c.batch
	if !l.fits(b.bytes) {
		l.settle() // before OnCreate is told of a new file
	}
	f, err := l.fileFor(b.bytes)
	if err == nil {
		err = l.writeBatch(f, b)
	}
	if err == nil && l.opts.Mode == SyncAlways && !b.deferred() {
		if !led && !l.opts.Inline && (len(b.reqs) > 1 || c.landed != nil || l.q.waiting()) {
			c.batch, c.air, c.began = c.blank(), b, time.Now()
			return true
		}
		err = l.syncBatch(b)
	} else if err == nil {
		if verr := l.vouch(f, b.end.Offset); verr != nil {
			err = l.fail("after the write to log "+f.info.Num.String(), verr)
		}
	}
	c.batch = c.blank()
	l.settle()
	if err == nil {
		c.landed = b
		return false // published by the next turn of serve
	}
	if f != nil {
		l.prep.afterBatch(f, 0)
	}
	l.refuse(b, err)
	return false
}

// syncBatch makes a batch durable that was written.
func (l *Log) syncBatch(b *batch) error {
	return l.syncFile(b.file, b.end.Offset, b.end.NextLSN-1)
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
	err := fmt.Errorf("less than %d bytes are free: %w", l.opts.Reserve, fault.ErrDiskFull)
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
