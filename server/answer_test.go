package server

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
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
	if f, logged := failureOf(err); f.status != 503 || f.detail != "A file that the server needs cannot be used." || !logged {
		t.Errorf("%+v %v", f, logged)
	}
}

// TestServiceUnreachable: what a function of the program asks by HTTP, such as an embedder, is not the store.
func TestServiceUnreachable(t *testing.T) {
	_, err := http.Get("http://127.0.0.1:1/")
	if f, logged := failureOf(fmt.Errorf("embed: %w", err)); f.status != 503 || !logged || strings.Contains(f.detail, "store") || strings.Contains(f.detail, "127") {
		t.Errorf("%+v %v", f, logged)
	}
}

// TestPanicAsRefusal: a panic is never the client's fault, and its stack is for the operator.
func TestPanicAsRefusal(t *testing.T) {
	err := &channel.UpdateError{Channel: "text", Reason: "the reducer panicked", Err: &pregel.PanicError{Value: "boom", Stack: []byte("stack")}}
	if f, logged := failureOf(err); f.status != 500 || !logged || strings.Contains(f.detail, "stack") {
		t.Errorf("%+v %v", f, logged)
	}
}
