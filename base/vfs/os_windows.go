package vfs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// On Windows the directories above an open one, and that one, can be neither renamed nor
// removed while the handle does not share deletion. So the absolute path of a directory
// leads to it for as long as it is held open.

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

// openAt opens a regular file. It looks for a link before, and compares what it opened with
// what it saw.
func (d *osDir) openAt(name, base string, flag int) (*os.File, identity, error) {
	before, err := os.Lstat(d.at(base))
	if err == nil && flag&os.O_EXCL == 0 {
		if err := NotRegular(name, before.Mode()); err != nil {
			return nil, identity{}, err
		}
	}
	f, err := os.OpenFile(d.at(base), flag, fileMode)
	if err != nil {
		return nil, identity{}, osError(err)
	}
	after, err := f.Stat()
	if err == nil {
		err = NotRegular(name, after.Mode())
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

// owner: files have the rights of their directory.
type owner struct{}

func (*owner) of(*os.File) {}

func mkdirAllOS(dir string) error { return os.MkdirAll(dir, dirMode) }

// mayGive is nil: files have the rights of their directory.
func mayGive(*os.File) error { return nil }

// KeepOwner does nothing: files have the rights of their directory.
func KeepOwner(string, string) error { return nil }

// KeepFileOwner does nothing: files have the rights of their directory.
func KeepFileOwner(*os.File, string) error { return nil }

// identityAt is which file has a name, and its size.
func (d *osDir) identityAt(base string) (identity, int64, error) {
	fi, err := os.Lstat(d.at(base))
	if err != nil {
		return identity{}, 0, err
	}
	return identity{fi}, fi.Size(), nil
}

func (d *osDir) removeAt(base string) error {
	if fi, err := os.Lstat(d.at(base)); err == nil && fi.IsDir() {
		return syscall.EISDIR
	}
	return os.Remove(d.at(base))
}

// renameAt asks for write-through, because there is no SyncDir to make the new
// name durable afterwards.
func (d *osDir) renameAt(from, to string) error {
	old, err := windows.UTF16PtrFromString(d.at(from))
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(d.at(to))
	if err != nil {
		return err
	}
	const flags = windows.MOVEFILE_REPLACE_EXISTING | windows.MOVEFILE_WRITE_THROUGH
	return windows.MoveFileEx(old, name, flags)
}

// syncsDirs: there is no such thing.
const syncsDirs = false

// syncDirOS: Windows has no such thing; NTFS journals names in order.
func syncDirOS(*os.File) error { return nil }

// syncDataOS: os.File.Sync is FlushFileBuffers, the only sync there is.
func syncDataOS(f *os.File) error { return f.Sync() }

// lockFileOS locks one byte far behind the text. Locks are mandatory on Windows: if the text
// were locked, nobody could read who holds the store.
func lockFileOS(f *os.File) error {
	err := control(f, "lock", func(fd uintptr) error {
		const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		at := windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}
		return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &at)
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLockHeld
	}
	return err
}

// unlockFileOS: the lock ends with the handle, which no other process inherits.
func unlockFileOS(*os.File) {}

func (d *osDir) freeSpace() (int64, error) {
	avail, _, err := d.room()
	return avail, err
}

func (d *osDir) totalSpace() (int64, error) {
	_, total, err := d.room()
	return total, err
}

// room returns how many bytes an ordinary user can still write to the device, and its size.
func (d *osDir) room() (avail, total int64, err error) {
	p, err := windows.UTF16PtrFromString(d.abs)
	if err != nil {
		return 0, 0, err
	}
	var a, t uint64
	if err := windows.GetDiskFreeSpaceEx(p, &a, &t, nil); err != nil {
		return 0, 0, err
	}
	return int64(min(a, math.MaxInt64)), int64(min(t, math.MaxInt64)), nil
}

func isFull(e syscall.Errno) bool {
	return e == windows.ERROR_DISK_FULL || e == windows.ERROR_HANDLE_DISK_FULL || e == syscall.ENOSPC
}

func isInUse(e syscall.Errno) bool { return e == windows.ERROR_SHARING_VIOLATION }

func yieldOS() {}

// unreadableErrors are those of reading what the device, or the file system's own checksums, cannot
// give.
var unreadableErrors = []error{syscall.EIO, windows.ERROR_CRC, windows.ERROR_SECTOR_NOT_FOUND, windows.ERROR_READ_FAULT, windows.ERROR_IO_DEVICE}
