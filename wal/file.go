package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/vfs"
)

// logFile is a log file open for writing.
type logFile struct {
	f    vfs.File
	info FileInfo
	framer
	start int64 // where the first frame lies

	// wmu serialises the writing calls of committer and preparer, as vfs.File
	// asks. It guards zeroed, and end against the preparer: only the committer
	// changes end, so the committer reads it without.
	wmu    sync.Mutex
	end    int64 // behind the last frame
	zeroed int64 // bytes in [end, zeroed) are written zeros; < end if there are none

	// smu serialises syncs. The kernel reports a failed write-back once per
	// open file: were two syncs to run side by side, the wrong one could
	// collect the error and the other acknowledge lost bytes. Poison is set
	// before smu is released, and looked at after it is taken.
	smu    sync.Mutex
	synced atomic.Int64 // bytes below are durable: the promise of the next frame

	chain    uint64 // committer: chain value at end
	lastMark bool   // committer: the last frame is a sync mark

	// busy counts the preparer and the syncer while they use the file. Add is
	// called under Log.mu and only while the file is current.
	busy sync.WaitGroup
}

// syncFile makes the first upTo bytes of f durable, and with them all records
// up to lsn. A failure poisons the log.
func (l *Log) syncFile(f *logFile, upTo int64, lsn base.LSN) error {
	start := time.Now()
	err := l.syncWith(f, f.f.SyncData, upTo, lsn)
	l.observeSync(time.Since(start))
	return err
}

// syncWith is syncFile by the given call. With upTo and lsn 0 it promises
// nothing: what others wrote meanwhile is theirs to promise.
func (l *Log) syncWith(f *logFile, call func() error, upTo int64, lsn base.LSN) error {
	f.smu.Lock()
	err := l.poisoned()
	first := false
	began, owed := time.Now(), l.owed()
	if err == nil {
		if serr := call(); serr != nil {
			err, first = l.setPoison("sync log "+f.info.Num.String(), serr)
		} else if verr := l.vouch(f, upTo); verr != nil {
			err, first = l.setPoison("after the sync of log "+f.info.Num.String(), verr)
		} else {
			f.synced.Store(max(upTo, f.synced.Load()))
			l.advanceDurable(lsn, began, owed)
		}
	}
	f.smu.Unlock()
	l.announcePoison(err, first)
	if err == nil && lsn > 0 {
		l.noteDurable(f, upTo, lsn)
	}
	return err
}

// vouch returns nil if what was written to f up to upTo can be found again by whoever
// opens the store next: the guard agrees, and the file still has its name. It comes
// after the write, so that what is acknowledged was written while this held; what
// happens between it and the acknowledgement is not seen.
func (l *Log) vouch(f *logFile, upTo int64) error {
	if upTo == 0 { // no records
		return nil
	}
	if err := l.opts.Guard(); err != nil {
		return err
	}
	// Another sync may have come first and had the file vouched for. Once it is
	// durable its owner may flush what is in it and remove it.
	if upTo <= f.synced.Load() {
		return nil
	}
	return f.f.Attached()
}

// noteDurable writes the durable mark, after the sync and before anybody is told
// of it: what a killed process has acknowledged, its mark covers.
func (l *Log) noteDurable(f *logFile, upTo int64, lsn base.LSN) {
	if err := l.marks.mark(f, upTo, lsn); err != nil && l.opts.Events.MarkFailed != nil {
		l.opts.Events.MarkFailed(err)
	}
}

// hold returns the current file for use outside the committer, with the place
// behind the last committed record. The caller calls f.busy.Done. It returns
// nil if there is none.
func (l *Log) hold() (*logFile, Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.cur != nil {
		l.mu.cur.busy.Add(1)
	}
	return l.mu.cur, l.mu.pos
}

// blankFile makes a file of zeros with a durable name; its header is still to
// be written. The file gets its name only when its zeros are durable, so that a
// crash cannot leave a log file with garbage where a header belongs. No space
// for zeros is no error: the file is then just shorter. The caller holds no
// lock.
func (l *Log) blankFile(zeros int64) (*logFile, error) {
	num, err := l.opts.NewFileNum()
	if err != nil {
		return nil, numberError(err)
	}
	f := &logFile{info: FileInfo{Num: num}, framer: framer{salt: l.opts.Rand()}}
	f.info.Salt = f.salt
	temp := filepath.Join(l.opts.Dir, num.String()+tempSuffix)
	name := filepath.Join(l.opts.Dir, FileName(num))
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

// numberError classes a file number that was not to be had: nothing was written,
// so the log is not poisoned, though its owner may be.
func numberError(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("number a log file: %w: %w", fault.ErrDiskFull, err)
	}
	return fmt.Errorf("number a log file: %w", err)
}

// createError classes a failed creation: nothing was written, so the log is not
// poisoned and the next commit tries again.
func (l *Log) createError(num base.FileNum, err error) error {
	if errors.Is(err, fault.ErrLockLost) {
		return l.fail("create log "+num.String(), err)
	}
	if isNoSpace(err) {
		return fmt.Errorf("create log %s: %w: %w", num, fault.ErrDiskFull, err)
	}
	return fmt.Errorf("create log %s: %w", num, err)
}

// writeHeader turns a blank file into the successor of prev. When it returns
// nil, the header is durable.
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
	return l.syncFile(f, f.start, prev.NextLSN-1)
}

// discard closes and removes a file that never became part of the log. What it
// leaves behind if that fails is swept at the next open.
func (l *Log) discard(f *logFile) {
	_ = f.f.Close()
	_ = l.opts.FS.Remove(filepath.Join(l.opts.Dir, FileName(f.info.Num)))
}
