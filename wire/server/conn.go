package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

// greetingSize is the largest frame before hello.
const greetingSize = 64 << 10

// conn is one connection. A goroutine reads its frames, and each call has one while it runs.
// A few of these stay for the next calls, since their stacks have grown. Where calls come in
// turn the goroutine that reads does them: to wake another one costs more than a small call.
type conn struct {
	s        *Server
	nc       net.Conn
	peer     string
	askToken bool
	inTurn   bool          // as hello said; it does not change afterwards
	slots    chan struct{} // bounds the concurrent calls
	next     chan *call    // for a goroutine that stays
	idle     atomic.Int32  // goroutines that stay, or are about to

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	sending sync.Mutex // one frame after the other
	frame   []byte     // being sent

	mu     sync.Mutex
	calls  map[uint32]*call
	leases map[int64]*saver.Lease
	last   int64 // lease
}

func newConn(s *Server, nc net.Conn, askToken bool) *conn {
	c := &conn{s: s, nc: nc, peer: nc.RemoteAddr().String(), askToken: askToken, slots: make(chan struct{}, s.opts.MaxCalls),
		next: make(chan *call), calls: map[uint32]*call{}, leases: map[int64]*saver.Lease{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// cut ends the connection now.
func (c *conn) cut() {
	c.cancel()
	_ = c.nc.Close() // its answer is not needed any more
}

// cancelWaits ends calls that wait for something which may not come.
func (c *conn) cancelWaits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		if call.method.waits {
			call.cancel()
		}
	}
}

// serve is the life of the connection.
func (c *conn) serve() {
	defer c.s.leave(c)
	err := c.read()
	c.cut()
	for range c.s.opts.MaxCalls { // until no call has a slot
		c.slots <- struct{}{}
	}
	for _, l := range c.leases {
		l.Release()
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.s.log.Warn("connection ended", "peer", c.peer, "error", err)
		return
	}
	c.s.log.Debug("connection ended", "peer", c.peer)
}

// steady reads from a connection whose peer must go on sending: each read has the time limit
// that is set.
type steady struct {
	nc    net.Conn
	limit time.Duration
}

// Read implements io.Reader.
func (r *steady) Read(p []byte) (int, error) {
	if r.limit > 0 {
		if err := r.nc.SetReadDeadline(time.Now().Add(r.limit)); err != nil {
			return 0, err
		}
	}
	return r.nc.Read(p)
}

// read reads messages until the peer ends or sends something invalid; the error says why.
func (c *conn) read() error {
	in := &steady{nc: c.nc}
	br := bufio.NewReaderSize(in, 32<<10)
	if err := c.greet(br); err != nil {
		return err
	}
	for {
		if in.limit = c.s.opts.Idle; br.Buffered() == 0 {
			if _, err := br.Peek(1); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) && c.busy() {
					continue
				}
				return err
			}
		}
		in.limit = c.s.opts.Stall
		body, err := wire.ReadFrame(br, c.s.opts.MaxFrame)
		if err != nil {
			if errors.Is(err, wire.ErrFrame) {
				c.complain(0, wire.CodeTooLarge, err)
			}
			return err
		}
		m, err := wire.DecodeMessage(body)
		if err != nil {
			c.complain(m.ID, wire.CodeBadRequest, err)
			return err
		}
		if err := c.take(m); err != nil {
			return err
		}
	}
}

// busy reports whether a connection that is silent is in use.
func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0 || len(c.leases) > 0
}

// complain answers with an error, as far as that is possible, before the connection ends.
func (c *conn) complain(id uint32, code wire.Code, err error) {
	_ = c.answer(id, nil, &wire.Error{Code: code, Message: err.Error()}) // the connection ends anyway
}

// greet reads the first request, which must be hello.
func (c *conn) greet(br *bufio.Reader) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(c.s.opts.Greeting)); err != nil {
		return err
	}
	for {
		body, err := wire.ReadFrame(br, greetingSize)
		if err != nil {
			return err
		}
		m, err := wire.DecodeMessage(body)
		if err != nil || m.Kind != wire.Request {
			return errors.Join(err, errors.New("the first message is no request"))
		}
		if m.Method != "hello" {
			if err := c.answer(m.ID, nil, wire.Errorf(wire.CodeBadRequest, "the first request of a connection is hello, not %q", m.Method)); err != nil {
				return err
			}
			continue
		}
		return c.hello(m)
	}
}

func (c *conn) hello(m wire.Message) error {
	h, err := wire.DecodeParams[wire.Hello](m.Method, m.Body)
	refusal := (*wire.Error)(nil)
	switch {
	case err != nil:
		refusal = &wire.Error{Code: wire.CodeBadRequest, Message: err.Error()}
	case c.askToken && !c.s.trusted(h, c.nc.LocalAddr().String()):
		refusal = wire.Errorf(wire.CodeAuth, "the token is missing or wrong")
	case h.Protocol != wire.Protocol:
		refusal = wire.Errorf(wire.CodeVersion, "this server speaks protocol %d, the client %d", wire.Protocol, h.Protocol)
		refusal.Details.Protocol = wire.Protocol
	}
	if refusal != nil {
		_ = c.answer(m.ID, nil, refusal) // the connection ends anyway
		return refusal
	}
	c.inTurn = h.InTurn
	c.s.log.Info("connection", "peer", c.peer, "client", h.Client)
	o := &c.s.opts
	w := wire.Welcome{Protocol: wire.Protocol, Server: o.Version, Store: o.Store, StoreID: o.StoreID, Methods: c.s.names, MaxFrame: o.MaxFrame,
		MaxCalls: o.MaxCalls, MaxValue: maxValue, CallSlots: callSlots}
	if c.askToken && h.Challenge != "" {
		w.Proof = wire.Prove(o.Token, wire.ProvesServer, c.nc.LocalAddr().String(), h.Challenge)
	}
	return c.answer(m.ID, wire.MustEncode(w), nil)
}

// take begins the call, cancel or other action of a message.
func (c *conn) take(m wire.Message) error {
	switch m.Kind {
	case wire.Request:
		return c.request(m)
	case wire.Notification:
		if m.Method != "more" && m.Method != "cancel" {
			return nil
		}
		n, err := wire.Decode[wire.Control](m.Body)
		if err != nil {
			return err
		}
		c.mu.Lock()
		call := c.calls[n.Call]
		c.mu.Unlock()
		switch {
		case call == nil: // it has ended
		case m.Method == "cancel":
			call.cancel()
		default:
			call.allow(n.Batches)
		}
		return nil
	}
	return errors.New("a response, but nothing was asked")
}

// call is one call under way.
type call struct {
	c      *conn
	id     uint32
	name   string // of the method
	method method
	body   []byte
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	credit int
	more   chan struct{}
}

// allow lets a stream send more batches.
func (c *call) allow(batches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if batches > 0 {
		c.credit = min(c.credit+min(batches, maxCredit), maxCredit)
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// spend takes the right to send a batch, and waits for it if need be.
func (c *call) spend() error {
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.mu.Lock()
		ok := c.credit > 0
		if ok {
			c.credit--
		}
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-c.more:
		case <-c.ctx.Done():
		}
	}
}

const (
	firstCredit = 4       // batches that a stream sends unasked
	maxCredit   = 1 << 20 // most batches that a client may have requested
)

// request begins a call. It blocks while the connection has as many as it may have.
func (c *conn) request(m wire.Message) error {
	method, known := c.s.methods[m.Method]
	if !known {
		code := wire.CodeUnknownMethod
		if _, exists := allMethods[m.Method]; exists {
			code = wire.CodeUnsupported
		}
		return c.answer(m.ID, nil, wire.Errorf(code, "method %q: the %s store does not have it", m.Method, c.s.opts.Store))
	}
	c.slots <- struct{}{}
	if !c.s.begin() {
		<-c.slots
		return c.answer(m.ID, nil, wire.Errorf(wire.CodeClosing, "the server ends"))
	}
	cl := &call{c: c, id: m.ID, name: m.Method, method: method, body: m.Body, credit: firstCredit, more: make(chan struct{}, 1)}
	cl.ctx, cl.cancel = context.Background(), func() {}
	if !method.whole {
		cl.ctx, cl.cancel = context.WithCancel(c.ctx)
	}
	c.mu.Lock()
	again := c.calls[m.ID] != nil
	if !again {
		c.calls[m.ID] = cl
	}
	c.mu.Unlock()
	if again {
		c.s.running.Done()
		<-c.slots
		err := errors.New("two calls under way have the same id")
		c.complain(m.ID, wire.CodeBadRequest, err)
		return err
	}
	if c.inTurn && !method.waits {
		cl.run()
		return nil
	}
	select {
	case c.next <- cl:
	default:
		go c.work(cl)
	}
	return nil
}

// staying is how many goroutines of a connection wait for calls.
const staying = 2

// work does a call, and then those that come while it is one of the goroutines that stay.
func (c *conn) work(cl *call) {
	for {
		cl.run()
		if c.idle.Add(1) > staying {
			c.idle.Add(-1)
			return
		}
		select {
		case cl = <-c.next:
			c.idle.Add(-1)
		case <-c.ctx.Done():
			return
		}
	}
}

// run does the call and answers it.
func (c *call) run() {
	began := time.Now()
	defer func() { <-c.c.slots }()
	defer c.c.s.running.Done()
	result, err := c.guard()
	c.c.mu.Lock()
	delete(c.c.calls, c.id)
	c.c.mu.Unlock()
	if c.ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.Is(err, saver.ErrOutcomeUnknown) {
		err = wire.Errorf(wire.CodeCancelled, "the call was cancelled")
	}
	c.cancel()
	var fail *wire.Error
	if err != nil {
		if fail = wire.ErrorOf(err); fail.Code == wire.CodeUnavailable && !errors.Is(err, fault.ErrStale) { // one that is stale may lead next
			c.c.s.breakDown(ErrUnavailable)
		}
		result = nil
	}
	c.log(began, fail)
	if err := c.c.answer(c.id, result, fail); err != nil {
		if errors.Is(err, wire.ErrFrame) {
			err = c.c.answer(c.id, nil, wire.Errorf(wire.CodeTooLarge, "the answer is %v", err))
		}
		if err != nil {
			c.c.cut()
		}
	}
}

// guard turns a panic of one call into its error.
func (c *call) guard() (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.c.s.log.Error("call panics", "method", c.name, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, wire.Errorf(wire.CodeInternal, "%v", p)
		}
	}()
	return c.method.run(c)
}

func (c *call) log(began time.Time, fail *wire.Error) {
	log := c.c.s.log
	switch {
	case fail != nil && (fail.Code == wire.CodeInternal || fail.Code == wire.CodeUnavailable || fail.Code == wire.CodeCorrupt):
		log.Error("call", "method", c.name, "peer", c.c.peer, "took", time.Since(began), "code", fail.Code, "error", fail.Message)
	case !log.Enabled(c.ctx, LevelAccess):
	case fail != nil:
		log.Log(c.ctx, LevelAccess, "call", "method", c.name, "peer", c.c.peer, "took", time.Since(began), "code", fail.Code)
	default:
		log.Log(c.ctx, LevelAccess, "call", "method", c.name, "peer", c.c.peer, "took", time.Since(began))
	}
}

// answer sends a response; nil as the result is an empty map.
func (c *conn) answer(id uint32, result []byte, fail *wire.Error) error {
	if result == nil && fail == nil {
		result = wire.AppendEmpty(nil)
	}
	return c.send(&wire.Message{Kind: wire.Response, ID: id, Body: result, Err: fail})
}

func (c *conn) notify(method string, params any) error {
	return c.send(&wire.Message{Kind: wire.Notification, Method: method, Body: wire.MustEncode(params)})
}

const (
	sendStep  = 1 << 20   // bytes of a frame that must be taken within Options.Stall
	keepFrame = 256 << 10 // the largest buffer that is kept for the next frame
)

func (c *conn) send(m *wire.Message) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	frame, err := wire.AppendFrame(c.frame[:0], c.s.opts.MaxFrame, m.AppendTo)
	if err != nil {
		return err
	}
	if c.frame = frame; cap(frame) > keepFrame {
		c.frame = nil
	}
	for len(frame) > 0 {
		n := min(len(frame), sendStep)
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.s.opts.Stall)); err != nil {
			return err
		}
		if _, err := c.nc.Write(frame[:n]); err != nil {
			_ = c.nc.Close() // half a frame: nothing can follow
			return err
		}
		frame = frame[n:]
	}
	return nil
}
