package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stele-go/stele/base/fault"
)

// osFile is an open file of the operating system.
type osFile struct {
	f *os.File
	osEntry
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
func (f *osFile) Attached() (int64, error) { return f.look() }

// Close implements File.
func (f *osFile) Close() error {
	f.release()
	return osError(f.f.Close())
}

// osEntry is the entry of a directory that a file was opened by.
type osEntry struct {
	dir  *osDir
	base string   // the name
	id   identity // the file that the name led to
	own  *osDir   // dir, if release is to close it
}

// look returns the size of the file while the name leads to it.
func (e *osEntry) look() (int64, error) {
	there, size, err := e.dir.identityAt(e.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: it was removed", ErrDetached)
	case err == nil && !there.same(e.id):
		err = fmt.Errorf("%w: it was replaced", ErrDetached)
	}
	if err != nil {
		return 0, pathError("look for", filepath.Join(e.dir.path, e.base), err)
	}
	return size, nil
}

// release closes the directory if it was opened for this entry only.
func (e *osEntry) release() {
	if e.own != nil {
		_ = e.own.Close() // nothing was written through it
	}
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
	case errno == syscall.EFBIG: // the write that met it did nothing more than one that a full disk refused
		return &aliasError{err: fmt.Errorf("%w for this process: raise its limit (ulimit -f, LimitFSIZE=)", err), alias: syscall.ENOSPC}
	case isInUse(errno):
		return &aliasError{err: err, alias: ErrInUse}
	case errno == syscall.EMFILE, errno == syscall.ENFILE:
		return fmt.Errorf("%w: %w", fault.ErrTooManyFiles, err)
	}
	return err
}

// aliasError is err, and matches alias as well.
type aliasError struct{ err, alias error }

// Error is the message of the error itself.
func (e *aliasError) Error() string { return e.err.Error() }

// Unwrap lets errors.Is find both.
func (e *aliasError) Unwrap() []error { return []error{e.err, e.alias} }

// retryEINTR repeats a system call that a signal interrupted before it did anything.
func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// control makes a system call on the descriptor of f. It goes through SyscallConn, which
// keeps the finalizer of os.File from closing f meanwhile, and not through Fd, which
// does not. The error names f.
func control(f *os.File, op string, call func(fd uintptr) error) error {
	if err := withFd(f, call); err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// withFd is control with the error of the system call itself.
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
