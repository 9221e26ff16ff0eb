//go:build linux || darwin

package vfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func renameOS(oldname, newname string) error { return os.Rename(oldname, newname) }

// syncDirOS syncs a directory like a file. EINVAL means that this file system
// has no such thing; the flag keeps a file from being taken for a directory.
func syncDirOS(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func lockFileOS(f *os.File) error {
	err := control(f, "flock", func(fd uintptr) error {
		return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLockHeld
	}
	return err
}

// unlockFileOS drops the lock, whoever else has the descriptor. Where it fails, closing
// the file does it.
func unlockFileOS(f *os.File) {
	_ = control(f, "unlock", func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_UN) })
}

// isFull: to a writer a spent quota is a full disk, and as temporary.
func isFull(e syscall.Errno) bool { return e == syscall.ENOSPC || e == syscall.EDQUOT }

func isInUse(syscall.Errno) bool { return false }
