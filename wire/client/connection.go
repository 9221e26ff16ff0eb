package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

// ErrInterrupted is returned by a listing that was interrupted behind its first items. It cannot be continued, as
// the store may be another state now.
var ErrInterrupted = errors.New("the connection was lost in the middle of a listing")

// errLost is the error of calls on a connection that was lost.
var errLost = errors.New("the connection to the server is lost")

// connection is one connection to a server. A goroutine reads it.
type connection struct {
	nc      net.Conn
	welcome wire.Welcome
	ended   chan struct{} // closed when the connection is lost

	sending sync.Mutex
	frame   []byte

	// silence is how long nothing may come while a call waits, before the server is asked whether it
	// is there.
	silence time.Duration
	heard   atomic.Int64 // when something came, in Unix nanoseconds

	mu     sync.Mutex
	err    error // why it is lost
	last   uint32
	calls  map[uint32]chan event
	leases map[int64]chan struct{}
}

// event is a message for a call: a batch, or at the end an answer.
type event struct {
	items []wire.Raw
	batch bool
	body  []byte
	err   error
}

// firstBatches is how many batches a server sends before the client requests more.
const firstBatches = 4

func newConnection(nc net.Conn, h wire.Hello, silence time.Duration) (*connection, error) {
	if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	cn := &connection{nc: nc, silence: silence, ended: make(chan struct{}), calls: map[uint32]chan event{}, leases: map[int64]chan struct{}{},
		welcome: wire.Welcome{MaxFrame: wire.DefaultMaxFrame}}
	if err := cn.send(&wire.Message{Kind: wire.Request, Method: "hello", Body: wire.MustEncode(h)}); err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(hearing{nc, &cn.heard}, 32<<10)
	body, err := wire.ReadFrame(br, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	m, err := wire.DecodeMessage(body)
	if err != nil {
		return nil, err
	}
	if m.Err != nil {
		return nil, m.Err
	}
	if cn.welcome, err = wire.Decode[wire.Welcome](m.Body); err != nil {
		return nil, err
	}
	if w := &cn.welcome; w.Protocol != wire.Protocol || w.CallSlots < 1 || w.CallSlots > 1<<16 || w.MaxFrame < 1 {
		return nil, fmt.Errorf("%w: %d", wire.ErrVersion, w.Protocol)
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	go cn.read(br)
	return cn, nil
}

// hearing notes when something came.
type hearing struct {
	net.Conn
	at *atomic.Int64
}

// Read implements net.Conn, and notes when it returned.
func (h hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.at.Store(time.Now().UnixNano())
	return n, err
}

func (cn *connection) broken() bool {
	select {
	case <-cn.ended:
		return true
	default:
		return false
	}
}

// fail ends the connection, and the calls and leases that it has.
func (cn *connection) fail(err error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.err != nil {
		return
	}
	if !errors.Is(err, saver.ErrClosed) {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	cn.err = err
	close(cn.ended)
	_ = cn.nc.Close() // it is lost
	for id, lost := range cn.leases {
		close(lost)
		delete(cn.leases, id)
	}
}

func (cn *connection) read(br *bufio.Reader) {
	for {
		body, err := wire.ReadFrame(br, max(cn.welcome.MaxFrame, 1<<20))
		if err == nil {
			err = cn.take(body)
		}
		if err != nil {
			cn.fail(err)
			return
		}
	}
}

// take gives a message to the call that it is for.
func (cn *connection) take(body []byte) error {
	m, err := wire.DecodeMessage(body)
	if err != nil {
		return err
	}
	ev, id := event{body: m.Body}, m.ID
	switch {
	case m.Kind == wire.Response:
		if m.Err != nil {
			ev.err = m.Err
		}
	case m.Method == "items":
		n, err := wire.Decode[wire.Items](m.Body)
		if err != nil {
			return err
		}
		ev, id = event{items: n.Items, batch: true}, n.Call
	case m.Method == "lost":
		n, err := wire.Decode[wire.Control](m.Body)
		cn.forget(n.Lease)
		return err
	default:
		return nil // of a later protocol
	}
	cn.mu.Lock()
	ch := cn.calls[id]
	if !ev.batch {
		delete(cn.calls, id)
	}
	cn.mu.Unlock()
	if ch != nil {
		select {
		case ch <- ev: // it has room for the batches that the call has requested
		default:
			return errors.New("the server sends more than it was asked for")
		}
	}
	return nil
}

// forget closes the lost channel of a lease.
func (cn *connection) forget(lease int64) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if lost := cn.leases[lease]; lost != nil {
		close(lost)
		delete(cn.leases, lease)
	}
}

func (cn *connection) send(m *wire.Message) error {
	cn.sending.Lock()
	defer cn.sending.Unlock()
	frame, err := wire.AppendFrame(cn.frame[:0], cn.welcome.MaxFrame, m.AppendTo)
	if err != nil {
		return errors.Join(saver.ErrTooLarge, err)
	}
	if cn.frame = frame; cap(frame) > 256<<10 {
		cn.frame = nil
	}
	for part := range slices.Chunk(frame, sentAtOnce) { // a line may be slow
		err := cn.nc.SetWriteDeadline(time.Now().Add(stall))
		if err == nil {
			_, err = cn.nc.Write(part)
		}
		if err != nil {
			cn.fail(err)
			return fmt.Errorf("%w: %w", errLost, err)
		}
	}
	return nil
}

const (
	// stall is how long a server may accept no data.
	stall = 30 * time.Second
	// sentAtOnce is how many bytes are sent with one deadline of stall.
	sentAtOnce = 256 << 10
	// pongTime is the least time to wait for the answer to a ping.
	pongTime = time.Second
)

// errSilent: nothing came from the server, not even the answer to a ping.
var errSilent = errors.New("the server is silent")

// ask asks the server whether it is there, or ends the connection if it has been asked in vain. It
// returns when to ask again. A call may take long, so that not its answer is waited for, but
// anything that comes.
func (cn *connection) ask(asked *time.Time) time.Duration {
	heard := time.Unix(0, cn.heard.Load())
	switch quiet := time.Since(heard); {
	case quiet < cn.silence:
		return cn.silence - quiet
	case heard.Before(*asked):
		cn.fail(errSilent)
		return cn.silence
	case cn.full():
		return cn.silence
	}
	*asked = time.Now()
	if id, err := cn.register(make(chan event, 1)); err == nil {
		_ = cn.send(&wire.Message{Kind: wire.Request, ID: id, Method: "ping", Body: wire.AppendEmpty(nil)}) // an error has ended the connection
	}
	return max(cn.silence/3, pongTime)
}

// full reports whether the server has as many concurrent calls as it accepts. It then reads nothing
// more, not even a ping, but may still be alive.
func (cn *connection) full() bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.welcome.MaxCalls > 0 && len(cn.calls) >= cn.welcome.MaxCalls
}

// register gives a call whose events go to ch its id.
func (cn *connection) register(ch chan event) (id uint32, err error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.err != nil {
		return 0, cn.err
	}
	cn.last++
	for cn.last == 0 || cn.calls[cn.last] != nil {
		cn.last++
	}
	cn.calls[cn.last] = ch
	return cn.last, nil
}

func (cn *connection) notify(method string, params wire.Control) error {
	return cn.send(&wire.Message{Kind: wire.Notification, Method: method, Body: wire.MustEncode(params)})
}

// do asks once. went reports whether the server may have got it.
func (cn *connection) do(ctx context.Context, method string, params []byte, batch func([]byte) error) (body []byte, went bool, err error) {
	ch := make(chan event, firstBatches+1)
	id, err := cn.register(ch)
	if err != nil {
		return nil, false, err
	}
	if err := cn.send(&wire.Message{Kind: wire.Request, ID: id, Method: method, Body: params}); err != nil {
		cn.mu.Lock()
		delete(cn.calls, id)
		cn.mu.Unlock()
		return nil, !errors.Is(err, wire.ErrFrame), err
	}
	quiet := time.NewTimer(cn.silence)
	defer quiet.Stop()
	asked, midway := time.Time{}, false
	lost := func() error {
		if midway {
			return ErrInterrupted
		}
		return cn.err
	}
	for {
		select {
		case ev := <-ch:
			if !ev.batch {
				return ev.body, true, ev.err
			}
			midway = true
			for _, item := range ev.items {
				if err := batch(item); err != nil {
					cn.abandon(id)
					return nil, true, err
				}
			}
			if err := cn.notify("more", wire.Control{Call: id, Batches: 1}); err != nil {
				return nil, true, lost()
			}
		case <-quiet.C:
			quiet.Reset(cn.ask(&asked))
		case <-ctx.Done():
			cn.abandon(id)
			return nil, true, ctx.Err()
		case <-cn.ended:
			select {
			case ev := <-ch: // the answer came before the end
				if !ev.batch {
					return ev.body, true, ev.err
				}
			default:
			}
			return nil, true, lost()
		}
	}
}

// abandon cancels a call whose caller has left.
func (cn *connection) abandon(id uint32) {
	cn.mu.Lock()
	if cn.calls[id] != nil {
		cn.calls[id] = make(chan event, 1<<10) // messages on their way are dropped
	}
	cn.mu.Unlock()
	_ = cn.notify("cancel", wire.Control{Call: id}) // a lost connection cancels, too
}
