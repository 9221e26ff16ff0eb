package vfs

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/stele-go/stele/base/vfs/internal/sparse"
)

// memFile is a handle on a file of a Mem. The file outlives its name while a
// handle is open.
type memFile struct {
	m      *Mem
	n      *memNode
	dir    *memDir // it was opened in
	base   string  // the name it was opened by there
	name   string  // for errors
	write  bool
	lock   bool // closing releases the lock
	closed atomic.Bool
}

func (f *memFile) check(op string, off int64) error {
	switch {
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	case off < 0:
		return pathError(op, f.name, syscall.EINVAL)
	}
	return nil
}

func (f *memFile) checkWrite(op string, off int64) error {
	if err := f.check(op, off); err != nil {
		return err
	}
	if !f.write {
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

// ReadAt implements File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", off); err != nil {
		return 0, err
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.data.ReadAt(p, off)
}

// WriteAt on a full device writes what fits and reports ENOSPC, like a kernel.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.checkWrite("write", off); err != nil {
		return 0, err
	}
	if off > sparse.MaxSize-int64(len(p)) {
		return 0, pathError("write", f.name, syscall.EFBIG)
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	d := f.n.data
	need := d.Holes(off, int64(len(p)))
	got := f.m.reserve(need)
	if got < need {
		n := d.Fit(off, int64(len(p)), got)
		d.WriteAt(p[:n], off)
		return int(n), pathError("write", f.name, syscall.ENOSPC)
	}
	d.WriteAt(p, off)
	return len(p), nil
}

// Truncate implements File.
func (f *memFile) Truncate(size int64) error {
	if err := f.checkWrite("truncate", size); err != nil {
		return err
	}
	if size > sparse.MaxSize {
		return pathError("truncate", f.name, syscall.EFBIG)
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	before := f.n.data.Pages()
	f.n.data.Truncate(size)
	f.m.release(before - f.n.data.Pages())
	return nil
}

// Sync implements File.
func (f *memFile) Sync() error {
	if err := f.check("sync", 0); err != nil {
		return err
	}
	if f.m.windows && !f.write {
		return pathError("sync", f.name, fs.ErrPermission)
	}
	return nil
}

// SyncData implements File.
func (f *memFile) SyncData() error { return f.Sync() }

// Size implements File.
func (f *memFile) Size() (int64, error) {
	if err := f.check("size", 0); err != nil {
		return 0, err
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.data.Size(), nil
}

// NextData implements DataSeeker.
func (f *memFile) NextData(off int64) (int64, error) {
	if err := f.check("seek data", off); err != nil {
		return 0, err
	}
	f.n.mu.RLock()
	defer f.n.mu.RUnlock()
	return f.n.data.NextData(off), nil
}

// Attached implements File.
func (f *memFile) Attached() (int64, error) {
	if err := f.attached(); err != nil {
		return 0, err
	}
	return f.Size()
}

// attached returns an error that matches ErrDetached if the name leads to another file, or to none.
func (f *memFile) attached() error {
	if err := f.check("look for", 0); err != nil {
		return err
	}
	f.m.mu.RLock()
	defer f.m.mu.RUnlock()
	there := f.m.files[filepath.Join(f.dir.path, f.base)]
	switch {
	case f.dir.gone || there == nil:
		return pathError("look for", f.name, fmt.Errorf("%w: it was removed", ErrDetached))
	case there != f.n:
		return pathError("look for", f.name, fmt.Errorf("%w: it was replaced", ErrDetached))
	}
	return nil
}

// memLock is a lock file that is held.
type memLock struct{ f *memFile }

// Attached implements Lock.
func (l memLock) Attached() error { return l.f.attached() }

// Close implements Lock.
func (l memLock) Close() error { return l.f.Close() }

// Close implements File.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.opens--
	if f.lock {
		f.n.locked = false
	}
	f.m.reapLocked(f.n)
	return nil
}
