//go:build linux || darwin

package vfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

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
