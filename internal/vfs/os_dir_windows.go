package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/stele-go/stele/fault"
)

// Windows pins a directory that is open: while a handle does not share deletion, the
// directory and those above it can be neither renamed nor removed. So the path from
// the root that it had when it was opened leads to it for as long as it is held, and
// a chdir does not matter.

// identity says which file something is.
type identity struct{ fi os.FileInfo }

func (i identity) same(o identity) bool { return os.SameFile(i.fi, o.fi) }

func openDirOS(dir string) (*os.File, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p, err := windows.UTF16PtrFromString(abs)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE // and not FILE_SHARE_DELETE
	h, err := windows.CreateFile(p, windows.FILE_LIST_DIRECTORY, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	f := os.NewFile(uintptr(h), abs)
	if fi, err := f.Stat(); err != nil || !fi.IsDir() {
		_ = f.Close() // only looked at
		if err == nil {
			err = pathError("open", dir, syscall.ENOTDIR)
		}
		return nil, err
	}
	return f, nil
}

func (d *osDir) reopen() (*os.File, error) { return openDirOS(d.abs) }

// at is the path of a file in the directory.
func (d *osDir) at(base string) string { return filepath.Join(d.abs, base) }

// openAt opens a regular file. A link is looked for before, and what was opened is
// compared with what was looked at.
func (d *osDir) openAt(name, base string, flag int) (*os.File, identity, error) {
	before, err := os.Lstat(d.at(base))
	if err == nil && flag&os.O_EXCL == 0 {
		if err := refuseKind(name, before); err != nil {
			return nil, identity{}, err
		}
	}
	f, err := os.OpenFile(d.at(base), flag, fileMode)
	if err != nil {
		return nil, identity{}, osError(err)
	}
	after, err := f.Stat()
	if err == nil {
		err = refuseKind(name, after)
	}
	if err == nil && before != nil && flag&os.O_EXCL == 0 && !os.SameFile(before, after) {
		err = pathError("open", name, fmt.Errorf("%w: it was replaced", ErrDetached))
	}
	if err != nil {
		_ = f.Close() // nothing was read or written
		return nil, identity{}, err
	}
	return f, identity{after}, nil
}

func refuseKind(name string, fi os.FileInfo) error {
	kind := ""
	switch mode := fi.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeSymlink != 0:
		kind = "symbolic link"
	default:
		kind = "device"
	}
	return &fault.NotRegularError{File: name, Kind: kind}
}

// identityAt is which file has a name.
func (d *osDir) identityAt(base string) (identity, error) {
	fi, err := os.Lstat(d.at(base))
	return identity{fi}, err
}

func (d *osDir) removeAt(base string) error {
	if fi, err := os.Lstat(d.at(base)); err == nil && fi.IsDir() {
		return syscall.EISDIR
	}
	return os.Remove(d.at(base))
}
