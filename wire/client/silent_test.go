package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// hole stands before a server, and swallows what goes to it, or what comes from it, when it is told to.
type hole struct {
	there, back sync.RWMutex
	asked       atomic.Int64 // how many chunks went to the server
}

type counted struct {
	net.Conn
	reads *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.reads.Add(1)
	return n, err
}

func (h *hole) serve(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", to)
		if err != nil {
			in.Close()
			return
		}
		pass := func(flow *sync.RWMutex, from, to net.Conn) {
			defer to.Close()
			b := make([]byte, 1<<16)
			for {
				n, err := from.Read(b)
				if err != nil {
					return
				}
				flow.RLock()
				_, err = to.Write(b[:n])
				flow.RUnlock()
				if err != nil {
					_, _ = io.Copy(io.Discard, from)
					return
				}
			}
		}
		go pass(&h.there, counted{in, &h.asked}, out)
		go pass(&h.back, out, in)
	}
}

// client is a client of a store, behind the hole, and is connected.
func (h *hole) client(t *testing.T) *client.Client {
	d := inMemory(t, disk.Options{})
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.New(server.Options{Saver: d, Items: items, Store: "disk"}).Serve(working, server.Listener{Listener: l})
	}()
	t.Cleanup(func() { stop(); <-served })
	front, err := net.Listen("unix", filepath.Join(dir, "front"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Close() })
	go h.serve(front, l.Addr().String())
	c, err := client.Address("unix:"+front.Addr().String(), client.Options{Retry: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSilentServer: a call ends though nothing is heard of the server, though its context does not. One
// that writes may have written.
func TestSilentServer(t *testing.T) {
	ctx := context.Background()
	at := saver.Config{ThreadID: "t"}
	for name, c := range map[string]struct {
		call   func(c *client.Client) error
		writes bool
	}{
		"GetTuple": {func(c *client.Client) error {
			_, err := c.GetTuple(ctx, at)
			return err
		}, false},
		"Put": {func(c *client.Client) error {
			_, err := c.Put(ctx, at, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, nil, nil)
			return err
		}, true},
		"List": {func(c *client.Client) (err error) {
			for _, err = range c.List(ctx, saver.Query{}) {
			}
			return err
		}, false},
		"Own": {func(c *client.Client) error {
			_, err := c.Own(ctx, "t", false)
			return err
		}, false},
		"Search": {func(c *client.Client) error {
			_, err := c.Items().Search(ctx, store.Query{})
			return err
		}, false},
	} {
		for _, gets := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", which the server does not get", true: ", which the server gets"}[gets], func(t *testing.T) {
				t.Parallel()
				h := &hole{}
				cl := h.client(t)
				flow := &h.there
				if gets {
					flow = &h.back
				}
				flow.Lock()
				defer flow.Unlock()
				ended := make(chan error, 1)
				go func() { ended <- c.call(cl) }()
				select {
				case err := <-ended:
					if err == nil || errors.Is(err, saver.ErrOutcomeUnknown) != c.writes {
						t.Errorf("the error is %v, and the call writes: %v", err, c.writes)
					}
				case <-time.After(time.Minute):
					t.Error("the call does not end before the server is back")
				}
			})
		}
	}
}

// TestSlowAnswer: a call that takes long is not given up as long as the server says that it is there.
func TestSlowAnswer(t *testing.T) {
	h := &hole{}
	c := h.client(t)
	lease, err := c.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	before := h.asked.Load()
	ended := make(chan error, 1)
	go func() {
		next, err := c.Own(t.Context(), "t", true)
		if err == nil {
			next.Release()
		}
		ended <- err
	}()
	for h.asked.Load() < before+4 { // the call, and pings
		select {
		case err := <-ended:
			t.Fatalf("the call ends early: %v", err)
		default:
			runtime.Gosched()
		}
	}
	lease.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
