//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// owner is the owner of the files of a directory: that of the file that was locked there. A command
// that an administrator runs on the store of a service must leave nothing behind that the service
// cannot open.
type owner struct{ is atomic.Pointer[unix.Stat_t] }

// of takes the owner of a file as that of all files created later.
func (o *owner) of(f *os.File) {
	var st unix.Stat_t
	if withFd(f, func(fd uintptr) error { return unix.Fstat(int(fd), &st) }) == nil {
		o.is.Store(&st)
	}
}

// mayGive returns an error if root may not give files the owner of the locked file f: a container may
// have taken CAP_CHOWN from it. Then no file need be made to find that out. It is asked by giving f to
// whom it belongs already.
func mayGive(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil // who may open f is of its group
	}
	return withFd(f, func(fd uintptr) error {
		var st unix.Stat_t
		if err := unix.Fstat(int(fd), &st); err != nil || st.Uid == 0 || st.Mode&0o006 == 0o006 {
			return err
		}
		err := unix.Fchown(int(fd), int(st.Uid), int(st.Gid))
		if !errors.Is(err, fs.ErrPermission) || st.Mode&0o060 == 0o060 && inGroup(int(st.Gid)) {
			return nil // given, or a file system that has no owners
		}
		return otherOwner(st.Uid, err)
	})
}

// inGroup reports whether this process has a group.
func inGroup(gid int) bool {
	groups, err := os.Getgroups()
	return gid == os.Getegid() || err == nil && slices.Contains(groups, gid)
}

// keepOwner gives a new file the owner of the others.
func (d *osDir) keepOwner(name string, fd int) error {
	like, locked := d.like.is.Load(), true
	if like == nil {
		if os.Geteuid() != 0 {
			return nil
		}
		like, locked = &unix.Stat_t{}, false
		if err := d.call(func(dir int) error { return unix.Fstat(dir, like) }); err != nil {
			return osError(pathError("stat", d.path, err))
		}
	}
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return osError(pathError("stat", name, err))
	}
	// The group, then the mode, which is meant for that group, and the owner last: to change the mode of a file of
	// somebody else's takes CAP_FOWNER. An owner who is not in the group has its own rights.
	group := st.Gid == like.Gid || unix.Fchown(fd, -1, int(like.Gid)) == nil
	mode := uint32(like.Mode)&0o666 | 0o600
	if locked && uint32(st.Mode)&0o666 != mode {
		err := unix.Fchmod(fd, mode)
		shown := errors.Is(err, unix.EPERM) && st.Mode&0o600 == 0o600 // the system shows modes that it does not keep, as of a share of SMB
		if err != nil && !shown {
			return osError(pathError("chmod", name, err))
		}
	}
	if st.Uid == like.Uid {
		return nil
	}
	if err := unix.Fchown(fd, int(like.Uid), -1); err != nil {
		// The owner can open the file as well if a group that both are in may, or everybody.
		if !locked || (!group || mode&0o060 != 0o060) && mode&0o006 != 0o006 {
			return &fs.PathError{Op: "create", Path: name, Err: otherOwner(like.Uid, err)}
		}
	}
	return nil
}

// saysWhose adds what is wrong with the owner or the mode of the file, or else of the directory, to a refusal.
func (d *osDir) saysWhose(base string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	st, serr := d.statAt(base)
	if serr != nil {
		if serr = d.call(func(dir int) error { return unix.Fstat(dir, &st) }); serr != nil {
			return err
		}
	}
	return whose(&st, err)
}

// whose adds to a refusal what about the file or directory st is in this process's way: its owner, or its mode. It
// is neither if root is refused with EPERM, as by an attribute that chattr has set.
func whose(st *unix.Stat_t, err error) error {
	if os.Geteuid() == 0 && errors.Is(err, unix.EPERM) {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return otherOwner(st.Uid, err)
	}
	what, needs, add := "the file", uint32(0o600), "u+rw"
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		what, needs, add = "the directory", 0o700, "u+rwx"
	}
	if mode := uint32(st.Mode); mode&needs != needs {
		return fmt.Errorf("%w: %s has mode %04o: chmod %s it", err, what, mode&0o7777, add)
	}
	return err
}

// otherOwner adds to err that another user owns the files, and as which user to run this program.
func otherOwner(uid uint32, err error) error {
	or := " or as root"
	if os.Geteuid() == 0 {
		or = ""
		if errors.Is(err, unix.EPERM) { // a change of owner; EACCES is for want of other rights
			or = " or with the capability CAP_CHOWN, which this root does not have"
		}
	}
	return fmt.Errorf("%w: it belongs to user %d, and this process is user %d: run it as that user (sudo -u '#%d' …)%s", err, uid, os.Geteuid(), uid, or)
}

// mkdirAllOS makes directories. A directory that root makes belongs to the owner of its parent.
func mkdirAllOS(dir string) error {
	if os.Geteuid() != 0 {
		err := os.MkdirAll(dir, dirMode)
		var at *fs.PathError
		var st unix.Stat_t
		if errors.Is(err, fs.ErrPermission) && errors.As(err, &at) && unix.Stat(filepath.Dir(at.Path), &st) == nil && int(st.Uid) == os.Geteuid() { // a parent of somebody else is no store
			err = whose(&st, err)
		}
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
		return os.MkdirAll(dir, dirMode) // returns the error if dir is no directory
	}
	if err := mkdirAllOS(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return os.MkdirAll(dir, dirMode)
		}
		return err
	}
	if err := KeepOwner(dir, filepath.Dir(dir)); err != nil {
		_ = os.Remove(dir) // it is empty
		return err
	}
	return nil
}

// KeepOwner gives a socket or directory that root made at path the owner and group of the file at like.
// It follows no link at path, and on Linux changes no other kind of file. It does nothing for users
// other than root. To a root that may not change owners it is an error, unless the owner is right.
func KeepOwner(path, like string) error {
	return keepOwnerOf(path, like, func(st *unix.Stat_t) error { return unix.Lstat(path, st) },
		func(uid, gid int) error { return chownOS(path, uid, gid) })
}

// KeepFileOwner is KeepOwner for a file that root has made and has open.
func KeepFileOwner(f *os.File, like string) error {
	return keepOwnerOf(f.Name(), like, func(st *unix.Stat_t) error {
		return withFd(f, func(fd uintptr) error { return unix.Fstat(int(fd), st) })
	}, f.Chown)
}

func keepOwnerOf(name, like string, stat func(*unix.Stat_t) error, chown func(uid, gid int) error) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(like, &st); err != nil {
		return osError(pathError("stat", like, err))
	}
	err := chown(int(st.Uid), int(st.Gid))
	if errors.Is(err, fs.ErrPermission) {
		var have unix.Stat_t
		if stat(&have) == nil && have.Uid == st.Uid {
			return nil // an owner who is not in the group has its own rights
		}
		err = otherOwner(st.Uid, err)
	}
	if err != nil {
		return osError(pathError("chown", name, err))
	}
	return nil
}
