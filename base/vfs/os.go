package vfs

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
)

// Modes of new files and directories, before the umask. The owner writes, and the group
// may read, for backups and readers in other processes. Others see nothing: a store
// holds conversations.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// OS is the file system of the operating system. It has no state of its own; the zero value is ready
// and all values are equal.
//
// Only EINTR is ever retried. A failed Sync, SyncData or SyncDir is not: common file systems mark the
// pages clean all the same, so that a second call would succeed without having written anything.
//
// Files are made with mode 0640 and directories with 0750, less the umask. Once a Dir has locked a
// file, new files have the owner, group and mode of that one, or are refused, so that whoever made a
// store can open all of it. Without a lock, files that root makes get the owner and group of their
// directory. Locks are advisory and not to be relied on over network file systems.
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

// at calls do with the directory of a file, which is held open meanwhile.
func (OS) at(name string, do func(*osDir) error) error {
	d, err := holdOS(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // only looked through
	return do(d)
}

// open opens a file and its directory, which stays open as long as the file.
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

// Remove deletes a file; see FS.Remove. A directory is refused, even an empty one. Of a link, the link
// itself is removed, not its target.
func (o OS) Remove(name string) error {
	return o.at(name, func(d *osDir) error { return d.Remove(name) })
}

// in calls do with a directory, which is held open meanwhile.
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
func (OS) MkdirAll(dir string) error { return osError(mkdirAllOS(filepath.Clean(dir))) }

// SyncDir makes names in dir durable; see FS.SyncDir.
func (o OS) SyncDir(dir string) error {
	if !syncsDirs {
		return nil // without opening it, which may not be permitted
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

// Lock takes the lock; see FS.Lock. It succeeds even if the text cannot be written,
// because the disk is full.
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

// NotRegular returns a *fault.NotRegularError if mode is not that of a regular file. It is for files that are opened by
// their path with O_NONBLOCK: to open a named pipe without that waits for ever.
func NotRegular(name string, mode fs.FileMode) error {
	kind := "device"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeSymlink != 0:
		kind = "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	}
	return &fault.NotRegularError{File: name, Kind: kind}
}
