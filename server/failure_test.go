package server

import (
	"fmt"
	"io/fs"
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

// TestUnusableFiles: a store that may not make a file, as in a directory that was made read-only, says so.
func TestUnusableFiles(t *testing.T) {
	err := fmt.Errorf("create log 000002: %w", &fs.PathError{Op: "open", Path: "store/000002.log", Err: syscall.EACCES})
	if f, logged := failureOf(err); f.status != 503 || f.detail != "The files of the store cannot be used." || !logged {
		t.Errorf("%+v %v", f, logged)
	}
}
