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
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, err
	}
	unit := st.Frsize // what blocks are counted in; 0 on old kernels
	if unit <= 0 {
		unit = st.Bsize
	}
	return saturate(st.Bavail, uint64(unit)), nil
}

func saturate(blocks, unit uint64) int64 {
	if unit != 0 && blocks > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return int64(blocks * unit)
}
