package vfs

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// renameOS asks for write-through, because there is no SyncDir to make the new
// name durable afterwards.
func renameOS(oldname, newname string) error {
	link := func(err error) error {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	from, err := windows.UTF16PtrFromString(oldname)
	if err != nil {
		return link(err)
	}
	to, err := windows.UTF16PtrFromString(newname)
	if err != nil {
		return link(err)
	}
	const flags = windows.MOVEFILE_REPLACE_EXISTING | windows.MOVEFILE_WRITE_THROUGH
	if err := windows.MoveFileEx(from, to, flags); err != nil {
		return link(err)
	}
	return nil
}

// syncDirOS: Windows has no such thing; NTFS journals names in order.
func syncDirOS(string) error { return nil }

// syncDataOS: os.File.Sync is FlushFileBuffers, the only sync there is.
func syncDataOS(f *os.File) error { return f.Sync() }

// lockFileOS locks one byte far behind the text. Locks are mandatory on
// Windows: one that covered the text would keep others from reading who holds
// the store.
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

func freeSpaceOS(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var avail uint64
	if err := windows.GetDiskFreeSpaceEx(p, &avail, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(avail, math.MaxInt64)), nil
}

func totalSpaceOS(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var total uint64
	if err := windows.GetDiskFreeSpaceEx(p, nil, &total, nil); err != nil {
		return 0, err
	}
	return int64(min(total, math.MaxInt64)), nil
}

func isFull(e syscall.Errno) bool {
	return e == windows.ERROR_DISK_FULL || e == windows.ERROR_HANDLE_DISK_FULL || e == syscall.ENOSPC
}

func isInUse(e syscall.Errno) bool { return e == windows.ERROR_SHARING_VIOLATION }

func yieldOS() {}
