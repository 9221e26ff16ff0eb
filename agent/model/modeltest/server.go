// Package modeltest tests models that speak with a provider: a local server that answers what it was
// told to, and the tests that all of them share.
//
// It is for this repository, and makes no promise to others.
package modeltest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Reply is an answer of a server to one request.
type Reply struct {
	Status int // 0 is 200
	Header map[string]string
	// Events are sent one after the other, as text/event-stream.
	Events []string
	// Body is sent in place of Events, as JSON.
	Body string
	// Reset breaks the connection before anything is sent.
	Reset bool
	// Cut breaks the connection behind the last event.
	Cut bool
	// Hold keeps the connection open behind the last event, until the client leaves.
	Hold bool
}

// Asked is a request that a server got.
type Asked struct {
	Path   string
	Header http.Header
	Body   map[string]any
}

// Server is a provider on a local port. It gives each of its replies once, in their order, and then
// status 418.
type Server struct {
	URL string

	http *httptest.Server
	// left is closed when a client has left a reply with Hold.
	left chan struct{}
	mu   sync.Mutex
	next []Reply
	got  []Asked
}

// Serve starts a server.
func Serve(replies ...Reply) *Server {
	s := &Server{next: replies, left: make(chan struct{})}
	s.http = httptest.NewServer(http.HandlerFunc(s.handle))
	s.URL = s.http.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Left is closed when a client has left a reply that holds.
func (s *Server) Left() <-chan struct{} { return s.left }

// Asked returns the requests so far.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	asked := Asked{Path: r.URL.Path, Header: r.Header}
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &asked.Body)
	}
	s.mu.Lock()
	s.got = append(s.got, asked)
	reply := Reply{Status: http.StatusTeapot, Body: "{}"}
	if len(s.next) > 0 && err == nil {
		reply, s.next = s.next[0], s.next[1:]
	}
	s.mu.Unlock()
	if reply.Reset {
		s.reset(w)
		return
	}
	for k, v := range reply.Header {
		w.Header().Set(k, v)
	}
	kind := "application/json"
	if reply.Events != nil {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	if reply.Status == 0 {
		reply.Status = http.StatusOK
	}
	w.WriteHeader(reply.Status)
	parts := reply.Events
	if parts == nil {
		parts = []string{reply.Body}
	}
	for _, part := range parts {
		if _, err := io.WriteString(w, part); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // a client that left is no matter of the server
	}
	switch {
	case reply.Cut:
		panic(http.ErrAbortHandler)
	case reply.Hold:
		<-r.Context().Done()
		close(s.left)
	}
}

// reset breaks a connection so that the client sees it immediately.
func (s *Server) reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing then sends a reset
	}
	_ = conn.Close()
}
