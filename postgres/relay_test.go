package postgres_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// relay is a proxy on a unix socket that loses answers on demand, and breaks, pauses and
// half-closes connections. No proxy of others loses the answer to one statement.
type relay struct {
	flow     sync.RWMutex // held for writing while nothing gets through
	listener net.Listener
	server   string
	mu       sync.Mutex
	cut      func(request []byte) bool // asked once for each chunk that a client sends
	hold     chan struct{}             // a chunk that was cut is sent on when it is closed; nil: at once
	answered chan struct{}             // gets a value when the server answers to such a chunk
	conns    []net.Conn
}

// breakAll breaks all connections.
func (r *relay) breakAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// pause lets nothing through for a while. Neither side can tell it from a slow peer.
func (r *relay) pause(d time.Duration) {
	r.flow.Lock()
	time.AfterFunc(d, r.flow.Unlock)
}

// halfClose ends one direction of each connection, which one picks chooses.
func (r *relay) halfClose(pick func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.conns); i += 2 {
		c := r.conns[i]
		if pick() {
			c = r.conns[i+1]
		}
		_ = c.(*net.UnixConn).CloseWrite()
	}
}

// pass writes what the other side has sent.
func (r *relay) pass(to net.Conn, b []byte) {
	r.flow.RLock()
	defer r.flow.RUnlock()
	_, _ = to.Write(b)
}

func newRelay(t testing.TB, url string) (*relay, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "relay")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{server: filepath.Join(cfg.Host, ".s.PGSQL.5432"), answered: make(chan struct{}, 1)}
	if r.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.listener.Close(); os.RemoveAll(dir) })
	go func() {
		for {
			c, err := r.listener.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r, strings.Replace(url, cfg.Host, dir, 1)
}

func (r *relay) serve(client net.Conn) {
	server, err := net.Dial("unix", r.server)
	if err != nil {
		client.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	var lost atomic.Bool
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, err := server.Read(b)
			if err != nil || lost.Load() {
				client.Close()
				if err != nil {
					return
				}
				select {
				case r.answered <- struct{}{}:
				default:
				}
				continue
			}
			r.pass(client, b[:n])
		}
	}()
	b := make([]byte, 1<<20)
	for {
		n, err := client.Read(b)
		if n > 0 {
			r.mu.Lock()
			cut, hold := r.cut != nil && r.cut(b[:n]), r.hold
			if cut {
				r.cut = nil
			}
			r.mu.Unlock()
			if cut {
				lost.Store(true)
				if hold != nil {
					client.Close()
					<-hold
				}
			}
			r.pass(server, b[:n])
			if cut {
				time.AfterFunc(time.Second, func() { server.Close() }) // it has done its work long before
				return
			}
		}
		if err != nil {
			if !lost.Load() {
				server.Close()
			}
			return
		}
	}
}

// hangAt lets nothing through, in any direction, from the next chunk with text on, which is in
// lower case, until what it returns is called.
func (r *relay) hangAt(text string) (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hung := false
	r.cut = func(b []byte) bool {
		if strings.Contains(strings.ToLower(string(b)), text) && !hung {
			hung = true
			r.flow.Lock()
		}
		return false
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.cut = nil; hung {
			r.flow.Unlock()
		}
	}
}

// loseNext makes the next chunk with the text of a statement lose its answer.
func (r *relay) loseNext(text string, hold chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.hold = func(b []byte) bool { return strings.Contains(string(b), text) }, hold
}
