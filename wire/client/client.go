// Package client is for a program in Go whose store another process has open: one of several
// workers, or a command beside a server. It is a saver and a long-term store at the other end
// of a wire; a server of package wire/server, or the command "stele serve", has the store.
//
//	c := client.Dir("store", client.Options{})
//	defer c.Close()
//	g, err := graph.For[State]().….Compile(graph.Options{Saver: c, Store: c.Items()})
//
// A Client keeps one connection and makes a new one when it is lost. A call that had no
// answer by then is asked again, and has the effect of one call: docs/wire.md says how.
package client

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/wire"
)

// Options configure a Client. The zero value is the documented default.
type Options struct {
	// Token is the server's token. For a server found by its directory it is read there.
	Token string
	// TLS is the configuration for addresses that begin with tls:. Nil is the default one.
	TLS *tls.Config
	// Serializer encodes and decodes values; default serde.Default().
	Serializer serde.Serializer
	// Retry is for how long a call is asked again when the connection is lost, or the server
	// ends; default 30 s, negative for not at all. A server of which nothing is heard for as long while
	// a call waits is asked whether it is there, and given up if it does not answer.
	Retry time.Duration
	// Name says who calls, for the server's log.
	Name string
}

const defaultRetry = 30 * time.Second

// retryPause is how long a client waits before it connects again.
const retryPause = 20 * time.Millisecond

// ErrOtherStore is returned when the directory of a Client holds another store than the one
// that it used: that one was moved away, or replaced. A new Client takes the new store.
var ErrOtherStore = errors.New("the directory holds another store now")

// Client implements saver.Saver and saver.Eraser; Erase fails with wire.ErrUnsupported if the
// server's store has none. It is safe for concurrent use.
//
// After a cancelled call that was sent, the error of one that writes matches
// saver.ErrOutcomeUnknown. If no answer comes for Options.Retry, it does too.
//
// A lease lasts as long as the connection by which it was taken. PutRequest takes no Changes.
type Client struct {
	opts    Options
	locate  func() (place, error)
	inDir   bool   // the server is that of a directory
	store   string // id of the store that was used first; whoever connects may touch it
	id      [wire.ClientSize]byte
	closed  chan struct{}
	closing sync.Once

	mu      sync.Mutex
	current *connection
	dialing chan struct{} // has the turn of the one that connects
	slots   chan uint16
	numbers []uint64 // of each slot, the last that was used; whoever has the slot may touch it
}

var (
	_ saver.Saver  = (*Client)(nil)
	_ saver.Eraser = (*Client)(nil)
)

// Dir returns a client of the server of a directory. It connects when it is first used, and
// finds the server anew whenever it connects. It stays with the store that it finds first:
// where another one is in the directory later, calls fail with ErrOtherStore.
func Dir(dir string, o Options) *Client {
	c := newClient(o, func() (place, error) {
		b, err := wire.ReadFile(filepath.Join(dir, "serve.json"))
		if err != nil {
			return place{}, fmt.Errorf("no server of %s: %w", dir, err)
		}
		var info struct {
			Protocol  int    `json:"protocol"`
			Address   string `json:"address"`
			TokenFile string `json:"token_file"`
			Proof     bool   `json:"proof"`
		}
		if err := json.Unmarshal(b, &info); err != nil {
			return place{}, fmt.Errorf("serve.json of %s: %w", dir, err)
		}
		at, err := parse(info.Address)
		at.token, at.proves = o.Token, info.Proof
		if err == nil && info.TokenFile != "" {
			b, err := wire.ReadFile(filepath.Join(dir, filepath.Base(info.TokenFile)))
			if err != nil {
				return place{}, err
			}
			at.token = strings.TrimSpace(string(b))
		}
		if at.proves && at.token == "" { // a power failure may leave the file empty; anybody can prove to know no token
			return place{}, fmt.Errorf("the token of the server of %s is missing. Start the directory's server", dir)
		}
		if at.network == "unix" && !filepath.IsAbs(at.address) {
			at.address = filepath.Join(dir, at.address)
		}
		return at, err
	})
	c.inDir = true
	return c
}

// Address returns a client of the server at an address: unix:PATH, tcp:HOST:PORT or
// tls:HOST:PORT. It connects when it is first used.
func Address(address string, o Options) (*Client, error) {
	at, err := parse(address)
	if err != nil {
		return nil, err
	}
	at.token = o.Token
	return newClient(o, func() (place, error) { return at, nil }), nil
}

// place is where a server is.
type place struct {
	network, address, token string
	secure                  bool
	// proves: the server proves that it knows the token, which it is not sent. Else another one would learn it.
	proves bool
}

func parse(address string) (place, error) {
	kind, at, _ := strings.Cut(address, ":")
	switch kind {
	case "unix":
		return place{network: "unix", address: at}, nil
	case "tcp", "tls":
		return place{network: "tcp", address: at, secure: kind == "tls"}, nil
	}
	return place{}, fmt.Errorf("address %q: use unix:PATH, tcp:HOST:PORT or tls:HOST:PORT", address)
}

func newClient(o Options, locate func() (place, error)) *Client {
	if o.Serializer == nil {
		o.Serializer = serde.Default()
	}
	if o.Retry == 0 {
		o.Retry = defaultRetry
	}
	if o.Name == "" {
		o.Name = "stele/go"
	}
	c := &Client{opts: o, locate: locate, closed: make(chan struct{}), dialing: make(chan struct{}, 1)}
	if _, err := rand.Read(c.id[:]); err != nil {
		panic(err) // the system has no randomness: crypto/rand never returns one
	}
	return c
}

// Close ends the connection. Calls under way fail with saver.ErrClosed, or, if they write,
// with saver.ErrOutcomeUnknown. A second Close does nothing. The store stays open.
func (c *Client) Close() error {
	c.closing.Do(func() { close(c.closed) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.fail(saver.ErrClosed)
	}
	return nil
}

// connect returns the connection, or makes one.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	if cn := c.live(); cn != nil {
		return cn, nil
	}
	select {
	case c.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, saver.ErrClosed
	}
	defer func() { <-c.dialing }()
	select {
	case <-c.closed:
		return nil, saver.ErrClosed
	default:
	}
	if cn := c.live(); cn != nil {
		return cn, nil
	}
	cn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = cn
	if c.slots == nil {
		c.slots = make(chan uint16, cn.welcome.CallSlots)
		for i := range cn.welcome.CallSlots {
			c.slots <- uint16(i)
		}
		c.numbers = make([]uint64, cn.welcome.CallSlots)
	}
	return cn, nil
}

func (c *Client) live() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current.broken() {
		return nil
	}
	return c.current
}

func (c *Client) dial(ctx context.Context) (*connection, error) {
	at, err := c.locate()
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	var nc net.Conn
	if at.secure {
		nc, err = (&tls.Dialer{NetDialer: &d, Config: c.opts.TLS}).DialContext(ctx, at.network, at.address)
	} else {
		nc, err = d.DialContext(ctx, at.network, at.address)
	}
	if err != nil {
		return nil, err
	}
	h := wire.Hello{Protocol: wire.Protocol, Client: c.opts.Name, Token: at.token}
	if at.proves {
		h.Token, h.Challenge = "", rand.Text()
		h.Proof = wire.Prove(at.token, wire.ProvesClient, at.address, h.Challenge)
	}
	cn, err := newConnection(nc, h, cmp.Or(max(c.opts.Retry, 0), defaultRetry))
	if err != nil {
		_ = nc.Close()                                 // it said nothing of use
		if at.proves && errors.Is(err, wire.ErrAuth) { // the directory's server knows the directory's token
			err = fmt.Errorf("%w: %s. Start the directory's server", errStranger, at.address)
		}
		return nil, err
	}
	if at.proves && !hmac.Equal([]byte(cn.welcome.Proof), []byte(wire.Prove(at.token, wire.ProvesServer, at.address, h.Challenge))) {
		cn.fail(errStranger)
		return nil, fmt.Errorf("%w: %s. Start the directory's server", errStranger, at.address)
	}
	if id := cn.welcome.StoreID; c.inDir && id != "" {
		if c.store != "" && c.store != id {
			cn.fail(ErrOtherStore)
			return nil, fmt.Errorf("%w: put back the one that was used, or make a new client", ErrOtherStore)
		}
		c.store = id
	}
	return cn, nil
}

var errStranger = errors.New("another program listens where the directory's server did")

// final reports whether an error of connecting will be the same next time.
func final(err error) bool {
	return errors.Is(err, wire.ErrAuth) || errors.Is(err, wire.ErrVersion) || errors.Is(err, saver.ErrClosed) || errors.Is(err, ErrOtherStore)
}

// request is one call of the client.
type request struct {
	method string
	params any  // a message; one that cannot be encoded ends the call before anything is sent
	writes bool // params have the field call
	batch  func([]byte) error
}

// call asks until there is an answer. It returns the connection that the answer came by.
func (c *Client) call(ctx context.Context, r request) (body []byte, cn *connection, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	var name *wire.Call
	sent, began := false, time.Now()
	defer func() {
		if err != nil && sent && r.writes && unanswered(err) {
			err = errors.Join(saver.ErrOutcomeUnknown, err)
		}
	}()
	for {
		cn, err = c.connect(ctx)
		retry := err != nil && !final(err)
		if err == nil {
			if r.writes && name == nil {
				slot, err := c.takeSlot(ctx)
				if err != nil {
					return nil, nil, err
				}
				defer func() { c.slots <- slot }()
				c.numbers[slot]++
				name = &wire.Call{Client: c.id, Slot: slot, Number: c.numbers[slot]}
			}
			if name != nil {
				r.params.(interface{ SetCall(*wire.Call) }).SetCall(name)
			}
			var params []byte
			if params, err = wire.EncodeWith(c.opts.Serializer, r.params); err != nil {
				return nil, nil, err
			}
			var went bool
			if body, went, err = cn.do(ctx, r.method, params, r.batch); err == nil {
				return body, cn, nil
			}
			if sent = sent || went; went && name != nil {
				name.Again = true
			}
			retry = again(err)
		}
		if !retry || ctx.Err() != nil || time.Since(began) > c.opts.Retry {
			return nil, nil, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-c.closed:
			return nil, nil, saver.ErrClosed
		}
	}
}

// ask is call, with the answer decoded.
func ask[T any](ctx context.Context, c *Client, r request) (answer T, cn *connection, err error) {
	body, cn, err := c.call(ctx, r)
	if err != nil {
		return answer, nil, err
	}
	answer, err = wire.Decode[T](body)
	return answer, cn, err
}

// again reports whether a call that was sent, and had this error, may be asked again.
func again(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, wire.ErrClosing)
}

// unanswered reports whether the error of a call is not the server's answer to it.
func unanswered(err error) bool {
	var answer *wire.Error
	return !errors.As(err, &answer) || answer.Code == wire.CodeClosing
}

func (c *Client) takeSlot(ctx context.Context) (uint16, error) {
	select {
	case slot := <-c.slots:
		return slot, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-c.closed:
		return 0, saver.ErrClosed
	}
}
