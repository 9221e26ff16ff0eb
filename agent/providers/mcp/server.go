package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/base/silence"
)

// Options are options of a Server. The zero value is ready for use.
type Options struct {
	// Prefix comes before the names of the tools.
	Prefix string
	// Keep says which tools of the server are wanted, by the names that it gives them; nil is all.
	Keep func(name string) bool
	// Changed is called when the server says that its tools have changed; Tools then lists the new
	// ones. It is called on a goroutine of its own.
	Changed func()
	// KeyMeta is the name in the _meta of a call under which the server gets
	// pregel.IdempotencyKey. Empty sends none. The graph must have a saver.
	KeyMeta string
	// Name and Version are the client's, as it tells them to the server; empty is "stele" and "0".
	Name, Version string
	// Timeout is how long the server may take to connect, to list its tools, and for each call of a
	// tool, which begins anew when the server reports progress of the call; a call takes twelve times as long at most, whatever
	// is reported. 0 is 5 minutes, and so an hour; negative is no bound but that of the context. A call that took longer is a
	// CallError that is Lost.
	Timeout time.Duration
	// Client are further options of the client.
	Client mcp.ClientOptions
}

// Dial makes the transport of a new connection.
type Dial func() (mcp.Transport, error)

// Command is a server that is a program, which speaks on its standard input and output. It is
// started with each connection, and ended with it.
func Command(name string, args ...string) Dial {
	return func() (mcp.Transport, error) { return &mcp.CommandTransport{Command: exec.Command(name, args...)}, nil }
}

// HTTP is a server at a URL, which speaks streamable HTTP.
func HTTP(url string) Dial {
	client := &http.Client{Transport: ending{}}
	return func() (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client}, nil
	}
}

// endTime bounds the wait for the end of a session.
const endTime = 10 * time.Second

// ending is a transport that bounds the end of a session, which has no context. Other requests have, and
// a stream may say nothing for hours.
type ending struct{}

// RoundTrip implements http.RoundTripper.
func (ending) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		return silence.Transport(nil, endTime).RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Server is a connection with a server. It is safe for concurrent use.
//
// When the connection is lost, the call that finds out fails, and the next one connects anew.
type Server struct {
	dial   Dial
	opts   Options
	client *mcp.Client

	// turn is held by whoever makes a connection, so that only one is made.
	turn chan struct{}
	// mu guards the rest.
	mu      sync.Mutex
	session *mcp.ClientSession // nil if the connection was lost
	closed  bool
	waiting map[string]*time.Timer // the ends of calls under way, by their progress tokens
	calls   int64                  // how many there were
	ending  sync.WaitGroup         // connections that were lost and are being closed
}

// ErrClosed: the Server was closed.
var ErrClosed = errors.New("the MCP server was closed")

// Connect connects to a server. Close it after use.
func Connect(ctx context.Context, dial Dial, o Options) (*Server, error) {
	if dial == nil {
		return nil, errors.New("mcp: Dial is nil")
	}
	if o.Name == "" {
		o.Name = "stele"
	}
	if o.Version == "" {
		o.Version = "0"
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	s := &Server{dial: dial, opts: o, turn: make(chan struct{}, 1), waiting: map[string]*time.Timer{}}
	client := o.Client
	if o.Changed != nil {
		next := client.ToolListChangedHandler
		client.ToolListChangedHandler = func(ctx context.Context, r *mcp.ToolListChangedRequest) {
			if next != nil {
				next(ctx, r)
			}
			go o.Changed() // it may list the tools, which waits for this goroutine
		}
	}
	progress := client.ProgressNotificationHandler
	client.ProgressNotificationHandler = func(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
		s.progressed(r.Params.ProgressToken)
		if progress != nil {
			progress(ctx, r)
		}
	}
	s.client = mcp.NewClient(&mcp.Implementation{Name: o.Name, Version: o.Version}, &client)
	bound, done := s.bound(ctx)
	defer done()
	if _, err := s.connection(bound); err != nil {
		return nil, err
	}
	return s, nil
}

// bound is ctx for as long as a request may take.
func (s *Server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.opts.Timeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.Timeout)
}

// mostTurns is how many times Timeout a call takes at most. A server may report progress for ever.
const mostTurns = 12

// boundCall is ctx for as long as a call of a tool may say nothing. The end is for the call's: until then
// the server may report its progress.
func (s *Server) boundCall(ctx context.Context, params *mcp.CallToolParams) (context.Context, context.CancelFunc) {
	if s.opts.Timeout < 0 {
		return ctx, func() {}
	}
	ctx, end := context.WithTimeout(ctx, mostTurns*min(s.opts.Timeout, math.MaxInt64/mostTurns))
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	token := strconv.FormatInt(s.calls, 10)
	params.SetProgressToken(token)
	s.waiting[token] = time.AfterFunc(s.opts.Timeout, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[token].Stop()
		delete(s.waiting, token)
		cancel(nil)
		end()
	}
}

// progressed lets a call that goes on take its time anew.
func (s *Server) progressed(token any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _ := token.(string)
	if t := s.waiting[name]; t != nil {
		t.Reset(s.opts.Timeout)
	}
}

// connection is the connection, made anew if it was lost.
func (s *Server) connection(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	session, closed := s.session, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case session != nil:
		return session, nil
	}
	transport, err := s.dial()
	if err != nil {
		return nil, fmt.Errorf("connect with the MCP server: %w", err)
	}
	// The connection outlives the call that makes it.
	connect, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	session, err = s.client.Connect(connect, transport, nil)
	switch ended := !stop(); {
	case err != nil && ended:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("connect with the MCP server: %w", err)
	case ended:
		err = errors.Join(ctx.Err(), session.Close())
	default:
		err = s.keep(session, cancel)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return session, nil
}

// keep makes a session the connection, until it ends. free frees what it holds.
func (s *Server) keep(session *mcp.ClientSession, free func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(ErrClosed, session.Close())
	}
	s.session = session
	s.ending.Add(1)
	go func() {
		defer s.ending.Done()
		defer free()
		_ = session.Wait() // why it ended, the call that finds out is told
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.session == session {
			s.session = nil
		}
	}()
	return nil
}

// lost forgets a connection that failed.
func (s *Server) lost(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != session {
		return
	}
	s.session = nil
	s.ending.Add(1)
	go func() {
		defer s.ending.Done()
		_ = session.Close() // it is lost already
	}()
}

// Close ends the connection, and a server that is a program. Calls that run fail.
func (s *Server) Close() error {
	s.mu.Lock()
	session := s.session
	s.session, s.closed = nil, true
	s.mu.Unlock()
	var err error
	if session != nil {
		err = session.Close()
	}
	s.ending.Wait()
	return err
}

// Tools lists the tools of the server. Each call asks the server. The error is tool.ErrDefinition if
// two have one name, a *CallError, or that of ctx.
func (s *Server) Tools(ctx context.Context) ([]tool.Tool, error) {
	bound, done := s.bound(ctx)
	defer done()
	session, err := s.connection(bound)
	if err != nil {
		return nil, err
	}
	var out []tool.Tool
	names := map[string]string{}
	for t, err := range session.Tools(bound, nil) {
		if err != nil {
			return nil, s.failure(ctx, session, "", err)
		}
		if s.opts.Keep != nil && !s.opts.Keep(t.Name) {
			continue
		}
		name := safeName(s.opts.Prefix + t.Name)
		if other, ok := names[name]; ok {
			return nil, fmt.Errorf("%w: the tools %q and %q of the MCP server both have the name %q", tool.ErrDefinition, other, t.Name, name)
		}
		names[name] = t.Name
		schema := json.RawMessage(`{"type":"object"}`)
		if t.InputSchema != nil {
			if schema, err = json.Marshal(t.InputSchema); err != nil {
				return nil, fmt.Errorf("%w: the schema of %q: %w", tool.ErrDefinition, t.Name, err)
			}
		}
		out = append(out, &serverTool{s, t.Name, tool.Definition{Name: name, Description: t.Description, Parameters: schema}})
	}
	return out, nil
}
