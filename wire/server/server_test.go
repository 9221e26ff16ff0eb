package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// TestHelloIsFirst: no method does anything before hello.
func TestHelloIsFirst(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	put(t, n.d, "t", "1")
	h := wire.Hello{Protocol: wire.Protocol}
	w, err := wire.Decode[wire.Welcome](n.connect().does("hello", wire.MustEncode(h)))
	must(t, err)
	if len(w.Methods) < 23 {
		t.Errorf("methods %v", w.Methods)
	}
	c := n.connect()
	for _, method := range append(w.Methods, "nonsense") {
		if method != "hello" {
			c.refuses(method, threads(wire.Threads{Thread: "t"}, nil), wire.CodeBadRequest)
		}
	}
	if n.ids("t") != "1" {
		t.Error("a call before hello had an effect")
	}
	c.does("hello", wire.MustEncode(h))
	c.refuses("nonsense", wire.AppendEmpty(nil), wire.CodeUnknownMethod)
	c.does("ping", wire.AppendEmpty(nil))
}

// TestVersion: a client of another protocol is told which one the server speaks.
func TestVersion(t *testing.T) {
	c := start(t, t.TempDir(), nil).connect()
	h := wire.Hello{Protocol: wire.Protocol + 1}
	if e := c.refuses("hello", wire.MustEncode(h), wire.CodeVersion); e.Details.Protocol != wire.Protocol {
		t.Errorf("details %+v", e.Details)
	}
	c.ends()
}

// TestMalformed: what is no message ends the connection; parameters that are wrong do not.
func TestMalformed(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	c := n.greeted()
	c.refuses("put", wire.MustEncode(map[string]int64{"unknown": 1}), wire.CodeBadRequest)
	c.refuses("delete_thread", wire.MustEncode(map[string]int64{"thread": 1}), wire.CodeInvalid)
	c.refuses("delete_thread", threads(wire.Threads{}, nil), wire.CodeInvalid)
	c.refuses("delete_thread", threads(wire.Threads{Thread: "t"}, call(256, 1)), wire.CodeBadRequest)
	for name, frame := range map[string][]byte{
		"no message": {0, 0, 0, 1, 0xc0}, "empty": {0, 0, 0, 0}, "too long": {0xff, 0xff, 0xff, 0xff}, "a response": {0, 0, 0, 5, 0x94, 1, 0, 0xc0, 0xc0},
		"parameters without a map": {0, 0, 0, 10, 0x94, 0, 1, 0xa4, 'p', 'i', 'n', 'g', 0x91, 0xc0},
	} {
		t.Run(name, func(t *testing.T) {
			c := n.greeted()
			_, err := c.nc.Write(frame)
			must(t, err)
			c.ends()
		})
	}
	c.does("ping", wire.AppendEmpty(nil))
}

// TestFrameLimit: a call that is too long ends its connection, and an answer that is too long
// is an error.
func TestFrameLimit(t *testing.T) {
	n := start(t, t.TempDir(), func(o *server.Options) { o.MaxFrame = 4096 })
	c := n.greeted()
	for i := range 3 {
		c.does("put_writes", writes(t, "t", fmt.Sprint(i), strings.Repeat("x", 2000)))
	}
	put(t, n.d, "t", "1")
	c.refuses("get", threads(wire.Threads{Thread: "t"}, nil), wire.CodeTooLarge)
	c.does("ping", wire.AppendEmpty(nil))
	c.send("put_writes", writes(t, "t", "4", strings.Repeat("x", 5000)))
	if m := c.receive(); m.Err == nil || m.Err.Code != wire.CodeTooLarge {
		t.Errorf("got %+v", m)
	}
	c.ends()
}

func writes(t *testing.T, thread, task, value string) []byte {
	t.Helper()
	p := wire.PutWrites{Config: saver.Config{ThreadID: thread, CheckpointID: "1"}, Task: task, Writes: []saver.Write{{Channel: "c", Value: saver.ValueOf(value)}}}
	b, err := wire.Encode(&p)
	must(t, err)
	return b
}

// TestSlowPeers: a connection that does not say hello, that stops in the middle of a frame,
// that is idle or does not take what it asked for is closed; one that waits for an answer, or
// has a lease, is not.
func TestSlowPeers(t *testing.T) {
	const short = 50 * time.Millisecond
	t.Run("silent", func(t *testing.T) {
		start(t, t.TempDir(), func(o *server.Options) { o.Greeting = short }).connect().ends()
	})
	t.Run("half a frame", func(t *testing.T) {
		c := start(t, t.TempDir(), func(o *server.Options) { o.Stall = short }).greeted()
		_, err := c.nc.Write([]byte{0, 0, 1})
		must(t, err)
		c.ends()
	})
	t.Run("idle", func(t *testing.T) {
		n := start(t, t.TempDir(), func(o *server.Options) { o.Idle = short })
		owner := n.greeted()
		owned, err := wire.Decode[wire.Owned](owner.does("own", threads(wire.Threads{Thread: "t"}, nil)))
		must(t, err)
		waiter := n.greeted()
		waiter.send("own", threads(wire.Threads{Thread: "t", Wait: true}, nil))
		n.greeted().ends() // after which the others were idle for as long
		owner.does("release", threads(wire.Threads{Lease: owned.Lease}, nil))
		if m := waiter.receive(); m.Err != nil {
			t.Error(m.Err)
		}
	})
	t.Run("takes nothing", func(t *testing.T) {
		n := start(t, t.TempDir(), func(o *server.Options) { o.Stall = short })
		for i := range 8 {
			must(t, n.d.PutWrites(ctx, saver.Config{ThreadID: "t", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf(strings.Repeat("x", 1<<20))}}, fmt.Sprint(i), ""))
		}
		put(t, n.d, "t", "1")
		c := n.greeted()
		for range 4 {
			c.send("get", threads(wire.Threads{Thread: "t"}, nil))
		}
		n.greeted().does("ping", wire.AppendEmpty(nil))
		n.alone(1) // the one that pinged
		n.greeted().does("ping", wire.AppendEmpty(nil))
	})
}

// alone waits until the server has no more than so many connections.
func (n *node) alone(connections int) {
	n.t.Helper()
	for end := time.Now().Add(patience); n.s.Connections() > connections; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("%d connections are open", n.s.Connections())
		}
	}
}

// TestLease: a lease ends with its connection, and is there until then.
func TestLease(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	a, b := n.greeted(), n.greeted()
	owned, err := wire.Decode[wire.Owned](a.does("own", threads(wire.Threads{Thread: "t"}, nil)))
	must(t, err)
	b.refuses("own", threads(wire.Threads{Thread: "t"}, nil), wire.CodeOwned)
	p := wire.PutWrites{Config: saver.Config{ThreadID: "t", CheckpointID: "1", Epoch: owned.Epoch + 1}, Task: "task"}
	params, err := wire.Encode(&p)
	must(t, err)
	if e := b.refuses("put_writes", params, wire.CodeFenced); e.Details.Thread != "t" {
		t.Errorf("details %+v", e.Details)
	}
	id := b.send("own", threads(wire.Threads{Thread: "t", Wait: true}, nil))
	must(t, a.nc.Close())
	if m := b.receive(); m.ID != id || m.Err != nil {
		t.Errorf("got %+v", m)
	}
}

// TestStream: a listing sends what it was asked for and no more, and a cancel ends it, also
// where calls come in turn.
func TestStream(t *testing.T) {
	for _, inTurn := range []bool{false, true} {
		t.Run(fmt.Sprintf("in turn %t", inTurn), func(t *testing.T) { testStream(t, inTurn) })
	}
}

func testStream(t *testing.T, inTurn bool) {
	n := start(t, t.TempDir(), nil)
	const total = 1000 // checkpoints, of which a batch has at most 64
	for i := range total {
		put(t, n.d, "t", fmt.Sprintf("%04d", i))
	}
	c := n.said(wire.Hello{Protocol: wire.Protocol, InTurn: inTurn})
	params := threads(wire.Threads{Thread: "t"}, nil)
	id := c.send("list", params)
	got := 0
	batch := func() {
		t.Helper()
		m := c.receive()
		items, err := wire.Decode[wire.Items](m.Body)
		if must(t, err); m.Method != "items" || items.Call != id || len(items.Items) == 0 {
			t.Fatalf("got %+v", m)
		}
		got += len(items.Items)
	}
	for range 4 {
		batch()
	}
	if m := c.askBeside(); m.Err != nil {
		t.Error(m.Err)
	}
	control := func(method string, n wire.Control) {
		t.Helper()
		m := wire.Message{Kind: wire.Notification, Method: method, Body: wire.MustEncode(n)}
		frame, err := wire.AppendFrame(nil, 1<<20, m.AppendTo)
		must(t, err)
		_, err = c.nc.Write(frame)
		must(t, err)
	}
	for got < total {
		control("more", wire.Control{Call: id, Batches: 1})
		batch()
	}
	if m := c.receive(); m.ID != id || m.Err != nil {
		t.Errorf("got %+v", m)
	} else if count, err := wire.Decode[wire.Counted](m.Body); count.Count != total || got != total || err != nil {
		t.Errorf("%d items, counted %d, %v", got, count, err)
	}
	id = c.send("list", params)
	for range 4 {
		batch()
	}
	control("cancel", wire.Control{Call: id})
	if m := c.receive(); m.ID != id || m.Err == nil || m.Err.Code != wire.CodeCancelled {
		t.Errorf("got %+v", m)
	}
}

// TestInTurn: a client that said its calls come in turn, and sends many at once, has an
// answer to each, in their order.
func TestInTurn(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	c := n.said(wire.Hello{Protocol: wire.Protocol, InTurn: true})
	var ids []uint32
	for i := range 20 {
		ids = append(ids, c.send("put", checkpoint(t, "t", fmt.Sprintf("%02d", i), "", call(1, uint64(i+1)))), c.send("get", threads(wire.Threads{Thread: "t"}, nil)))
	}
	for i, id := range ids {
		m := c.receive()
		if m.ID != id || m.Err != nil {
			t.Fatalf("answer %d: got %+v, want one to %d", i, m, id)
		}
		if got, err := wire.Decode[wire.Got](m.Body); i%2 == 1 && (err != nil || got.Tuple == nil || got.Tuple.ID != fmt.Sprintf("%02d", i/2)) {
			t.Errorf("answer %d: got %+v, %v", i, got, err)
		}
	}
}

// askBeside asks something while a stream waits: nothing else comes.
func (c *raw) askBeside() wire.Message {
	c.t.Helper()
	return c.ask("ping", wire.AppendEmpty(nil))
}

// slowItems is a store whose batches wait until they may go on.
type slowItems struct {
	store.Store
	began, goOn chan struct{}
}

func (s *slowItems) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	close(s.began)
	<-s.goOn
	return s.Store.Batch(ctx, ops...)
}

// TestEnd: a server that is told to end finishes the calls that have begun, and refuses
// others. Nothing is left of it in the directory but the store.
func TestEnd(t *testing.T) {
	dir := t.TempDir()
	slow := &slowItems{began: make(chan struct{}), goOn: make(chan struct{})}
	n := start(t, dir, func(o *server.Options) { slow.Store, o.Items = o.Items, slow })
	busy, owner, waiter := n.greeted(), n.greeted(), n.greeted()
	p := wire.Batch{Ops: []store.Op{store.PutOp{Namespace: store.Namespace{"n"}, Key: "k", Value: map[string]any{}}}}
	params, err := wire.Encode(&p)
	must(t, err)
	id := busy.send("store_batch", params)
	<-slow.began
	owner.does("own", threads(wire.Threads{Thread: "t"}, nil))
	waiter.send("own", threads(wire.Threads{Thread: "t", Wait: true}, nil))
	waiter.does("ping", wire.AppendEmpty(nil))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.stop()
	}()
	if m := waiter.receive(); m.Err == nil { // it would wait for ever
		t.Errorf("got %+v", m)
	}
	waiter.refuses("delete_thread", threads(wire.Threads{Thread: "t"}, call(0, 1)), wire.CodeClosing)
	close(slow.goOn)
	if m := busy.receive(); m.ID != id || m.Err != nil {
		t.Errorf("got %+v", m)
	}
	<-stopped
	for _, c := range []*raw{busy, owner, waiter} {
		c.ends()
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "serve*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	n = start(t, dir, nil)
	items, err := store.On(n.d, store.Options{})
	must(t, err)
	if _, err := items.Get(ctx, store.Namespace{"n"}, "k"); err != nil {
		t.Errorf("what was acknowledged: %v", err)
	}
}

// TestIdleExit: a server ends by itself when nobody has been connected for long, but waits for its first client.
func TestIdleExit(t *testing.T) {
	at, err := server.ListenDir(t.TempDir())
	must(t, err)
	defer func() { must(t, at.Close()) }()
	n := start(t, t.TempDir(), nil)
	s := server.New(server.Options{Saver: n.d, IdleExit: time.Millisecond, First: time.Millisecond})
	if err := s.Serve(ctx, at.Listener); !errors.Is(err, server.ErrIdle) {
		t.Error(err)
	}
	if at, err = server.ListenDir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, at.Close()) }()
	s = server.New(server.Options{Saver: n.d, IdleExit: time.Millisecond, First: time.Hour})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	select {
	case err := <-ended:
		t.Fatal("before its first client came: ", err)
	case <-time.After(100 * time.Millisecond):
	}
	c, err := client.Address(at.Address, client.Options{})
	must(t, err)
	must(t, c.DeleteThread(ctx, "t"))
	must(t, c.Close())
	if err := <-ended; !errors.Is(err, server.ErrIdle) {
		t.Error(err)
	}
}

// TestStaleFiles: what a server that was killed left does not keep the next one out, and a
// path that is too long for a socket gets a short one.
func TestStaleFiles(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "serve.sock"), Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	must(t, os.WriteFile(filepath.Join(dir, server.InfoName), []byte("{torn"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, server.InfoName+".tmp"), []byte("{"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "serve.start-1"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)) // the root of a volume
	n := start(t, dir, nil)
	n.greeted().does("ping", wire.AppendEmpty(nil))
	if runtime.GOOS != "windows" {
		for _, name := range []string{"serve.sock", server.InfoName} {
			st, err := os.Stat(filepath.Join(dir, name))
			if must(t, err); st.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", name, st.Mode())
			}
		}
	}
}

// TestNoPlaceForASocket: where a path is too long for a socket, and no short one can be made, the
// server is reached over TCP of the loopback device, with a token.
func TestNoPlaceForASocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/nonexistent")
	n := start(t, dir, nil)
	b, err := os.ReadFile(filepath.Join(dir, server.InfoName))
	must(t, err)
	var info server.Info
	must(t, json.Unmarshal(b, &info))
	if !strings.HasPrefix(info.Address, "tcp:127.0.0.1:") || info.TokenFile == "" {
		t.Errorf("address %q, token in %q", info.Address, info.TokenFile)
	}
	c := client.Dir(dir, client.Options{})
	if _, err := c.Stats(ctx); err != nil {
		t.Error(err)
	}
	must(t, c.Close())
	n.stop()
	if left, _ := filepath.Glob(filepath.Join(dir, "serve*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStranger: where the server of a directory was killed, another program may listen at its address. It learns neither the
// token nor what is stored, whatever it answers, also if it passes everything on to the directory's new server.
func TestStranger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/nonexistent")
	n := start(t, dir, nil)
	defer n.stop()
	name := filepath.Join(dir, server.InfoName)
	b, err := os.ReadFile(name)
	must(t, err)
	var info server.Info
	must(t, json.Unmarshal(b, &info))
	token, err := os.ReadFile(filepath.Join(dir, info.TokenFile))
	must(t, err)
	say := func(nc net.Conn, m wire.Message) {
		text, err := wire.AppendFrame(nil, 1<<20, m.AppendTo)
		must(t, err)
		_, _ = nc.Write(text)
	}
	welcome := func(nc net.Conn, proof string) {
		say(nc, wire.Message{Kind: wire.Response, Body: wire.MustEncode(wire.Welcome{Protocol: wire.Protocol, MaxFrame: wire.DefaultMaxFrame, CallSlots: 1, Proof: proof})})
	}
	said := func(hello []byte) (h wire.Hello) {
		body, err := wire.ReadFrame(bytes.NewReader(hello), 1<<20)
		must(t, err)
		m, err := wire.DecodeMessage(body)
		must(t, err)
		h, err = wire.Decode[wire.Hello](m.Body)
		must(t, err)
		return h
	}
	for what, answer := range map[string]func(nc net.Conn, hello []byte){
		"a welcome":          func(nc net.Conn, _ []byte) { welcome(nc, "x") },
		"the client's proof": func(nc net.Conn, hello []byte) { welcome(nc, said(hello).Proof) },
		"the proof of no token": func(nc net.Conn, hello []byte) {
			welcome(nc, wire.Prove("", wire.ProvesServer, nc.LocalAddr().String(), said(hello).Challenge))
		},
		"a refusal": func(nc net.Conn, _ []byte) {
			say(nc, wire.Message{Kind: wire.Response, Err: &wire.Error{Code: wire.CodeAuth, Message: "no"}})
		},
		"what the server answers": func(nc net.Conn, hello []byte) {
			real, err := net.Dial("tcp", strings.TrimPrefix(info.Address, "tcp:"))
			must(t, err)
			_, err = real.Write(hello)
			must(t, err)
			text := make([]byte, 4096)
			k, _ := real.Read(text)
			_, _ = nc.Write(text[:k])
			_ = real.Close()
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		heard := make(chan string, 1)
		go func() {
			nc, err := l.Accept()
			if err != nil {
				heard <- err.Error()
				return
			}
			defer nc.Close()
			hello := make([]byte, 4096)
			k, _ := nc.Read(hello)
			answer(nc, hello[:k])
			rest := make([]byte, 4096)
			r, _ := nc.Read(rest)
			heard <- string(hello[:k]) + string(rest[:r])
		}()
		stale := info
		stale.Address = "tcp:" + l.Addr().String()
		if what == "the proof of no token" { // as a power failure may leave it
			stale.TokenFile = "empty.token"
			must(t, os.WriteFile(filepath.Join(dir, stale.TokenFile), nil, 0o600))
		}
		text, err := json.Marshal(stale)
		must(t, err)
		must(t, os.WriteFile(name, text, 0o600))
		c := client.Dir(dir, client.Options{Retry: -1})
		bound, done := context.WithTimeout(ctx, 10*time.Second)
		if _, err := c.Stats(bound); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, wire.ErrAuth) {
			t.Errorf("%s: %v", what, err)
		}
		done()
		must(t, c.Close())
		must(t, l.Close())
		if got := <-heard; strings.Contains(got, strings.TrimSpace(string(token))) || strings.Contains(got, "stats") {
			t.Errorf("%s: it was sent %q", what, got)
		}
	}
	must(t, os.WriteFile(name, b, 0o600))
}

// TestLongPathOfRoot: where root serves the store of a user, the socket is not in a directory that the user may not enter.
func TestLongPathOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to serve the store of another user takes root")
	}
	private, err := os.MkdirTemp("/tmp", "r") // of mode 0700
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(private) })
	for _, variable := range []string{"XDG_RUNTIME_DIR", "TMPDIR"} {
		t.Setenv("XDG_RUNTIME_DIR", "")
		t.Setenv(variable, private)
		for uid, inside := range map[int]bool{0: true, 4321: false} {
			dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Chown(dir, uid, uid))
			n := start(t, dir, nil)
			b, err := os.ReadFile(filepath.Join(dir, server.InfoName))
			must(t, err)
			var info server.Info
			must(t, json.Unmarshal(b, &info))
			if !strings.HasPrefix(info.Address, "unix:/") || strings.HasPrefix(info.Address, "unix:"+private) != inside {
				t.Errorf("%s, user %d: the address is %s", variable, uid, info.Address)
			}
			n.stop()
		}
	}
}

// TestLongPath: the socket of a directory with a long path is elsewhere.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	n := start(t, dir, nil)
	b, err := os.ReadFile(filepath.Join(dir, server.InfoName))
	must(t, err)
	var info server.Info
	must(t, json.Unmarshal(b, &info))
	path, is := strings.CutPrefix(info.Address, "unix:/")
	if !is || len(path) > 100 {
		t.Errorf("address %q", info.Address)
	}
	c := client.Dir(dir, client.Options{})
	if _, err := c.Stats(ctx); err != nil {
		t.Error(err)
	}
	must(t, c.Close())
	n.stop()
	if _, err := os.Stat(filepath.Dir("/" + path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the private directory is left behind: %v", err)
	}
}

// TestPrivateOfKilled: the private directory of a server that was killed goes when the next
// one starts.
func TestPrivateOfKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	must(t, os.Mkdir(dir, 0o700))
	killed, err := server.ListenDir(dir)
	must(t, err)
	private := filepath.Dir(strings.TrimPrefix(killed.Address, "unix:"))
	next, err := server.ListenDir(dir)
	must(t, err)
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind: %v", private, err)
	}
	must(t, errors.Join(killed.Listener.Close(), next.Close()))
}

// TestTokenAndTLS: over TCP nothing is done without the token, and TLS works.
func TestTokenAndTLS(t *testing.T) {
	cert, pool := certificate(t)
	n := start(t, t.TempDir(), nil)
	for _, kind := range []string{"tcp", "tls"} {
		t.Run(kind, func(t *testing.T) {
			if _, err := server.ListenAt(kind+":127.0.0.1:0", "", nil); err == nil {
				t.Error("listens without a token")
			}
			at, err := server.ListenAt(kind+":127.0.0.1:0", "secret", &tls.Config{Certificates: []tls.Certificate{cert}})
			must(t, err)
			ending, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			s := server.New(server.Options{Saver: n.d, Store: "disk", Token: at.Token})
			go func() { ended <- s.Serve(ending, at.Listener) }()
			defer func() {
				cancel()
				must(t, errors.Join(<-ended, at.Close()))
			}()
			for token, want := range map[string]error{"": wire.ErrAuth, "wrong": wire.ErrAuth, "secret": nil, "secret ": wire.ErrAuth} {
				c, err := client.Address(at.Address, client.Options{Token: token, TLS: &tls.Config{RootCAs: pool}})
				must(t, err)
				if err := c.DeleteThread(ctx, "t"); !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("token %q: %v", token, err)
				}
				must(t, c.Close())
			}
		})
	}
	if _, err := server.ListenAt("http:x", "secret", nil); err == nil {
		t.Error("listens at an address of no kind")
	}
}

// certificate makes a certificate of 127.0.0.1, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// brokenSaver has a store that takes no more writes.
type brokenSaver struct {
	saver.Saver
	err error
}

func (s brokenSaver) DeleteThread(context.Context, string) error { return s.err }

// TestUnavailable: a server whose store takes no more writes ends, and so does one whose
// store is gone; one whose disk is full goes on.
func TestUnavailable(t *testing.T) {
	at, err := server.ListenDir(t.TempDir())
	must(t, err)
	ended := make(chan error, 1)
	s := server.New(server.Options{Saver: brokenSaver{err: fmt.Errorf("delete: %w", fault.ErrPoisoned)}})
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	c, err := client.Address(at.Address, client.Options{})
	must(t, err)
	if err := c.DeleteThread(ctx, "t"); !errors.Is(err, wire.ErrUnavailable) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, server.ErrUnavailable) {
		t.Error(err)
	}
	must(t, errors.Join(c.Close(), at.Close()))

	gone := errors.New("gone")
	at, err = server.ListenDir(t.TempDir())
	must(t, err)
	s = server.New(server.Options{Saver: brokenSaver{err: fault.ErrDiskFull}, IdleExit: 80 * time.Millisecond, Alive: func() error { return gone }})
	if err := s.Serve(ctx, at.Listener); !errors.Is(err, gone) {
		t.Error(err)
	}
	must(t, at.Close())
}

// TestDiskFull: a full disk is an error of the call, and the server goes on.
func TestDiskFull(t *testing.T) {
	n := start(t, t.TempDir(), func(o *server.Options) { o.Saver = brokenSaver{o.Saver, fault.ErrDiskFull} })
	c := n.greeted()
	c.refuses("delete_thread", threads(wire.Threads{Thread: "t"}, nil), wire.CodeDiskFull)
	c.does("ping", wire.AppendEmpty(nil))
}

// TestTooManyCalls: a connection has no more calls under way than it may, and all are
// answered.
func TestTooManyCalls(t *testing.T) {
	n := start(t, t.TempDir(), func(o *server.Options) { o.MaxCalls = 2 })
	c := n.greeted()
	waiting := map[uint32]bool{}
	for i := range 50 {
		waiting[c.send("put", checkpoint(t, "t", fmt.Sprint(i), "", call(uint16(i), 1)))] = true
	}
	for len(waiting) > 0 {
		m := c.receive()
		if m.Err != nil || !waiting[m.ID] {
			t.Fatalf("got %+v", m)
		}
		delete(waiting, m.ID)
	}
}

// TestTooManyConnections: a connection over the limit is closed, and there is room again when
// one ends.
func TestTooManyConnections(t *testing.T) {
	n := start(t, t.TempDir(), func(o *server.Options) { o.MaxConnections = 1 })
	c := n.greeted()
	n.connect().ends()
	c.does("ping", wire.AppendEmpty(nil))
}

// TestLength: a frame that is announced and not sent takes little memory.
func TestLength(t *testing.T) {
	var before, after runtime.MemStats
	n := start(t, t.TempDir(), nil)
	c := n.greeted()
	runtime.ReadMemStats(&before)
	_, err := c.nc.Write(binary.BigEndian.AppendUint32(nil, wire.DefaultMaxFrame))
	must(t, err)
	n.greeted().does("ping", wire.AppendEmpty(nil))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("took %d bytes", took)
	}
}
