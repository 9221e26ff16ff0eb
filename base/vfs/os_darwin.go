package vfs

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncDataOS: os.File.Sync issues F_FULLFSYNC here. Plain fsync, and so
// fdatasync, stops at the drive's cache.
func syncDataOS(f *os.File) error { return f.Sync() }

// totalSpace leaves out what is kept for the superuser.
func (d *osDir) totalSpace() (int64, error) {
	return d.blocks(func(st *unix.Statfs_t) uint64 { return st.Blocks - st.Bfree + st.Bavail })
}

func (d *osDir) freeSpace() (int64, error) {
	return d.blocks(func(st *unix.Statfs_t) uint64 { return st.Bavail })
}

// blocks is a number of blocks of the device in bytes.
func (d *osDir) blocks(count func(*unix.Statfs_t) uint64) (int64, error) {
	var st unix.Statfs_t
	if err := d.call(func(dir int) error { return unix.Fstatfs(dir, &st) }); err != nil {
		return 0, err
	}
	n := count(&st)
	if st.Bsize != 0 && n > math.MaxInt64/uint64(st.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(n * uint64(st.Bsize)), nil
}

func yieldOS() {}

// chownOS changes the owner of what is at path itself.
func chownOS(path string, uid, gid int) error { return unix.Lchown(path, uid, gid) }

// identityAt is which file has a name, and its size.
func (d *osDir) identityAt(base string) (identity, int64, error) {
	st, err := d.statAt(base)
	return identityOf(&st), st.Size, err
}

// unreadableErrors are those of reading what the device, or the file system's own checksums, cannot
// give.
var unreadableErrors = []error{syscall.EIO, syscall.EBADMSG}
