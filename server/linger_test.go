package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stele-go/stele/server"
)

// TestAnswersBeforeTheBody: a client that sends all of its request before it reads gets the answer,
// also if the server has it before it read the body, and may ask again on the connection.
func TestAnswersBeforeTheBody(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.MaxBody = 1000 })
	large := bytes.Repeat([]byte("x"), 16<<20) // more than the buffers of both sides
	ok := "GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		line, header string
		status       int
	}{
		"too large":         {"POST /threads", "Content-Type: application/json", http.StatusRequestEntityTooLarge},
		"no such path":      {"POST /nothing", "Content-Type: application/json", http.StatusNotFound},
		"not JSON":          {"POST /threads", "Content-Type: text/plain", http.StatusUnsupportedMediaType},
		"of another origin": {"POST /threads", "Content-Type: application/json\r\nOrigin: https://evil.example", http.StatusForbidden},
		"a wrong method":    {"PUT /threads", "Content-Type: application/json", http.StatusMethodNotAllowed},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", name, chunked), func(t *testing.T) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(h.http.URL, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				length, body := fmt.Sprintf("Content-Length: %d", len(large)), large
				if chunked {
					length, body = "Transfer-Encoding: chunked", fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(large), large)
				}
				head := fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n\r\n", c.line, c.header, length)
				for _, part := range [][]byte{[]byte(head), body, []byte(ok)} {
					if _, err := conn.Write(part); err != nil {
						t.Fatalf("sending: %v", err)
					}
				}
				in := bufio.NewReader(conn)
				for i, want := range []int{c.status, http.StatusOK} {
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("answer %d: %v", i, err)
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
						t.Fatalf("answer %d is %d, %v, not %d", i, resp.StatusCode, err, want)
					}
				}
			})
		}
	}
}

// TestUpgradeWithABody: a request that becomes a WebSocket has no body, whatever its head says.
func TestUpgradeWithABody(t *testing.T) {
	h := open(t, t.TempDir(), func(*server.Config) {})
	thread := h.ok("POST", "/threads", object{}).text1("thread_id")
	done := make(chan any, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { done <- recover() }()
		h.api.ServeHTTP(w, r)
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /threads/%s/stream/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: 5\r\n\r\n", thread); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	h.none(conn.Close())
	if p := <-done; p != nil {
		t.Errorf("the handler panics: %v", p)
	}
}
