package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncDataOS: fdatasync(2) writes the size too whenever it changed.
func syncDataOS(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error { return unix.Fdatasync(int(fd)) })
}

// WriteBack implements WriteBacker by sync_file_range(2), which reports failed writes
// once, as fsync does. Where a kernel or a filter of calls refuses that, it is SyncData.
func (f *osFile) WriteBack(off, n int64) error {
	err := control(f.f, "sync_file_range", func(fd uintptr) error {
		return unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return f.SyncData()
	}
	return osError(err)
}

func (d *osDir) freeSpace() (int64, error) {
	st, unit, err := d.statfs()
	return saturate(st.Bavail, unit), err
}

// totalSpace leaves out what is kept for the superuser.
func (d *osDir) totalSpace() (int64, error) {
	st, unit, err := d.statfs()
	return saturate(st.Blocks-st.Bfree+st.Bavail, unit), err
}

// statfs also returns the size of the blocks that the result counts.
func (d *osDir) statfs() (st unix.Statfs_t, unit uint64, err error) {
	if err := d.call(func(dir int) error { return unix.Fstatfs(dir, &st) }); err != nil {
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

// yieldOS is sched_yield(2). Go's scheduler sees a system call, so it may give the processor
// of this thread to another goroutine if the call takes long.
func yieldOS() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// identityAt returns the identity and the size of the file with a name. It requests only these, by
// statx(2). Reading the times too, as stat(2) does, makes ext4, xfs and others give the next write a
// new time (Linux 6.13), and then the sync after that write stores the inode too: a second write to the
// device for each commit.
func (d *osDir) identityAt(base string) (identity, int64, error) {
	var st unix.Statx_t
	err := d.call(func(dir int) error {
		return unix.Statx(dir, base, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_SIZE, &st)
	})
	if err == nil {
		return identity{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, int64(st.Size), nil
	}
	// No file has the name, or an old kernel or a filter of calls refuses statx, with
	// whatever error.
	old, err := d.statAt(base)
	return identityOf(&old), old.Size, err
}

// unreadableErrors are those of reading what the device, or the file system's own checksums, cannot
// give.
var unreadableErrors = []error{syscall.EIO, syscall.EBADMSG, syscall.EUCLEAN}

// chownOS changes the owner of the socket or directory at path itself, by a descriptor: whoever may
// write to the directory could put something else there meanwhile. A file is refused, as it may be
// one of root's that was put there.
func chownOS(path string, uid, gid int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written by it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind != unix.S_IFSOCK && kind != unix.S_IFDIR:
		return unix.ENOTSOCK
	case kind == unix.S_IFSOCK && st.Nlink > 1:
		return unix.EMLINK
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}
