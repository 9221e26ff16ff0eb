package server

import (
	"fmt"
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
