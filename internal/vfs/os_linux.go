package vfs

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// syncDataOS: fdatasync(2) writes the size too whenever it changed.
func syncDataOS(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}

func freeSpaceOS(dir string) (int64, error) {
	st, unit, err := statfs(dir)
	return saturate(st.Bavail, unit), err
}

// totalSpaceOS leaves out what is kept for the superuser.
func totalSpaceOS(dir string) (int64, error) {
	st, unit, err := statfs(dir)
	return saturate(st.Blocks-st.Bfree+st.Bavail, unit), err
}

// statfs also returns what blocks are counted in.
func statfs(dir string) (st unix.Statfs_t, unit uint64, err error) {
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return st, 0, err
	}
	if st.Frsize > 0 { // 0 on old kernels
		return st, uint64(st.Frsize), nil
	}
	return st, uint64(st.Bsize), nil
}

func saturate(blocks, unit uint64) int64 {
	if unit != 0 && blocks > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return int64(blocks * unit)
}
