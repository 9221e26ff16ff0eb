package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
)

// ErrDetached says that a name no longer leads to what was opened by it: that was removed,
// or something else has the name now.
var ErrDetached = errors.New("the name leads to something else")

// errOutside is the error for the path of a file that is not in the held directory.
var errOutside = fmt.Errorf("not a file in the directory that is held: %w", fs.ErrInvalid)

// Dir is a directory that is held open. It is an FS for the files in that directory, whose
// paths are the path given to Hold joined with a name. Any other path is refused with an
// error that matches fs.ErrInvalid.
//
// A Dir stands for the directory itself, not for its path. It stays with the directory
// that was opened after a chdir, after a rename of the directory or of one above it, and
// when another directory is in the old place. If the directory was removed, nothing can
// be made in it any more (fs.ErrNotExist).
type Dir interface {
	FS
	// Hold holds the same directory once more, by the same path.
	Hold(dir string) (Dir, error)
	// InPlace returns nil while the path given to Hold still leads to the directory, and
	// otherwise an error that matches ErrDetached. A relative path is relative to the
	// working directory at the time of Hold.
	InPlace() error
	// Close closes the directory. Files and locks that were opened through it stay open.
	// A second Close returns fs.ErrClosed.
	Close() error
}

// Holder is a file system that can hold a directory open. It is optional; see Hold.
type Holder interface {
	// Hold opens a directory that exists.
	Hold(dir string) (Dir, error)
}

// Hold opens a directory of fsys, which must exist. With OS and Mem the Dir is the
// directory itself. With a file system that is no Holder it can only follow the path, and
// refuse all others.
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

// sameAs refuses any directory but dir.
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

// Guarded returns d with a check before each file is created, renamed or removed. If the
// check fails, nothing is done and its error is returned. It is for the owner of a lock to
// make sure that the lock is still the one in the directory.
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

// SyncParents makes the name of a new store durable, and those of the directories above it: any of them
// may be new, made by this process or by one that died since. It comes before the manifest, so that no
// store without a durable name has one. Directories further up that this process may not open are not
// new.
func SyncParents(fsys FS, dir string) error {
	parent := filepath.Dir(dir)
	if err := fsys.SyncDir(parent); err != nil {
		return fmt.Errorf("sync directory %s: %w", parent, err)
	}
	for d := filepath.Dir(parent); d != parent; parent, d = d, filepath.Dir(d) {
		if err := fsys.SyncDir(d); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("sync directory %s: %w", d, err)
		}
	}
	return nil
}

// HoldEmpty makes dir, durably below its parents, and holds it. It refuses one that
// holds anything: the error then matches fault.ErrNotEmpty.
func HoldEmpty(fsys FS, dir string) (Dir, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	d, err := Hold(fsys, dir)
	if err != nil {
		return nil, err
	}
	names, err := d.List(dir)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: it holds %q; choose another", fault.ErrNotEmpty, names[0])
	}
	if err == nil {
		err = SyncParents(fsys, dir)
	}
	if err != nil {
		_ = d.Close() // nothing was made in it
		return nil, err
	}
	return d, nil
}
