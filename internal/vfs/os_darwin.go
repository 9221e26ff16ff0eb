package vfs

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// syncDataOS: os.File.Sync issues F_FULLFSYNC here. Plain fsync, and so
// fdatasync, stops at the drive's cache.
func syncDataOS(f *os.File) error { return f.Sync() }

// totalSpaceOS leaves out what is kept for the superuser.
func totalSpaceOS(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, err
	}
	blocks := st.Blocks - st.Bfree + st.Bavail
	if st.Bsize != 0 && blocks > math.MaxInt64/uint64(st.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(blocks * uint64(st.Bsize)), nil
}

func freeSpaceOS(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, err
	}
	if st.Bsize != 0 && st.Bavail > math.MaxInt64/uint64(st.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail * uint64(st.Bsize)), nil
}

func yieldOS() {}
