package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

var (
	_ FS     = OS{}
	_ Holder = OS{}
)

// Hold opens a directory; see Holder. The path may lead through links.
func (OS) Hold(dir string) (Dir, error) {
	d, err := holdOS(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// at does something in the directory of a file, held for as long as that takes.
func (OS) at(name string, do func(*osDir) error) error {
	d, err := holdOS(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // only looked through
	return do(d)
}

// open opens a file in its directory, which stays held as long as the file.
func (OS) open(name string, flag int) (File, error) {
	d, err := holdOS(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	f, err := d.open(name, flag)
	if err != nil {
		_ = d.Close() // only looked through
		return nil, err
	}
	f.own = d
	return f, nil
}

// Create makes a new file; see FS.Create.
func (o OS) Create(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// OpenReadWrite opens an existing file; see FS.OpenReadWrite.
func (o OS) OpenReadWrite(name string) (File, error) { return o.open(name, os.O_RDWR) }

// Open opens an existing file for reading; see FS.Open.
func (o OS) Open(name string) (File, error) { return o.open(name, os.O_RDONLY) }

// Rename replaces newname by oldname; see FS.Rename.
func (o OS) Rename(oldname, newname string) error {
	if err := sameDir(oldname, newname); err != nil {
		return err
	}
	return o.at(oldname, func(d *osDir) error { return d.Rename(oldname, newname) })
}

// Remove deletes a file; see FS.Remove. A directory is refused, even an empty
// one. A link goes, and not what it leads to.
func (o OS) Remove(name string) error {
	return o.at(name, func(d *osDir) error { return d.Remove(name) })
}

// in does something with a directory, held for as long as that takes.
func (OS) in(dir string, do func(*osDir) error) error {
	d, err := holdOS(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // only looked through
	return do(d)
}

// List returns the sorted names in dir; see FS.List.
func (o OS) List(dir string) (names []string, err error) {
	err = o.in(dir, func(d *osDir) error {
		names, err = d.List(dir)
		return err
	})
	return names, err
}

// MkdirAll creates a directory and its parents; see FS.MkdirAll. The new names
// are durable after SyncDir of their parents.
func (OS) MkdirAll(dir string) error { return osError(os.MkdirAll(dir, dirMode)) }

// SyncDir makes names in dir durable; see FS.SyncDir.
func (o OS) SyncDir(dir string) error {
	if !syncsDirs {
		return nil // nor is it opened: who may make a file in it may not be allowed to
	}
	return o.in(dir, func(d *osDir) error { return d.SyncDir(dir) })
}

// FreeSpace is the room left for an ordinary user; see FS.FreeSpace.
func (o OS) FreeSpace(dir string) (n int64, err error) {
	err = o.in(dir, func(d *osDir) error {
		n, err = d.FreeSpace(dir)
		return err
	})
	return n, err
}

// TotalSpace implements Sizer.
func (o OS) TotalSpace(dir string) (n int64, err error) {
	err = o.in(dir, func(d *osDir) error {
		n, err = d.TotalSpace(dir)
		return err
	})
	return n, err
}

// Lock takes the lock; see FS.Lock. The text is a courtesy: failing to write it
// (a full disk) does not fail the lock.
func (OS) Lock(name, text string) (Lock, error) {
	d, err := holdOS(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	l, err := d.lock(name, text)
	if err != nil {
		_ = d.Close() // only looked through
		return nil, err
	}
	l.own = d
	return l, nil
}

// osFile is an open file of the operating system. The finalizer of os.File
// cannot close it in mid-call: raw system calls go through SyscallConn, which
// holds a reference, never through Fd.
type osFile struct {
	f    *os.File
	dir  *osDir
	base string   // the name it was opened by
	id   identity // which file it is
	own  *osDir   // closed with the file; nil if somebody else holds the directory
}

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

// Attached implements File.
func (f *osFile) Attached() error { return f.dir.attached(f.base, f.id) }

// Close implements File.
func (f *osFile) Close() error {
	if f.own != nil {
		_ = f.own.Close() // only looked through
	}
	return osError(f.f.Close())
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
// meanwhile. Its error names f.
func control(f *os.File, op string, call func(fd uintptr) error) error {
	if err := withFd(f, call); err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// withFd is control with the bare error.
func withFd(f *os.File, call func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := c.Control(func(fd uintptr) {
		callErr = retryEINTR(func() error { return call(fd) })
	}); err != nil {
		return fs.ErrClosed // Control has one way to fail
	}
	return callErr
}
