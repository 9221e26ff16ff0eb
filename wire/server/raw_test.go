package server_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/server"
)

// node is a server of a store, in a directory, that can be stopped and started again.
type node struct {
	t       *testing.T
	dir     string
	address string
	d       *disk.Saver
	s       *server.Server
	stop    func() // ends the server, then the store
}

// start opens the store in dir and serves it.
func start(t *testing.T, dir string, change func(*server.Options)) *node {
	t.Helper()
	return startAt(t, dir, nil, change)
}

// startAt is start with a clock.
func startAt(t *testing.T, dir string, clock func() time.Time, change func(*server.Options)) *node {
	t.Helper()
	d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at, err := server.ListenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Saver: d, Items: items, Store: "disk", Token: at.Token, Stats: func() map[string]int64 { return nil }}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := server.New(o)
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	n := &node{t: t, dir: dir, address: at.Address, d: d, s: s}
	n.stop = func() {
		t.Helper()
		n.stop = func() {}
		cancel()
		if err := errors.Join(<-ended, at.Close(), items.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { n.stop() })
	return n
}

// raw is a connection that sends what it is told to.
type raw struct {
	t    *testing.T
	nc   net.Conn
	br   *bufio.Reader
	last uint32
}

// connect connects without hello.
func (n *node) connect() *raw {
	n.t.Helper()
	nc, err := net.Dial("unix", strings.TrimPrefix(n.address, "unix:"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = nc.Close() }) // a test may have done so
	return &raw{t: n.t, nc: nc, br: bufio.NewReader(nc)}
}

// greeted connects and says hello.
func (n *node) greeted() *raw { return n.said(wire.Hello{Protocol: wire.Protocol}) }

func (n *node) said(h wire.Hello) *raw {
	n.t.Helper()
	c := n.connect()
	if m := c.ask("hello", wire.MustEncode(h)); m.Err != nil {
		n.t.Fatal(m.Err)
	}
	return c
}

// send sends a request and returns its id.
func (c *raw) send(method string, params []byte) uint32 {
	c.t.Helper()
	c.last++
	m := wire.Message{Kind: wire.Request, ID: c.last, Method: method, Body: params}
	frame, err := wire.AppendFrame(nil, wire.DefaultMaxFrame, m.AppendTo)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	return c.last
}

// receive returns the next message.
func (c *raw) receive() wire.Message {
	c.t.Helper()
	m, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

func (c *raw) next() (wire.Message, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return wire.Message{}, err
	}
	b, err := wire.ReadFrame(c.br, wire.DefaultMaxFrame)
	if err != nil {
		return wire.Message{}, err
	}
	return wire.DecodeMessage(b)
}

// ask sends a request and returns its response.
func (c *raw) ask(method string, params []byte) wire.Message {
	c.t.Helper()
	id := c.send(method, params)
	m := c.receive()
	if m.Kind != wire.Response || m.ID != id {
		c.t.Fatalf("%s: got message %+v", method, m)
	}
	return m
}

// does asks for something that must succeed.
func (c *raw) does(method string, params []byte) []byte {
	c.t.Helper()
	m := c.ask(method, params)
	if m.Err != nil {
		c.t.Fatalf("%s: %s: %v", method, m.Err.Code, m.Err)
	}
	return m.Body
}

// refuses asks for something that must fail.
func (c *raw) refuses(method string, params []byte, code wire.Code) *wire.Error {
	c.t.Helper()
	m := c.ask(method, params)
	if m.Err == nil || m.Err.Code != code {
		c.t.Fatalf("%s: got error %+v, want %s", method, m.Err, code)
	}
	return m.Err
}

// ends wants the server to close the connection.
func (c *raw) ends() {
	c.t.Helper()
	for {
		m, err := c.next()
		if err == nil && m.Err != nil {
			continue // why
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			c.t.Fatalf("the connection goes on: %+v, %v", m, err)
		}
		return
	}
}

var clientID = [wire.ClientSize]byte{1, 2, 3}

func call(slot uint16, number uint64) *wire.Call {
	return &wire.Call{Client: clientID, Slot: slot, Number: number}
}

func again(c *wire.Call) *wire.Call {
	a := *c
	a.Again = true
	return &a
}

// checkpoint is a put of checkpoint id of a thread, with a run of the same name as the thread.
func checkpoint(t *testing.T, thread, id, parent string, c *wire.Call) []byte {
	t.Helper()
	p := wire.PutOf(saver.PutRequest{
		Config:     saver.Config{ThreadID: thread, CheckpointID: parent},
		Checkpoint: saver.Checkpoint{V: 4, ID: id, Values: map[string]saver.Value{"a": saver.ValueOf(id)}, Versions: map[string]saver.Version{"a": saver.IntVersion(int64(len(id)))}},
		Metadata:   saver.Metadata{"run_id": "run of " + thread}, NewVersions: map[string]saver.Version{"a": saver.IntVersion(int64(len(id)))},
	})
	p.Call = c
	b, err := wire.Encode(&p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func threads(p wire.Threads, c *wire.Call) []byte {
	p.Call = c
	return wire.MustEncode(&p)
}

// ids are the ids of the checkpoints of a thread, newest first.
func (n *node) ids(thread string) string {
	n.t.Helper()
	var ids []string
	for tup, err := range n.d.List(context.Background(), saver.Query{ThreadID: thread}) {
		if err != nil {
			n.t.Fatal(err)
		}
		ids = append(ids, tup.Config.CheckpointID)
	}
	return strings.Join(ids, " ")
}
