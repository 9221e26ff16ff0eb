package wal

import (
	"fmt"
	"io"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
)

const (
	// Records from largeRecord on are written from the caller's slices; of
	// those, parts below largePart are joined with their neighbours all the
	// same, because a write costs more than copying them.
	largeRecord = 1 << 20
	largePart   = 64 << 10
)

// piece is a run of bytes of a batch: a range of the joint buffer, or a
// caller's slice.
type piece struct {
	ext    []byte
	lo, hi int // range of committer.buf if ext is nil
}

// frames are those of a batch that are built, as long as they are for the place
// where the batch is to be written and promise what is durable then.
type frames struct {
	file     *logFile
	from, to int64  // where the first lies; behind the last
	before   uint64 // chain value at from
	chain    uint64 // at to
	promise  int64
	n        int // records of the batch that have theirs
}

// frame builds the frames that b has not yet, as they shall stand at from in f if
// the bytes below promise are durable then. What is built for another place, or
// another promise, is built anew.
func (c *committer) frame(b *batch, f *logFile, from Position, promise int64) {
	m := &b.made
	if m.file != f || m.from != from.Offset || m.before != from.Chain || m.promise != promise {
		c.buf = c.buf[:0]
		clear(c.pieces)
		c.pieces = c.pieces[:0]
		*m = frames{file: f, from: from.Offset, to: from.Offset, before: from.Chain, chain: from.Chain, promise: promise}
	}
	for ; m.n < len(b.reqs); m.n++ {
		r := b.reqs[m.n]
		h := frameHeader{typ: frameRecord, lsn: from.NextLSN + base.LSN(m.n), syncedTo: promise}
		var sum uint64
		if r.size < largeRecord {
			lo := len(c.buf)
			c.buf, sum = f.append(c.buf, m.to, h, r.parts...)
			c.addRange(lo)
		} else if f.seal != nil {
			sum = c.addSealed(f, m.to, h, r)
		} else {
			sum = c.addLarge(f.salt, m.to, h, r)
		}
		rec := r.rec
		rec.LSN, rec.File, rec.Offset, rec.Len = h.lsn, f.info.Num, m.to+frameHeaderSize, r.size
		rec.Sealed = f.seal != nil
		m.to += frameSize(f.stored(r.size))
		m.chain = nextChain(m.chain, sum)
	}
}

// frameBeside builds the frames of the batch that is prepared while another is in
// the air, on the promise that this one lands. If it does not, they are never
// written.
func (c *committer) frameBeside() {
	a := c.air
	c.frame(c.batch, a.file, a.end, a.end.Offset)
}

// writeBatch writes the frames of b behind the end of f. On success f's end and
// chain are behind them, and the records know their places; on failure nothing of
// the batch is left in the log, or the log is poisoned.
func (l *Log) writeBatch(f *logFile, b *batch) error {
	c := &l.w
	promise := f.synced.Load()
	c.frame(b, f, Position{NextLSN: c.lsn, Offset: f.end, Chain: f.chain}, promise)
	err := l.writePieces(f, b.made.to)
	clear(c.pieces) // they may be bytes of callers
	c.pieces = c.pieces[:0]
	if cap(c.buf) > 4*maxBatchBytes {
		c.buf = nil
	}
	if err != nil {
		return err
	}
	f.chain, f.lastMark = b.made.chain, false
	c.lsn += base.LSN(len(b.reqs))
	c.full = false
	c.sinceAsked += b.bytes
	b.file, b.end = f, Position{NextLSN: c.lsn, File: f.info.Num, Offset: f.end, Chain: f.chain}
	return nil
}

// addRange adds the bytes of buf from lo on, joining them to a range that ends
// there.
func (c *committer) addRange(lo int) {
	if n := len(c.pieces); n > 0 && c.pieces[n-1].ext == nil && c.pieces[n-1].hi == lo {
		c.pieces[n-1].hi = len(c.buf)
		return
	}
	if lo < len(c.buf) {
		c.pieces = append(c.pieces, piece{lo: lo, hi: len(c.buf)})
	}
}

// addLarge adds the frame of a large record without joining its large parts.
func (c *committer) addLarge(salt uint64, off int64, h frameHeader, r *request) uint64 {
	hdr, sum := splitFrameHeader(salt, off, h, r.parts)
	lo := len(c.buf)
	c.buf = append(c.buf, hdr[:]...)
	c.addRange(lo)
	for _, p := range r.parts {
		if len(p) >= largePart {
			c.pieces = append(c.pieces, piece{ext: p})
			continue
		}
		lo = len(c.buf)
		c.buf = append(c.buf, p...)
		c.addRange(lo)
	}
	lo = len(c.buf)
	c.buf = append(c.buf, padding(r.size)...)
	c.addRange(lo)
	return sum
}

// addSealed adds the frame of a large record to an encrypted file: sealed into
// memory of its own, once.
func (c *committer) addSealed(f *logFile, off int64, h frameHeader, r *request) uint64 {
	b, sum := f.append(make([]byte, 0, frameSize(f.stored(r.size))), off, h, r.parts...)
	c.pieces = append(c.pieces, piece{ext: b})
	return sum
}

// writePieces writes the batch at f.end and moves f.end to end.
func (l *Log) writePieces(f *logFile, end int64) error {
	f.wmu.Lock()
	off := f.end
	var err error
	for _, p := range l.w.pieces {
		b := p.ext
		if b == nil {
			b = l.w.buf[p.lo:p.hi]
		}
		var n int
		n, err = f.f.WriteAt(b, off)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			break
		}
		off += int64(n)
	}
	if err == nil {
		f.end = end
	}
	f.wmu.Unlock()
	if err == nil {
		return nil
	}
	if !isNoSpace(err) {
		return l.fail("write log "+f.info.Num.String(), err)
	}
	return l.undo(f, err)
}

// undo takes back a write that found no space: whatever part of it reached the
// file is cut off, durably, before the callers hear of it. Else a crash could
// bring back a record that was refused, under an LSN given to another.
func (l *Log) undo(f *logFile, cause error) error {
	f.wmu.Lock()
	err := f.f.Truncate(f.end)
	f.zeroed = f.end
	f.wmu.Unlock()
	if err != nil {
		return l.fail("cut log "+f.info.Num.String()+" after a full disk", err)
	}
	l.prep.rest()
	// Sync, not SyncData: the smaller size itself must be durable.
	if err := l.syncWith(f, f.f.Sync, f.end, l.w.lsn-1); err != nil {
		return err
	}
	return fmt.Errorf("write log %s: %w: %w", f.info.Num, fault.ErrDiskFull, cause)
}

// writeMark appends a frame without payload. No space for it is no error, only
// no mark: it is not in the way of the next frame, which overwrites its place.
func (l *Log) writeMark(f *logFile, typ frameType) error {
	h := frameHeader{typ: typ, lsn: l.w.lsn - 1, syncedTo: f.synced.Load()}
	b, sum := f.append(nil, f.end, h)
	f.wmu.Lock()
	_, err := f.f.WriteAt(b, f.end)
	if err == nil {
		f.end += int64(len(b))
	}
	f.wmu.Unlock()
	switch {
	case err == nil:
		f.chain = nextChain(f.chain, sum)
		f.lastMark = true
		return nil
	case isNoSpace(err):
		return nil
	}
	return l.fail("write "+typ.String()+" to log "+f.info.Num.String(), err)
}

// armIdle starts the wait for the sync mark anew after each batch; a busy log
// therefore never writes one.
func (l *Log) armIdle() {
	if l.opts.IdleMark < 0 || l.opts.Inline || l.opts.Mode == SyncNever {
		return
	}
	wait := l.opts.IdleMark
	if l.opts.Mode == SyncInterval {
		wait += l.opts.Interval
	}
	l.w.idle.Reset(wait)
}

// idleMark repeats the promise after the last batch, so that damage to it is
// told from a torn tail. The mark itself is not synced: it costs no flush, and
// the kernel writes it in its own time.
func (l *Log) idleMark() {
	f := l.mu.cur // only the committer changes it
	if f == nil || l.w.next != nil || f.lastMark || f.end == f.start || l.poisoned() != nil {
		return
	}
	if f.synced.Load() < f.end {
		if l.opts.Mode == SyncAlways { // Deferred records
			_ = l.syncFile(f, f.end, l.w.lsn-1) // a failure poisons the log
		}
		l.w.idle.Reset(l.opts.IdleMark) // or the interval's sync is under way
		return
	}
	if l.writeMark(f, frameSync) == nil {
		l.count.marks.Add(1)
	}
}
