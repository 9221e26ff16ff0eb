//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
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
	flow     sync.RWMutex // held for writing while nothing gets through to the server
	back     sync.RWMutex // likewise to clients
	listener net.Listener
	server   string
	mu       sync.Mutex
	cut      func(request []byte) bool // asked once for each chunk that a client sends
	hold     chan struct{}             // a chunk that was cut is sent on when it is closed; nil: immediately
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
	r.stop(true)
	time.AfterFunc(d, func() { r.goOn(true) })
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

// stop lets no answers through, and, with requests, nothing at all.
func (r *Relay) stop(requests bool) {
	r.back.Lock()
	if requests {
		r.flow.Lock()
	}
}

func (r *Relay) goOn(requests bool) {
	if requests {
		r.flow.Unlock()
	}
	r.back.Unlock()
}

// pass writes bytes of the other side.
func pass(flow *sync.RWMutex, to net.Conn, b []byte) {
	flow.RLock()
	defer flow.RUnlock()
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
	socket := fmt.Sprint(".s.PGSQL.", cfg.Port)
	r := &Relay{server: filepath.Join(cfg.Host, socket), Answered: make(chan struct{}, 1)}
	if r.listener, err = net.Listen("unix", filepath.Join(dir, socket)); err != nil {
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
			pass(&r.back, client, b[:n])
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
			pass(&r.flow, server, b[:n])
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

// HangAt lets nothing through, in any direction, from the next chunk with text on, which must be in
// lower case, until resume is called, which reports whether there was such a chunk. then is called when
// the chunk is there.
func (r *Relay) HangAt(text string, then ...func()) (resume func() bool) {
	return r.hangAt(true, func(b []byte) bool {
		found := strings.Contains(strings.ToLower(string(b)), text)
		if found {
			for _, f := range then {
				f()
			}
		}
		return found
	})
}

// hangAt is HangAt from the chunk on that at accepts. Without requests, that chunk and later ones still
// reach the server, but no answer comes back.
func (r *Relay) hangAt(requests bool, at func(b []byte) bool) (resume func() bool) {
	hung := false
	r.Cut(func(b []byte) bool {
		if !hung && at(b) {
			hung = true
			r.stop(requests)
		}
		return false
	}, nil)
	return func() (was bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if was, hung, r.cut = hung, false, nil; was {
			r.goOn(requests)
		}
		return was
	}
}

// atOnce bounds the calls of InSilence that wait at a time.
var atOnce = make(chan struct{}, 40)

// InSilence makes a call again and again. Nothing gets through from the first chunk on that it sends,
// or from the second on, and so on, until it sends no more. Each is made twice: so that the
// server does not get the chunk, and so that its answers do not come. The call has to end all the
// same before anything gets through again; then after is called with its error. try makes the two
// for the address of a server. Of a call that sends very many chunks, some are looked at.
func InSilence(t testing.TB, url string, try func(url string) (call func() error, after func(error) error)) {
	t.Helper()
	chunks := chunksOf(t, url, try)
	var tries sync.WaitGroup
	for _, requests := range []bool{true, false} {
		for chunk := 1; chunk <= chunks; chunk += 1 + chunk/12*chunk/2 {
			atOnce <- struct{}{}
			tries.Go(func() {
				defer func() { <-atOnce }()
				r, through := NewRelay(t, url)
				call, after := try(through)
				sent := 0
				resume := r.hangAt(requests, func([]byte) bool { sent++; return sent == chunk })
				ended := make(chan error, 1)
				go func() { ended <- call() }()
				at := fmt.Sprintf("chunk %d (which the server gets: %v)", chunk, !requests)
				var err error
				select {
				case err = <-ended:
				case <-time.After(time.Minute):
					t.Errorf("%s: the call does not end before the server is back", at)
				}
				resume()
				if err := after(err); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			})
		}
	}
	tries.Wait()
}

// Patiently calls f until the server has answered in time: a machine that pauses looks like a server
// that is silent.
func Patiently[T any](f func() (T, error)) (v T, err error) {
	for {
		if v, err = f(); !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
	}
}

// chunksOf is how many chunks a call sends.
func chunksOf(t testing.TB, url string, try func(url string) (call func() error, after func(error) error)) int {
	t.Helper()
	for {
		r, through := NewRelay(t, url)
		call, after := try(through)
		sent := 0
		stop := r.hangAt(true, func([]byte) bool { sent++; return false })
		err := call()
		stop()
		if after := after(err); after != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a server that answers: %v %v", err, after)
		}
		if !errors.Is(err, context.DeadlineExceeded) { // else the machine was paused
			return sent
		}
	}
}

// LoseNext makes the next chunk with the text of a statement lose its answer. The chunk is sent on when
// hold is closed; nil: immediately. then, if any, is called when the chunk is there.
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
