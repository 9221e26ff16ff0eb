package wal

import (
	"fmt"

	"github.com/stele-go/stele/fault"
)

// fileFor returns the file for a batch of need bytes: the current one if the
// batch fits, else a new one. A batch is never split over two files.
func (l *Log) fileFor(need int64) (*logFile, error) {
	if l.fits(need) {
		return l.mu.cur, nil
	}
	return l.openNext()
}

// fits reports whether a batch of need bytes goes into the current file. Room is
// kept for a mark at the end. An empty file takes any batch.
func (l *Log) fits(need int64) bool {
	f := l.mu.cur
	return f != nil && l.w.next == nil && (f.end == f.start || f.end+need+frameSize(f.stored(0)) <= l.opts.FileSize)
}

// openNext makes the next file current. The order is what makes rotation safe
// at each step:
//
//  1. the old file is synced, whatever the mode: so a frame in the new file
//     proves that the old one was complete, and damage there is no torn tail;
//  2. the new file's header, which names the old file's end, becomes durable;
//     from here on nothing may be appended to the old file, not even a mark;
//  3. the manifest learns of it (OnCreate);
//  4. only then may a frame be written to it.
func (l *Log) openNext() (*logFile, error) {
	c := &l.w
	old := l.mu.cur
	if c.next == nil {
		prev := c.start
		if old != nil {
			if old.synced.Load() < old.end {
				if err := l.syncFile(old, old.end, c.lsn-1); err != nil {
					return nil, err
				}
			}
			prev = Position{File: old.info.Num, Offset: old.end, Chain: old.chain}
		}
		prev.NextLSN = c.lsn
		f, err := l.makeFile(prev)
		if err != nil {
			return nil, err
		}
		c.next = f
	}
	f := c.next
	if err := l.opts.OnCreate(f.info); err != nil {
		if isNoSpace(err) {
			return nil, fmt.Errorf("record log %s in the manifest: %w: %w", f.info.Num, fault.ErrDiskFull, err)
		}
		return nil, l.fail("record log "+f.info.Num.String()+" in the manifest", err)
	}
	c.next = nil
	l.setCurrent(f)
	if old != nil {
		l.prep.retire(old)
	}
	return f, nil
}

// makeFile returns a file with a durable header that follows prev: the spare if
// one is ready, else a new one.
func (l *Log) makeFile(prev Position) (*logFile, error) {
	f := l.prep.takeSpare()
	if f == nil {
		var err error
		if f, err = l.blankFile(minAhead); err != nil {
			return nil, err
		}
	}
	if err := l.writeHeader(f, prev); err != nil {
		l.discard(f)
		return nil, err
	}
	return f, nil
}

func (l *Log) setCurrent(f *logFile) {
	l.mu.Lock()
	l.mu.cur = f
	l.mu.Unlock()
}

// seal ends the current file for good: synced, then marked as complete, then
// the mark synced too, so that after it any missing byte is damage. With no
// space for the mark the file is sealed without it.
func (l *Log) seal() error {
	f := l.mu.cur
	if f == nil || l.w.next != nil || f.end == f.start {
		return nil
	}
	if f.synced.Load() < f.end {
		if err := l.syncFile(f, f.end, l.w.lsn-1); err != nil {
			return err
		}
	}
	// The next file continues before the mark: should a crash take the mark
	// away, the chain still holds.
	place := Position{NextLSN: l.w.lsn, File: f.info.Num, Offset: f.end, Chain: f.chain}
	if err := l.writeMark(f, frameClose); err != nil {
		return err
	}
	if f.synced.Load() < f.end {
		if err := l.syncFile(f, f.end, l.w.lsn-1); err != nil {
			return err
		}
	}
	l.w.start = place
	l.mu.Lock()
	l.mu.cur, l.mu.pos, l.mu.applied = nil, place, place
	l.mu.Unlock()
	l.prep.retire(f)
	return nil
}
