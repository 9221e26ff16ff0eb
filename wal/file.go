package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// logFile is a log file that is open for writing.
//
// A file goes through these states:
//
//   - blank: zeros under a temporary name, then, once the zeros are durable, under its
//     own name. So a crash never leaves a log file with garbage where its header
//     belongs. The preallocator keeps a blank file as a spare;
//   - begun: it has a durable header, which links it to the file before;
//   - named: the manifest lists it. Only now may it get a frame: a file that the
//     manifest does not list holds no record and can be removed;
//   - current: commits append to it;
//   - retired: synced, and no longer written to. The preallocator cuts off the zeros
//     behind its end and closes it.
//
// openNext has the order in which one file takes over from another.
type logFile struct {
	f    vfs.File
	info FileInfo
	framer
	start int64 // where the first frame lies

	// wmu serializes the writes of committer and preallocator, as vfs.File asks. It
	// guards zeroed, the traces, back, and end. Only the committer changes end, so the committer reads
	// it without the lock.
	wmu    sync.Mutex
	end    int64 // behind the last frame
	zeroed int64 // [end, zeroed) was filled with zeros; < end if nothing was
	trace  trace // what was written last
	anchor trace // what was written some batches ago
	back   [traceSize]byte

	// size is the larger one of end and zeroed: the length of the file, unless somebody cut it. It is
	// written under wmu.
	size atomic.Int64

	// smu serializes syncs. The kernel reports a failed write-back once per open file. If two syncs ran
	// concurrently, one could collect the error of the other, which would then acknowledge bytes that
	// are lost. For the same reason the poison is set before smu is released, and looked at after it is
	// taken.
	smu    sync.Mutex
	synced atomic.Int64 // bytes below are durable: the promise of the next frame

	chain    uint64 // committer: chain value at end
	lastMark bool   // committer: the last frame is a sync mark
	batches  int    // committer

	// busy counts the uses of the file outside the committer, by preallocator and
	// syncer. Add is called under Log.mu and only while the file is current.
	busy sync.WaitGroup
}

// syncFile makes the first upTo bytes of f durable, and with them all records up to
// lsn. A failure poisons the log.
func (l *Log) syncFile(f *logFile, upTo int64, lsn base.LSN) error {
	start := time.Now()
	err := l.syncWith(f, f.f.SyncData, upTo, lsn)
	took := time.Since(start)
	l.count.sync(took)
	if took >= l.opts.SlowSync && l.opts.Events.SlowSync != nil {
		l.opts.Events.SlowSync(took)
	}
	return err
}

// syncWith is syncFile with another system call. With upTo and lsn 0 the log counts no records as
// durable: the committer syncs its own writes.
func (l *Log) syncWith(f *logFile, call func() error, upTo int64, lsn base.LSN) error {
	f.smu.Lock()
	err := l.poisoned()
	first := false
	began, unsynced := time.Now(), l.unsynced()
	if err == nil {
		if serr := call(); serr != nil {
			err, first = l.setPoison("sync log "+f.info.Num.String(), serr)
		} else if rerr := l.checkReachable(f, upTo); rerr != nil {
			err, first = l.setPoison("after the sync of log "+f.info.Num.String(), rerr)
		} else {
			f.synced.Store(max(upTo, f.synced.Load()))
			l.advanceDurable(lsn, began, unsynced)
		}
	}
	f.smu.Unlock()
	l.announcePoison(err, first)
	if err != nil || lsn == 0 {
		return err
	}
	l.noteDurable(f, upTo, lsn)
	return l.replicate(lsn)
}

// checkReachable checks that whoever opens the store next will find the first upTo bytes
// of f: the guard agrees, and the file still has its name and all of its bytes. It comes
// after the write, so that what is acknowledged was written while this was so. What happens
// between the check and the acknowledgement goes unseen until the next one.
func (l *Log) checkReachable(f *logFile, upTo int64) error {
	if upTo == 0 { // no records
		return nil
	}
	if err := l.opts.Guard(); err != nil {
		return err
	}
	// Another sync may have come first, and checked. Once the file is durable, its
	// owner may flush what is in it and remove it.
	if upTo <= f.synced.Load() {
		return nil
	}
	return f.checkPlace()
}

// checkPlace checks that f has its name and its size.
func (f *logFile) checkPlace() error {
	want := f.size.Load()
	var size int64
	err := vfs.Again(func() (err error) {
		size, err = f.f.Attached()
		return err
	})
	if err == nil && size < want {
		f.wmu.Lock()
		defer f.wmu.Unlock()
		return f.checkSize()
	}
	return err
}

// checkWhole is checkPlace, and also checks that the last write is still there.
func (f *logFile) checkWhole() error {
	if err := f.checkPlace(); err != nil {
		return err
	}
	f.wmu.Lock()
	defer f.wmu.Unlock()
	return f.checkTrace()
}

// grownLocked notes that end or zeroed changed. The caller holds wmu, or nobody else has f.
func (f *logFile) grownLocked() { f.size.Store(max(f.end, f.zeroed)) }

// noteDurable writes the durable mark. It comes after the sync and before anybody is
// told, so that the mark of a process that is killed covers all it acknowledged.
func (l *Log) noteDurable(f *logFile, upTo int64, lsn base.LSN) {
	if err := l.durableMark.write(f, upTo, lsn); err != nil && l.opts.Events.MarkFailed != nil {
		l.opts.Events.MarkFailed(err)
	}
}

// hold returns the current file, nil if there is none, for use outside the committer,
// and the place behind the last committed record. The caller calls f.busy.Done.
func (l *Log) hold() (*logFile, Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.cur != nil {
		l.mu.cur.busy.Add(1)
	}
	return l.mu.cur, l.mu.pos
}

// fileFor returns the file for a batch of need bytes: the current one if the batch
// fits, else a new one. No batch is split over two files.
func (l *Log) fileFor(need int64) (*logFile, error) {
	if l.fits(need) {
		return l.mu.cur, nil
	}
	return l.openNext()
}

// fits reports whether a batch of need bytes fits into the current file with a mark
// behind it. An empty file takes any batch.
func (l *Log) fits(need int64) bool {
	f := l.mu.cur
	return f != nil && l.c.next == nil && (f.end == f.start || f.end+need+frameSize(f.stored(0)) <= l.opts.FileSize)
}

// openNext makes the next file current. Its steps are in an order that is safe
// wherever a crash cuts it short:
//
//  1. The old file is synced, in every mode. So a frame in the new file proves that
//     the old one was complete, and damage there is no torn tail.
//  2. The header of the new file, which says where the old one ends, becomes durable.
//     From now on nothing may be appended to the old file, not even a mark. After a
//     crash the new file is a stray, or, without a manifest, the empty end of the log.
//  3. The manifest learns of the new file (Options.OnCreate).
//  4. Only then does the new file get a frame.
//
// If the third step finds no space, or is refused, the new file is kept, in committer.next, and the
// next commit goes on there.
func (l *Log) openNext() (*logFile, error) {
	c := &l.c
	old := l.mu.cur
	if c.next == nil {
		prev := c.start
		if old != nil {
			if old.synced.Load() < old.end {
				if err := l.syncFile(old, old.end, c.lsn-1); err != nil {
					return nil, err
				}
			}
			if err := old.checkWhole(); err != nil { // it is not used again
				return nil, l.fail("before the end of log "+old.info.Num.String(), err)
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
		if (vfs.Refused(err) || vfs.Unreadable(err)) && !errors.Is(err, fault.ErrPoisoned) {
			return nil, fmt.Errorf("record log %s in the manifest: %w", f.info.Num, err)
		}
		return nil, l.fail("record log "+f.info.Num.String()+" in the manifest", err)
	}
	c.next = nil
	l.setCurrent(f)
	if old != nil {
		l.prealloc.retire(old)
	}
	return f, nil
}

// makeFile returns a file with a durable header that follows prev, made of the spare
// file if there is one.
func (l *Log) makeFile(prev Position) (*logFile, error) {
	f := l.prealloc.takeSpare(prev.File)
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

// finishFile ends the current file: it is synced, marked as complete, and the mark is synced
// too, so that any byte that is missing from now on is damage. If there is no space
// for the mark, the file ends without it.
func (l *Log) finishFile() error {
	f := l.mu.cur
	if f == nil || f.end == f.start {
		return nil
	}
	if l.c.next != nil { // openNext has synced f; it ends where the header of next says
		l.setCurrent(nil) // its owner may remove it from now on
		l.prealloc.retire(f)
		return nil
	}
	if f.synced.Load() < f.end {
		if err := l.syncFile(f, f.end, l.c.lsn-1); err != nil {
			return err
		}
	}
	// The next file continues before the mark: should a crash take the mark
	// away, the chain still holds.
	place := Position{NextLSN: l.c.lsn, File: f.info.Num, Offset: f.end, Chain: f.chain}
	if err := l.writeMarkFrame(f, frameClose); err != nil {
		return err
	}
	if f.synced.Load() < f.end {
		if err := l.syncFile(f, f.end, l.c.lsn-1); err != nil {
			return err
		}
	}
	l.c.start = place
	l.mu.Lock()
	l.mu.cur, l.mu.pos, l.mu.applied = nil, place, place
	l.mu.Unlock()
	l.prealloc.retire(f)
	return nil
}

// blankFile makes a blank file, with a durable name. It is no error if there is no
// space for all of the zeros. The caller holds no lock.
func (l *Log) blankFile(zeros int64) (*logFile, error) {
	num, err := l.opts.NewFileNum()
	if err != nil {
		return nil, numberError(err)
	}
	f := &logFile{info: FileInfo{Num: num}, framer: framer{salt: l.opts.Rand()}}
	f.info.Salt = f.salt
	temp := filepath.Join(l.opts.Dir, base.LogTempFile.Name(num))
	name := filepath.Join(l.opts.Dir, base.LogFile.Name(num))
	h, err := l.opts.FS.Create(temp)
	if err != nil {
		return nil, l.createError(num, err)
	}
	n, err := h.WriteAt(zeroes[:zeros], 0)
	switch {
	case err == nil:
		l.count.preallocated.Add(zeros)
	case !isNoSpace(err):
		_ = h.Close() // the log is poisoned; nothing in the file matters
		return nil, l.fail("write zeros to log "+num.String(), err)
	}
	f.zeroed = int64(n)
	f.grownLocked()
	if err := h.Sync(); err != nil {
		_ = h.Close() // poisoned
		return nil, l.fail("sync log "+num.String(), err)
	}
	// Closed for the rename: some systems do not rename open files.
	if err := h.Close(); err != nil {
		return nil, l.fail("close log "+num.String(), err)
	}
	if err := l.opts.FS.Rename(temp, name); err != nil {
		_ = l.opts.FS.Remove(temp) // else swept at the next open
		return nil, l.createError(num, err)
	}
	if err := l.opts.FS.SyncDir(l.opts.Dir); err != nil {
		return nil, l.fail("sync log directory", err)
	}
	if f.f, err = l.opts.FS.OpenReadWrite(name); err != nil {
		_ = l.opts.FS.Remove(name) // else swept at the next open
		return nil, l.createError(num, err)
	}
	return f, nil
}

// numberError is the error of Options.NewFileNum. Nothing was written, so it does not
// poison the log.
func numberError(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("number a log file: %w: %w", fault.ErrDiskFull, err)
	}
	return fmt.Errorf("number a log file: %w", err)
}

// createError is the error of a file that could not be created. No frame was written, so
// it does not poison the log, and the next commit tries again. The exception is a lost
// lock: the directory belongs to somebody else.
func (l *Log) createError(num base.FileNum, err error) error {
	if errors.Is(err, fault.ErrLockLost) {
		return l.fail("create log "+num.String(), err)
	}
	if isNoSpace(err) {
		return fmt.Errorf("create log %s: %w: %w", num, fault.ErrDiskFull, err)
	}
	return fmt.Errorf("create log %s: %w", num, err)
}

// writeHeader gives a blank file a durable header, by which it follows prev.
func (l *Log) writeHeader(f *logFile, prev Position) error {
	f.info.BaseLSN = prev.NextLSN
	f.info.Prev = prev
	hdr := fileHeader{num: f.info.Num, baseLSN: prev.NextLSN, salt: f.salt, prev: prev}
	head, chain, sf, err := createSeal(l.opts.Keys, &hdr)
	if err != nil {
		return err
	}
	f.seal, f.start, f.info.KeyID = sf, hdr.size(), sf.KeyID()
	if _, err := f.f.WriteAt(head, 0); err != nil {
		if isNoSpace(err) {
			return fmt.Errorf("write header of log %s: %w: %w", f.info.Num, fault.ErrDiskFull, err)
		}
		return l.fail("write header of log "+f.info.Num.String(), err)
	}
	f.end, f.chain = f.start, chain
	f.grownLocked()
	f.trace.note(head, 0)
	return l.syncFile(f, f.start, prev.NextLSN-1)
}

// discard closes and removes a file that never became part of the log. If it cannot be
// removed, the next open sweeps it.
func (l *Log) discard(f *logFile) {
	_ = f.f.Close()
	_ = l.opts.FS.Remove(filepath.Join(l.opts.Dir, base.LogFile.Name(f.info.Num)))
}
