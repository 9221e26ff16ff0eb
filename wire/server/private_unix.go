//go:build unix

package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// listenPrivate listens on a unix socket of mode 0600. Linux takes the mode of a socket from its
// descriptor, so that nobody can connect before the mode is right. Other systems do not; there the
// socket is changed by its name, and no link out of its directory is followed.
func listenPrivate(path string) (*net.UnixListener, error) {
	byFd := runtime.GOOS == "linux"
	lc := net.ListenConfig{}
	if byFd {
		lc.Control = func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) })
			return errors.Join(err, failed)
		}
	}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if !byFd {
		if err := chmodIn(filepath.Dir(path), filepath.Base(path)); err != nil {
			_ = l.Close() // the first error counts
			return nil, err
		}
	}
	return l.(*net.UnixListener), nil
}

func chmodIn(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written by it
	return root.Chmod(name, 0o600)
}

// mayEnter reports whether the owner of a store may enter a directory.
func mayEnter(dir, store fs.FileInfo) bool {
	d, ok := dir.Sys().(*syscall.Stat_t)
	s, also := store.Sys().(*syscall.Stat_t)
	return dir.Mode().Perm()&0o001 != 0 || ok && also && d.Uid == s.Uid
}
