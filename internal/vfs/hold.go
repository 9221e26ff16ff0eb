package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// ErrDetached is returned where a name no longer leads to what was opened by it: it
// was removed, or something else has it now.
var ErrDetached = errors.New("the name leads to something else")

// errOutside is the error for a path that is not one of a file in the held directory.
var errOutside = fmt.Errorf("not a file in the directory that is held: %w", fs.ErrInvalid)

// Dir is one directory that is held open. It is an FS for the files in that
// directory, under the same paths as before (the path of Hold, joined with a name);
// any other path is refused with an error that matches fs.ErrInvalid, and nothing
// is touched.
//
// A Dir is the directory itself, not its path: after a chdir, a rename of the
// directory or of one above it, and with another directory in the old place, it goes
// on in the directory that was opened. If that was removed, nothing can be made in
// it any more (fs.ErrNotExist).
type Dir interface {
	FS
	// Hold holds the same directory once more, by the same path.
	Hold(dir string) (Dir, error)
	// InPlace returns nil while the path that the directory was held by still leads
	// to it, and else an error that matches ErrDetached. A relative path counts from
	// where the process was at Hold.
	InPlace() error
	// Close lets the directory go. Files and locks opened through it go on; a second
	// Close returns fs.ErrClosed.
	Close() error
}

// Holder is a file system that can hold a directory open. It is optional; see Hold.
type Holder interface {
	// Hold opens a directory that exists.
	Hold(dir string) (Dir, error)
}

// Hold holds a directory of fsys, which must exist. The operating system and Mem
// hold the directory itself. A file system that is no Holder has no other way than
// the path: then the Dir follows that, and only refuses paths outside of it.
func Hold(fsys FS, dir string) (Dir, error) {
	if h, ok := fsys.(Holder); ok {
		return h.Hold(dir)
	}
	if _, err := fsys.List(dir); err != nil {
		return nil, err
	}
	return byPath{FS: fsys, dir: filepath.Clean(dir)}, nil
}

// within returns the base name of a path in dir, which is clean.
func within(dir, op, name string) (string, error) {
	clean := filepath.Clean(name)
	if base := filepath.Base(clean); filepath.Dir(clean) == dir && base != "." && base != ".." && clean != dir {
		return base, nil
	}
	return "", pathError(op, name, errOutside)
}

// sameAs refuses a directory other than the one that is held.
func sameAs(dir, op, name string) error {
	if filepath.Clean(name) != dir {
		return pathError(op, name, errOutside)
	}
	return nil
}

// byPath is a Dir of a file system that cannot hold one.
type byPath struct {
	FS
	dir string
}

// Create implements FS.
func (d byPath) Create(name string) (File, error) {
	if _, err := within(d.dir, "create", name); err != nil {
		return nil, err
	}
	return d.FS.Create(name)
}

// OpenReadWrite implements FS.
func (d byPath) OpenReadWrite(name string) (File, error) {
	if _, err := within(d.dir, "open", name); err != nil {
		return nil, err
	}
	return d.FS.OpenReadWrite(name)
}

// Open implements FS.
func (d byPath) Open(name string) (File, error) {
	if _, err := within(d.dir, "open", name); err != nil {
		return nil, err
	}
	return d.FS.Open(name)
}

// Rename implements FS.
func (d byPath) Rename(oldname, newname string) error {
	if _, err := within(d.dir, "rename", oldname); err != nil {
		return err
	}
	return d.FS.Rename(oldname, newname) // which refuses another directory
}

// Remove implements FS.
func (d byPath) Remove(name string) error {
	if _, err := within(d.dir, "remove", name); err != nil {
		return err
	}
	return d.FS.Remove(name)
}

// List implements FS.
func (d byPath) List(dir string) ([]string, error) {
	if err := sameAs(d.dir, "list", dir); err != nil {
		return nil, err
	}
	return d.FS.List(dir)
}

// MkdirAll implements FS.
func (d byPath) MkdirAll(dir string) error { return sameAs(d.dir, "mkdir", dir) }

// SyncDir implements FS.
func (d byPath) SyncDir(dir string) error {
	if err := sameAs(d.dir, "sync", dir); err != nil {
		return err
	}
	return d.FS.SyncDir(dir)
}

// Lock implements FS.
func (d byPath) Lock(name, text string) (Lock, error) {
	if _, err := within(d.dir, "lock", name); err != nil {
		return nil, err
	}
	return d.FS.Lock(name, text)
}

// FreeSpace implements FS.
func (d byPath) FreeSpace(dir string) (int64, error) {
	if err := sameAs(d.dir, "free space", dir); err != nil {
		return 0, err
	}
	return d.FS.FreeSpace(dir)
}

// Hold implements FS.
func (d byPath) Hold(dir string) (Dir, error) { return d, sameAs(d.dir, "hold", dir) }

// InPlace is nil: the Dir follows the path.
func (d byPath) InPlace() error { return nil }

// Close implements Dir.
func (d byPath) Close() error { return nil }

// Guarded is d with a check before each file is created, renamed or removed: where
// the check fails, its error is returned and nothing is done. The owner of a lock
// asks there whether the lock is still the one of the directory.
func Guarded(d Dir, check func() error) Dir { return guarded{d, check} }

type guarded struct {
	Dir
	check func() error
}

// Create implements Dir.
func (d guarded) Create(name string) (File, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return d.Dir.Create(name)
}

// Rename implements Dir.
func (d guarded) Rename(oldname, newname string) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Dir.Rename(oldname, newname)
}

// Remove implements Dir.
func (d guarded) Remove(name string) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.Dir.Remove(name)
}

// NextData returns where, at off or behind, the first byte of f lies that may not be
// zero; size, which is that of the file, if there is none. What lies between is a
// hole: zeros without a block of the device. A file that does not tell its holes has
// none.
func NextData(f File, off, size int64) (int64, error) {
	s, ok := f.(DataSeeker)
	if !ok || off >= size {
		return min(off, size), nil
	}
	at, err := s.NextData(off)
	if err != nil {
		return off, err
	}
	return max(off, min(at, size)), nil
}
