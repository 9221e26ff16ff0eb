package wal

import (
	"fmt"
	"io"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

const (
	// Records of largeRecord bytes or more are written from the caller's slices
	// instead of being copied. Parts of them below largePart are copied all the same,
	// because another write would cost more.
	largeRecord = 1 << 20
	largePart   = 64 << 10
)

// piece is a run of bytes of a batch that is written with one call: a range of committer.buf, or a
// slice of a caller.
type piece struct {
	ext    []byte
	lo, hi int // the range, if ext is nil
}

// frames are the frames of a batch that were built so far. A frame depends on its place
// and on the promise in it, so they are good for one place and one promise alone.
type frames struct {
	file     *logFile
	from, to int64  // begin of the first; end of the last
	before   uint64 // chain value at from
	chain    uint64 // chain value at to
	promise  int64
	n        int // how many
}

// frame builds those frames of b that are not built yet, to be written at from in f when
// the bytes below promise are durable. Frames that were built for another place or with
// another promise are built anew.
func (c *committer) frame(b *batch, f *logFile, from Position, promise int64) {
	m := &b.framed
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

// frameDuringSync builds the frames of the batch that is prepared while the one before
// is synced. They promise the success of that sync. If it fails they are not written.
func (c *committer) frameDuringSync() {
	s := c.syncing
	c.frame(c.batch, s.file, s.end, s.end.Offset)
}

// writeBatch writes the frames of b at the end of f and tells the records their places.
// On failure nothing of the batch is left in the log, or the log is poisoned.
func (l *Log) writeBatch(f *logFile, b *batch) error {
	c := &l.c
	promise := f.synced.Load()
	c.frame(b, f, Position{NextLSN: c.lsn, Offset: f.end, Chain: f.chain}, promise)
	err := l.writePieces(f, b.framed.to)
	clear(c.pieces) // they may be slices of callers
	c.pieces = c.pieces[:0]
	if cap(c.buf) > 4*maxBatchBytes {
		c.buf = nil
	}
	if err != nil {
		return err
	}
	f.chain, f.lastMark = b.framed.chain, false
	c.lsn += base.LSN(len(b.reqs))
	c.full = false
	c.sinceAsked += b.bytes
	if l.opts.Replicate != nil {
		l.replication.wrote(b.reqs, c.lsn)
	}
	b.file, b.end = f, Position{NextLSN: c.lsn, File: f.info.Num, Offset: f.end, Chain: f.chain}
	return nil
}

// addRange adds the bytes of buf from lo on, to the last piece if that ends there.
func (c *committer) addRange(lo int) {
	if n := len(c.pieces); n > 0 && c.pieces[n-1].ext == nil && c.pieces[n-1].hi == lo {
		c.pieces[n-1].hi = len(c.buf)
		return
	}
	if lo < len(c.buf) {
		c.pieces = append(c.pieces, piece{lo: lo, hi: len(c.buf)})
	}
}

// addLarge adds the frame of a large record without copying its large parts.
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

// addSealed adds the frame of a large record to an encrypted file. It is encrypted into
// memory of its own, so that buf stays small.
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
	last := f.trace
	for _, p := range l.c.pieces {
		b := p.ext
		if b == nil {
			b = l.c.buf[p.lo:p.hi]
		}
		var n int
		n, err = f.f.WriteAt(b, off)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			break
		}
		last.note(b, off)
		off += int64(n)
	}
	if err == nil && (end >= f.size.Load() || f.lastMark) {
		err = f.checkTrace()
	}
	if err == nil {
		err = f.checkAnchor(last)
	}
	if err == nil {
		f.end, f.trace = end, last
		f.grownLocked()
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

// undo takes back a write that found no space. Bytes that reached the file are cut off, and the cut is
// made durable, before the callers are answered. Otherwise a crash could bring back a record that was
// refused, under an LSN that another record has.
func (l *Log) undo(f *logFile, cause error) error {
	f.wmu.Lock()
	err := f.f.Truncate(f.end)
	f.zeroed = f.end
	f.grownLocked()
	if err == nil {
		err = f.checkTrace()
	}
	f.wmu.Unlock()
	if err != nil {
		return l.fail("cut log "+f.info.Num.String()+" after a full disk", err)
	}
	l.prealloc.backOff()
	// Sync, not SyncData: the new size must be durable.
	if err := l.syncWith(f, f.f.Sync, f.end, l.c.lsn-1); err != nil {
		return err
	}
	return fmt.Errorf("write log %s: %w: %w", f.info.Num, fault.ErrDiskFull, cause)
}

// writeMarkFrame appends a sync mark or a close mark, which are frames without payload. It is no error
// if there is no space for it: the next frame overwrites the part that was written.
func (l *Log) writeMarkFrame(f *logFile, typ frameType) error {
	h := frameHeader{typ: typ, lsn: l.c.lsn - 1, syncedTo: f.synced.Load()}
	b, sum := f.append(nil, f.end, h)
	f.wmu.Lock()
	_, err := f.f.WriteAt(b, f.end)
	if err == nil {
		err = f.checkTrace()
	}
	if err == nil {
		f.trace.note(b, f.end)
		f.end += int64(len(b))
		f.grownLocked()
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

// armIdle starts the wait for the sync mark anew. It is called after each batch, so a
// busy log never writes one.
func (l *Log) armIdle() {
	if l.opts.IdleMark < 0 || l.opts.Inline || l.opts.Mode == SyncNever {
		return
	}
	wait := l.opts.IdleMark
	if l.opts.Mode == SyncInterval {
		wait += l.opts.Interval
	}
	l.c.idle.Reset(wait)
}

// idleMark writes a frame that promises the last batch, which no frame of a later batch
// does yet, so that damage to it can be told from a torn tail. The mark is not synced:
// the kernel writes it when it likes.
func (l *Log) idleMark() {
	f := l.mu.cur // only the committer changes it
	if f == nil || l.c.next != nil || f.lastMark || f.end == f.start || l.poisoned() != nil {
		return
	}
	if f.synced.Load() < f.end {
		if l.opts.Mode == SyncAlways { // Deferred records
			_ = l.syncFile(f, f.end, l.c.lsn-1) // a failure poisons the log
		}
		l.c.idle.Reset(l.opts.IdleMark) // or the interval's sync is under way
		return
	}
	if l.writeMarkFrame(f, frameSync) == nil {
		l.count.syncMarks.Add(1)
	}
}
