// Package port finds ports for servers of tests that must be told theirs before they start.
//
// It is for this repository, and makes no promise to others.
package port

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// first and most are a range of ports that systems do not hand out as free ports by default. A free
// port that the system handed out, and that was closed so that a server can use it, may be handed out
// to another process before the server listens, and again whenever the server restarts.
const first, most = 15000, 15000

// Free returns a TCP port at which nothing listens on the loopback device.
func Free() (int, error) {
	var err error
	for range 100 {
		port := first + rand.IntN(most)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.Join(errors.New("no port is free"), err)
}
