//go:build unix

package pgtest

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

// Relay is a proxy on a unix socket that loses answers on demand, and breaks, pauses and
// half-closes connections. No proxy of others loses the answer to one statement.
type Relay struct {
	flow     sync.RWMutex // held for writing while nothing gets through
	listener net.Listener
	server   string
	mu       sync.Mutex
	cut      func(request []byte) bool // asked once for each chunk that a client sends
	hold     chan struct{}             // a chunk that was cut is sent on when it is closed; nil: at once
	Answered chan struct{}             // gets a value when the server answers to such a chunk
	conns    []net.Conn
}

// BreakAll breaks all connections.
func (r *Relay) BreakAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// Pause lets nothing through for a while. Neither side can tell it from a slow peer.
func (r *Relay) Pause(d time.Duration) {
	r.flow.Lock()
	time.AfterFunc(d, r.flow.Unlock)
}

// HalfClose ends one direction of each connection, which one picks chooses.
func (r *Relay) HalfClose(pick func() bool) {
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
func (r *Relay) pass(to net.Conn, b []byte) {
	r.flow.RLock()
	defer r.flow.RUnlock()
	_, _ = to.Write(b)
}

// NewRelay stands before the server of a connection string, and gives the one that leads through it.
func NewRelay(t testing.TB, url string) (*Relay, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "relay")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{server: filepath.Join(cfg.Host, ".s.PGSQL.5432"), Answered: make(chan struct{}, 1)}
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

func (r *Relay) serve(client net.Conn) {
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
				case r.Answered <- struct{}{}:
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

// HangAt lets nothing through, in any direction, from the next chunk with text on, which is in
// lower case, until what it returns is called, which says whether there was one.
func (r *Relay) HangAt(text string) (resume func() bool) {
	hung := false
	r.Cut(func(b []byte) bool {
		if strings.Contains(strings.ToLower(string(b)), text) && !hung {
			hung = true
			r.flow.Lock()
		}
		return false
	}, nil)
	return func() (was bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if was, hung, r.cut = hung, false, nil; was {
			r.flow.Unlock()
		}
		return was
	}
}

// LoseNext makes the next chunk with the text of a statement lose its answer. The chunk is sent on
// when hold is closed; nil: at once. then, if any, is called when the chunk is there.
func (r *Relay) LoseNext(text string, hold chan struct{}, then ...func()) {
	r.Cut(func(b []byte) bool {
		found := strings.Contains(string(b), text)
		if found {
			for _, f := range then {
				f()
			}
		}
		return found
	}, hold)
}

// Cut makes the next chunk that cut chooses lose its answer, as LoseNext does; nil: none.
func (r *Relay) Cut(cut func(request []byte) bool, hold chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.hold = cut, hold
}
