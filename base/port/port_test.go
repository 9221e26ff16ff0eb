package port

import (
	"net"
	"strconv"
	"testing"
)

// What is free can be listened at, and is not found again then.
func TestFree(t *testing.T) {
	for range 100 {
		n, err := Free()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
