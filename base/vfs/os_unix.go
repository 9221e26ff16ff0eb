//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stele-go/stele/base/fault"
)

// identity says which file something is.
type identity struct{ dev, ino uint64 }

func (i identity) same(o identity) bool { return i == o }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

// openDirOS opens a directory. O_DIRECTORY refuses anything else, before a FIFO can block.
func openDirOS(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// reopen opens the directory once more.
func (d *osDir) reopen() (*os.File, error) {
	var fd int
	err := d.call(func(dir int) (err error) {
		fd, err = unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, pathError("open", d.path, err)
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// call makes a system call relative to the directory.
func (d *osDir) call(do func(dir int) error) error {
	return withFd(d.f, func(fd uintptr) error { return do(int(fd)) })
}

// openAt opens a regular file by its name in the directory. It never uses O_APPEND, with
// which pwrite ignores its offset on Linux.
//
// Anything but a regular file is refused without being opened, since that would be
// noticed at the other end of a FIFO, and might start a device. The check is made again
// after opening, in case something else was put there in between; till then O_NOFOLLOW
// refuses links, and O_NONBLOCK keeps a FIFO from blocking.
func (d *osDir) openAt(name, base string, flag int) (*os.File, identity, error) {
	if err := d.refuseAt(name, base, flag); err != nil {
		return nil, identity{}, err
	}
	fd, err := d.openFd(base, flag)
	if err != nil {
		return nil, identity{}, d.openError(name, base, err)
	}
	id, err := regularFd(name, fd, flag)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if made := flag&os.O_EXCL != 0; err == nil && made {
		if err = d.keepOwner(name, fd); err != nil {
			_ = d.removeAt(base) // the first error counts
		}
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was read or written
		return nil, identity{}, err
	}
	return os.NewFile(uintptr(fd), name), id, nil
}

// openFd opens the file with a name, unless it is a link.
func (d *osDir) openFd(base string, flag int) (fd int, err error) {
	err = d.call(func(dir int) (err error) {
		fd, err = unix.Openat(dir, base, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, fileMode)
		return err
	})
	return fd, err
}

// regularFd returns an error if the opened file is not a regular file.
func regularFd(name string, fd, flag int) (identity, error) {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return identity{}, osError(pathError("stat", name, err))
	}
	if err := refuseStat(name, &st, flag); err != nil {
		return identity{}, err
	}
	return identityOf(&st), nil
}

// openError returns the error of a file that could not be opened. If it is not a regular file, the
// error says so.
func (d *osDir) openError(name, base string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		if st, serr := d.statAt(base); serr == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			return refuseStat(name, &st, 0)
		}
	}
	return osError(pathError("open", name, d.saysWhose(base, err)))
}

// refuseAt refuses a file by its name, without opening it, unless the file is to be made.
func (d *osDir) refuseAt(name, base string, flag int) error {
	st, err := d.statAt(base)
	if err != nil || flag&os.O_EXCL != 0 {
		return nil // the error comes when it is opened
	}
	return refuseStat(name, &st, flag)
}

// refuseStat refuses anything but a regular file, and a file with more than one name if it
// is to be written to.
func refuseStat(name string, st *unix.Stat_t, flag int) error {
	kind := ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if flag&os.O_RDWR == 0 || st.Nlink <= 1 {
			return nil
		}
		kind = fmt.Sprintf("file with %d links", st.Nlink)
	case unix.S_IFLNK:
		kind = "symbolic link"
	case unix.S_IFIFO:
		kind = "named pipe"
	case unix.S_IFDIR:
		kind = "directory"
	case unix.S_IFSOCK:
		kind = "socket"
	default:
		kind = "device"
	}
	return &fault.NotRegularError{File: name, Kind: kind}
}

func (d *osDir) statAt(base string) (st unix.Stat_t, err error) {
	err = d.call(func(dir int) error { return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// renameAt renames a file. The system refuses to put it in the place of a directory.
func (d *osDir) renameAt(from, to string) error {
	return d.saysWhose("", d.call(func(dir int) error { return unix.Renameat(dir, from, dir, to) }))
}

func (d *osDir) removeAt(base string) error {
	err := d.call(func(dir int) error { return unix.Unlinkat(dir, base, 0) })
	if errors.Is(err, unix.EPERM) { // some systems return this for a directory
		if st, serr := d.statAt(base); serr == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return syscall.EISDIR
		}
	}
	return d.saysWhose("", err)
}

// syncsDirs: the system syncs directories.
const syncsDirs = true

// syncDirOS syncs a directory. EINVAL and ENOTSUP mean that the file system has no such
// thing.
func syncDirOS(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// NextData implements DataSeeker by lseek(2). A file system that does not know its holes
// says so, or that there are none. The cursor that lseek moves is not used by anything.
func (f *osFile) NextData(off int64) (int64, error) {
	var at int64
	err := withFd(f.f, func(fd uintptr) (err error) {
		at, err = unix.Seek(int(fd), off, unix.SEEK_DATA)
		return err
	})
	switch {
	case errors.Is(err, unix.ENXIO): // nothing but a hole, or the end
		return f.Size()
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP):
		return off, nil
	case err != nil:
		return 0, osError(pathError("seek data", f.f.Name(), err))
	}
	return at, nil
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

// unlockFileOS drops the lock, even if another process has a copy of the descriptor. If it
// fails, closing the file does that.
func unlockFileOS(f *os.File) {
	_ = control(f, "unlock", func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_UN) })
}

// isFull counts a spent quota as a full disk: a writer can do as much about it.
func isFull(e syscall.Errno) bool { return e == syscall.ENOSPC || e == syscall.EDQUOT }

func isInUse(syscall.Errno) bool { return false }
