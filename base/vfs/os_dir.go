package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// osDir is a directory of the operating system that is held open. Nothing of it changes but
// like. The system calls it is made of are in os_unix.go and os_windows.go.
type osDir struct {
	f    *os.File // the directory
	path string   // by which it was held, clean
	abs  string   // that path from the root; "" if it is not known
	like *owner   // of the files that are made in it
}

var (
	_ Dir   = (*osDir)(nil)
	_ Sizer = (*osDir)(nil)
)

// holdOS opens a directory.
func holdOS(dir string) (*osDir, error) {
	f, err := openDirOS(dir)
	if err != nil {
		return nil, osError(err)
	}
	d := &osDir{f: f, path: filepath.Clean(dir), like: &owner{}}
	if abs, err := filepath.Abs(dir); err == nil {
		d.abs = abs
	}
	return d, nil
}

// Hold implements Dir.
func (d *osDir) Hold(dir string) (Dir, error) {
	if err := sameAs(d.path, "hold", dir); err != nil {
		return nil, err
	}
	f, err := d.reopen()
	if err != nil {
		return nil, osError(err)
	}
	return &osDir{f: f, path: d.path, abs: d.abs, like: d.like}, nil
}

// InPlace implements Dir.
func (d *osDir) InPlace() error {
	if d.abs == "" {
		return nil
	}
	there, err := os.Stat(d.abs)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return pathError("find directory", d.abs, fmt.Errorf("%w: nothing is there", ErrDetached))
	}
	if err != nil {
		return osError(err)
	}
	held, err := d.f.Stat()
	if err != nil {
		return osError(err)
	}
	if !os.SameFile(held, there) {
		return pathError("find directory", d.abs, fmt.Errorf("%w: another directory is there", ErrDetached))
	}
	return nil
}

// Close implements Dir.
func (d *osDir) Close() error { return d.f.Close() }

// open opens a regular file.
func (d *osDir) open(name string, flag int) (*osFile, error) {
	base, err := within(d.path, "open", name)
	if err != nil {
		if flag&os.O_EXCL != 0 && filepath.Clean(name) == d.path {
			err = pathError("create", name, fs.ErrExist)
		}
		return nil, err
	}
	f, id, err := d.openAt(name, base, flag)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, osEntry: osEntry{dir: d, base: base, id: id}}, nil
}

// openFile is open with the result that an interface needs.
func (d *osDir) openFile(name string, flag int) (File, error) {
	f, err := d.open(name, flag)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Create makes a new file; see FS.Create.
func (d *osDir) Create(name string) (File, error) {
	return d.openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// OpenReadWrite opens an existing file; see FS.OpenReadWrite.
func (d *osDir) OpenReadWrite(name string) (File, error) { return d.openFile(name, os.O_RDWR) }

// Open opens an existing file for reading; see FS.Open.
func (d *osDir) Open(name string) (File, error) { return d.openFile(name, os.O_RDONLY) }

// Rename replaces newname by oldname; see FS.Rename.
func (d *osDir) Rename(oldname, newname string) error {
	from, err := within(d.path, "rename", oldname)
	if err != nil {
		return err
	}
	if err := sameDir(oldname, newname); err != nil {
		return err
	}
	if err := d.renameAt(from, filepath.Base(newname)); err != nil {
		return osError(&os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err})
	}
	return nil
}

// Remove deletes a file; see FS.Remove. A directory is refused.
func (d *osDir) Remove(name string) error {
	base, err := within(d.path, "remove", name)
	if err != nil {
		return err
	}
	if err := d.removeAt(base); err != nil {
		return osError(pathError("remove", name, err))
	}
	return nil
}

// List returns the sorted names; see FS.List.
func (d *osDir) List(dir string) ([]string, error) {
	if err := sameAs(d.path, "list", dir); err != nil {
		return nil, err
	}
	f, err := d.reopen() // a listing moves a cursor
	if err != nil {
		return nil, osError(err)
	}
	entries, err := f.ReadDir(-1)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, osError(err)
	}
	return sortedNames(entries), nil
}

func sortedNames(entries []fs.DirEntry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names
}

// MkdirAll has nothing to do: the directory is there.
func (d *osDir) MkdirAll(dir string) error { return sameAs(d.path, "mkdir", dir) }

// SyncDir makes names durable; see FS.SyncDir.
func (d *osDir) SyncDir(dir string) error {
	if err := sameAs(d.path, "sync", dir); err != nil {
		return err
	}
	return osError(syncDirOS(d.f))
}

// FreeSpace is the room left for an ordinary user; see FS.FreeSpace.
func (d *osDir) FreeSpace(dir string) (int64, error) { return d.space("free space", dir, d.freeSpace) }

// TotalSpace implements Sizer.
func (d *osDir) TotalSpace(dir string) (int64, error) {
	return d.space("total space", dir, d.totalSpace)
}

func (d *osDir) space(op, dir string, ask func() (int64, error)) (int64, error) {
	if err := sameAs(d.path, op, dir); err != nil {
		return 0, err
	}
	n, err := ask()
	if err != nil {
		return 0, osError(pathError(op, dir, err))
	}
	return n, nil
}

// sameDir refuses a rename across directories: it could be durable in one of
// them and not in the other.
func sameDir(oldname, newname string) error {
	if filepath.Dir(oldname) != filepath.Dir(newname) {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: syscall.EXDEV}
	}
	return nil
}
