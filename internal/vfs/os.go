package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Modes of new files and directories, before the umask: the owner writes, the
// group may read (backups, readers in other processes), others see nothing. A
// store holds conversations.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// OS is the file system of the operating system. It has no state of its own;
// the zero value is ready and all values are equal.
//
// Only EINTR is ever retried. A failed Sync, SyncData or SyncDir is reported as
// it is: on common file systems the pages are marked clean by then, so that a
// second try would succeed without having written anything.
//
// Files are made with mode 0640 and directories with 0750, less the umask.
// Locks are advisory and not to be relied on over network file systems.
type OS struct{}

var _ FS = OS{}

// Create makes a new file; see FS.Create.
func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// OpenReadWrite opens an existing file; see FS.OpenReadWrite.
func (OS) OpenReadWrite(name string) (File, error) { return openOS(name, os.O_RDWR) }

// Open opens an existing file for reading; see FS.Open.
func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

// openOS never passes O_APPEND: with it, pwrite ignores its offset on Linux.
func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, osError(err)
	}
	return &osFile{f: f}, nil
}

// Rename replaces newname by oldname; see FS.Rename.
func (OS) Rename(oldname, newname string) error {
	if err := sameDir(oldname, newname); err != nil {
		return err
	}
	return osError(renameOS(oldname, newname))
}

// Remove deletes a file; see FS.Remove. A directory is refused, even an empty
// one.
func (OS) Remove(name string) error {
	if fi, err := os.Lstat(name); err == nil && fi.IsDir() {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EISDIR}
	}
	return osError(os.Remove(name))
}

// List returns the sorted names in dir; see FS.List.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, osError(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// MkdirAll creates a directory and its parents; see FS.MkdirAll. The new names
// are durable after SyncDir of their parents.
func (OS) MkdirAll(dir string) error { return osError(os.MkdirAll(dir, dirMode)) }

// SyncDir makes names in dir durable; see FS.SyncDir.
func (OS) SyncDir(dir string) error { return osError(syncDirOS(dir)) }

// FreeSpace is the room left for an ordinary user; see FS.FreeSpace.
func (OS) FreeSpace(dir string) (int64, error) {
	n, err := freeSpaceOS(dir)
	if err != nil {
		return 0, osError(&fs.PathError{Op: "free space", Path: dir, Err: err})
	}
	return n, nil
}

// TotalSpace implements Sizer.
func (OS) TotalSpace(dir string) (int64, error) {
	n, err := totalSpaceOS(dir)
	if err != nil {
		return 0, osError(&fs.PathError{Op: "total space", Path: dir, Err: err})
	}
	return n, nil
}

// osFile is an open file of the operating system. The finalizer of os.File
// cannot close it in mid-call: raw system calls go through SyscallConn, which
// holds a reference, never through Fd.
type osFile struct{ f *os.File }

// ReadAt implements File.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// WriteAt implements File.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, osError(err)
}

// Sync implements File.
func (f *osFile) Sync() error { return osError(f.f.Sync()) }

// SyncData implements File.
func (f *osFile) SyncData() error { return osError(syncDataOS(f.f)) }

// Truncate implements File.
func (f *osFile) Truncate(size int64) error { return osError(f.f.Truncate(size)) }

// Size implements File.
func (f *osFile) Size() (int64, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Close implements File.
func (f *osFile) Close() error { return osError(f.f.Close()) }

// locks is the register of lock files held by this process. The kernel's lock
// alone is not enough: where flock is emulated by record locks (NFS), a second
// lock by the same process is granted, and closing any other descriptor of the
// file drops the first.
var locks struct {
	sync.Mutex
	held []*osLock
}

// osLock is a held lock. Its file stays open as long as it is held.
type osLock struct {
	f  *os.File
	fi os.FileInfo
}

// Lock takes the lock; see FS.Lock. The text is a courtesy: failing to write it
// (a full disk) does not fail the lock.
func (OS) Lock(name, text string) (io.Closer, error) {
	locks.Lock()
	defer locks.Unlock()
	// Looked up before opening: opening and closing the file is what would
	// drop an emulated lock.
	if fi, err := os.Stat(name); err == nil && heldLocked(fi) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLockHeld}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, osError(err)
	}
	l := &osLock{f: f}
	if err := l.take(); err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(text), 0)
	locks.held = append(locks.held, l)
	return l, nil
}

func (l *osLock) take() error {
	if err := lockFileOS(l.f); err != nil {
		return err
	}
	fi, err := l.f.Stat()
	l.fi = fi
	return err
}

func heldLocked(fi os.FileInfo) bool {
	for _, l := range locks.held {
		if os.SameFile(l.fi, fi) {
			return true
		}
	}
	return false
}

// Close releases the lock. It would end with the descriptor, but a process that is
// being started has a copy of that for a moment, until it executes its program. A second
// Close returns fs.ErrClosed.
func (l *osLock) Close() error {
	locks.Lock()
	defer locks.Unlock()
	for i, h := range locks.held {
		if h == l {
			locks.held = append(locks.held[:i], locks.held[i+1:]...)
			break
		}
	}
	unlockFileOS(l.f)
	return l.f.Close()
}

// sameDir refuses a rename across directories: it could be durable in one of
// them and not in the other.
func sameDir(oldname, newname string) error {
	if filepath.Dir(oldname) != filepath.Dir(newname) {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: syscall.EXDEV}
	}
	return nil
}

// osError makes system errors match the portable ones that FS promises.
func osError(err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch {
	case isFull(errno):
		return &aliasError{err: err, alias: syscall.ENOSPC}
	case isInUse(errno):
		return &aliasError{err: err, alias: ErrInUse}
	}
	return err
}

// aliasError is err, matching alias as well.
type aliasError struct{ err, alias error }

// Error is the message of the error itself.
func (e *aliasError) Error() string { return e.err.Error() }

// Unwrap lets errors.Is find both.
func (e *aliasError) Unwrap() []error { return []error{e.err, e.alias} }

// retryEINTR repeats a system call that a signal interrupted before it did
// anything.
func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// control runs a raw system call on the descriptor of f, which stays open
// meanwhile.
func control(f *os.File, op string, call func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := c.Control(func(fd uintptr) {
		callErr = retryEINTR(func() error { return call(fd) })
	}); err != nil {
		// Control has one way to fail: the file is closed.
		return &fs.PathError{Op: op, Path: f.Name(), Err: fs.ErrClosed}
	}
	if callErr != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return nil
}
