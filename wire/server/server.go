package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
)

// Options say what a Server serves, and to whom. The zero value of a field is its default.
type Options struct {
	// Saver is the saver to serve. Required. If it is a saver.Eraser, that is served too. A *disk.Saver
	// stores which calls were done in the transactions of their effects; with others the server
	// remembers it, as long as it runs.
	Saver saver.Saver
	// Items is the long-term store beside it; nil: there is none.
	Items store.Store
	// Store says which store it is: "disk", "memory" or "postgres".
	Store string
	// StoreID identifies the store, for clients that must not continue with another one that they find
	// in its place; "": unknown.
	StoreID string
	// Version is the version of the server, for clients to show.
	Version string
	// Token is the token that clients must send on connections of listeners that require one.
	Token string
	// Alive is asked every second and before each call, so it must be quick. Its error, such as
	// that the directory of the store was moved away, ends Serve, and nothing is called any
	// more: clients look for the server where it should be. nil: not asked.
	Alive func() error
	// Stats returns the figures of the store, for the method stats; nil: it is not served.
	Stats func() map[string]int64

	MaxFrame       int           // bytes; default wire.DefaultMaxFrame
	MaxCalls       int           // concurrent calls of a connection; default 256
	MaxConnections int           // default 1,024
	Idle           time.Duration // after which an unused connection is closed; default an hour
	IdleExit       time.Duration // without connections, after which Serve returns; 0: never
	First          time.Duration // that IdleExit waits longer for the first connection; default 15 s, as long as a client looks for a server
	Grace          time.Duration // for calls in progress when Serve is told to end; default 10 s
	Stall          time.Duration // for a peer that takes or sends nothing in the middle of a frame; default 30 s
	Greeting       time.Duration // for the first request; default 10 s
	Logger         *slog.Logger  // default: none
}

// maxValue is the largest value that stores take, for clients to know.
const maxValue = 64 << 20

// ErrIdle is returned by Serve when no connection has been open for Options.IdleExit, or none has come.
var ErrIdle = errors.New("no connection for as long as the server waits")

// ErrUnavailable is returned by Serve when the store takes no more writes.
var ErrUnavailable = errors.New("the store takes no more writes")

// Listener is where a Server takes connections.
type Listener struct {
	net.Listener
	// AskToken makes the first request of a connection carry Options.Token.
	AskToken bool
}

// Server serves one store to clients. It is made by New and used for one Serve.
type Server struct {
	opts    Options
	methods map[string]method
	names   []string
	calls   *callTable
	log     *slog.Logger
	token   [sha256.Size]byte

	mu      sync.Mutex
	conns   map[*conn]struct{}
	lastOne time.Time // when the last connection ended, or is to have come
	closing bool
	running sync.WaitGroup // calls that have begun
	serving sync.WaitGroup // connections
	broken  chan error     // why the store is found to take no more calls
}

// New returns a Server. It panics without Options.Saver.
func New(o Options) *Server {
	if o.Saver == nil {
		panic("server: no Saver")
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.Idle, time.Hour)
	set(&o.First, 15*time.Second)
	set(&o.Grace, 10*time.Second)
	set(&o.Stall, 30*time.Second)
	set(&o.Greeting, 10*time.Second)
	if o.MaxFrame == 0 {
		o.MaxFrame = wire.DefaultMaxFrame
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = 256
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, log: o.Logger, token: sha256.Sum256([]byte(o.Token)), conns: map[*conn]struct{}{}, broken: make(chan error, 1), lastOne: time.Now().Add(o.First)}
	s.calls = newCallTable(o.Saver)
	s.methods, s.names = s.available()
	return s
}

// Serve takes connections of the listeners until ctx ends, Options.Alive returns an error, or
// ErrIdle or ErrUnavailable says why it ended. It then takes no new calls, finishes those that have begun, for at most
// Options.Grace, and closes listeners and connections. It does not close the store. It
// returns nil after ctx has ended, or the error of a listener.
func (s *Server) Serve(ctx context.Context, listeners ...Listener) error {
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- s.accept(l) }()
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // nothing is lost with it
		}
		s.end()
	}()
	var beside sync.WaitGroup
	defer beside.Wait() // the store may be closed when Serve has returned
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	beside.Go(func() { s.calls.expireEvery(serving, s.log) })
	tick := time.NewTicker(min(time.Second, max(s.opts.IdleExit/8, time.Millisecond)))
	if s.opts.IdleExit == 0 {
		tick.Reset(time.Second)
	}
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.broken:
			return err
		case err := <-failed:
			return err
		case <-tick.C:
			if s.opts.IdleExit > 0 && s.idleFor() >= s.opts.IdleExit {
				return ErrIdle
			}
			if s.opts.Alive == nil {
				continue
			}
			if err := s.opts.Alive(); err != nil {
				return err
			}
		}
	}
}

// Connections is how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// idleFor returns for how long there has been no connection.
func (s *Server) idleFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) > 0 {
		return 0
	}
	return time.Since(s.lastOne)
}

func (s *Server) accept(l Listener) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // such as too many open files
				s.log.Warn("accept", "error", err)
				time.Sleep(50 * time.Millisecond)
				continue
			}
			return err
		}
		c := newConn(s, nc, l.AskToken)
		if !s.admit(c) {
			s.log.Warn("connection refused", "peer", c.peer, "limit", s.opts.MaxConnections)
			_ = nc.Close() // it was not used
			continue
		}
		go c.serve()
	}
}

// admit counts a connection in. It returns false if there are too many, or the server is closing.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.conns) >= s.opts.MaxConnections {
		return false
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.lastOne = time.Now()
	s.mu.Unlock()
	s.serving.Done()
}

// begin counts a call in, unless the server ends, or has to.
func (s *Server) begin() bool {
	if s.opts.Alive != nil {
		if err := s.opts.Alive(); err != nil {
			s.breakDown(err)
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.running.Add(1)
	return true
}

// end ends everything that Serve began.
func (s *Server) end() {
	s.mu.Lock()
	s.closing = true
	for c := range s.conns {
		c.cancelWaits()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	late := time.NewTimer(s.opts.Grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		s.log.Warn("calls are cut off", "grace", s.opts.Grace)
	}
	s.mu.Lock()
	for c := range s.conns {
		c.cut()
	}
	s.mu.Unlock()
	<-done
	s.serving.Wait()
}

// breakDown makes Serve return an error; the first one counts.
func (s *Server) breakDown(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// trusted reports whether who says hello at an address knows the token. It compares in constant time.
func (s *Server) trusted(h wire.Hello, address string) bool {
	if h.Challenge != "" {
		return subtle.ConstantTimeCompare([]byte(h.Proof), []byte(wire.Prove(s.opts.Token, wire.ProvesClient, address, h.Challenge))) == 1
	}
	sum := sha256.Sum256([]byte(h.Token))
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}
