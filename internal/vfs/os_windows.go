package vfs

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

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

func (d *osDir) freeSpace() (int64, error) {
	avail, _, err := d.room()
	return avail, err
}

func (d *osDir) totalSpace() (int64, error) {
	_, total, err := d.room()
	return total, err
}

// room is what an ordinary user can still write to the device, and its size.
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
