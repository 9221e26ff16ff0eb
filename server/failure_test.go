package server

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// TestStoreUnreachable: a connection to the store that breaks is no fault of the server: the client may
// try again.
func TestStoreUnreachable(t *testing.T) {
	err := fmt.Errorf("read rows: %w", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET})
	if f, logged := failureOf(err); f.status != 503 || !logged {
		t.Errorf("%d %v", f.status, logged)
	}
}
