//go:build !unix

package server

import "net"

// listenPrivate listens on a unix socket.
func listenPrivate(path string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}
