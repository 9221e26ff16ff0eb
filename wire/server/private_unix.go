//go:build unix

package server

import (
	"context"
	"net"
	"os"
	"syscall"
)

// listenPrivate listens on a unix socket of mode 0600. Where the system takes the mode of a
// socket from its descriptor, as Linux does, nobody can connect before the mode is right.
func listenPrivate(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }) // Chmod follows
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // the first error counts
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
