package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/google/uuid"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
)

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestNamespaceUnknown: a namespace that names no graph is an error of the request.
func TestNamespaceUnknown(t *testing.T) {
	log := &logged{}
	h := open(t, t.TempDir(), func(c *server.Config) { c.Logger = logTo(log) })
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	at := object{"checkpoint_ns": "no|such:1"}
	h.refused(404, "POST", "/threads/"+id+"/state/checkpoint", object{"checkpoint": at})
	if a := h.ok("POST", "/threads/"+id+"/history", object{"checkpoint": at}); a.text != "[]" { // nothing is its history
		t.Errorf("history: %s", a.text)
	}
	h.refused(404, "POST", "/threads/"+id+"/state", object{"checkpoint": at, "values": object{"text": "y"}})
	for _, method := range []string{"state.get", "state.listCheckpoints"} {
		a := h.ok("POST", "/threads/"+id+"/commands", object{"id": 1, "method": method, "params": object{"namespace": []string{"no", "such"}}})
		if a.text1("error") != "no_such_namespace" {
			t.Errorf("%s: %s", method, a.text)
		}
	}
	if log.String() != "" {
		t.Errorf("the operator is told: %s", log)
	}
}

// TestBehindJSON: a body is one value of JSON, and nothing else.
func TestBehindJSON(t *testing.T) {
	h := newHouse(t)
	for _, text := range []string{`{}]`, `{}}`, `{} {}`, `{}x`, ``, `{}` + "\x00", `{"metadata":{"a":NaN}}`} {
		if a := h.refused(422, "POST", "/threads", text); a.text != `{"detail":"Invalid JSON in request body"}` {
			t.Errorf("%q: %s", text, a.text)
		}
	}
	h.ok("POST", "/threads", " {} \r\n")
}

// TestFullDiskFilling: wherever the disk becomes full while a thread is made that has a state, the thread
// goes, or has it all.
func TestFullDiskFilling(t *testing.T) {
	inj := faultfs.NewInjector()
	h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)}}, nil)
	step := func(text string) object {
		return object{"updates": []object{{"values": object{"text": text}, "as_node": "a"}}}
	}
	refused := 0
	for n := range 5 {
		id := uuid.NewString()
		inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, N: 1 + n, Sticky: true, Err: syscall.ENOSPC})
		a := h.do("POST", "/threads", object{"thread_id": id, "graph_id": "simple", "supersteps": []object{step("x"), step("y"), step("z")}})
		inj.Set()
		switch a.status {
		case 200:
			if got := h.ok("GET", "/threads/"+id+"/state", nil); !strings.Contains(got.text, `"text":"z"`) {
				t.Errorf("write %d: %s", n, got.text)
			}
		case 507:
			refused++
			h.until("the thread that was refused is gone", func() bool { return !h.holds(id) })
			h.refused(404, "GET", "/threads/"+id, nil)
		default:
			t.Errorf("write %d: %d %s", n, a.status, a.text)
		}
	}
	if refused < 2 {
		t.Errorf("%d requests were refused", refused)
	}
}

// TestPanicWhileFilling: a thread whose graph panics over one of the supersteps that it is made with goes,
// whether the engine notices the panic or not.
func TestPanicWhileFilling(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		sum := channel.Reduce(func(old, new string) string {
			if new == "reducer" {
				panic("a reducer")
			}
			return old + new
		})
		b := graph.New(graph.Key("text", sum)).Node("a", says("a")).Node("b", says("b")).Edge(graph.Start, "a")
		b.Conditional("a", "rash", func(_ context.Context, s any) (any, error) {
			if text, _ := s.(object)["text"].(string); strings.HasSuffix(text, "route") {
				panic("a route")
			}
			return "b", nil
		}, "b")
		c.Graphs["panics"] = must(b.Compile(graph.Options{Name: "panics", Saver: c.Saver}))
	})
	step := func(text string) object {
		return object{"updates": []object{{"values": object{"text": text}, "as_node": "a"}}}
	}
	for _, of := range []string{"reducer", "route"} {
		id := uuid.NewString()
		h.equal(h.refused(500, "POST", "/threads", object{"thread_id": id, "graph_id": "panics", "supersteps": []object{step("x"), step(of)}}), `{"detail":"Internal Server Error"}`)
		h.until("the thread is gone", func() bool { return !h.holds(id) })
		h.refused(404, "GET", "/threads/"+id, nil)
		h.ok("POST", "/threads", object{"thread_id": id, "graph_id": "panics", "supersteps": []object{step("x"), step("y")}})
		if a := h.ok("GET", "/threads/"+id+"/state", nil); !strings.Contains(a.text, `"text":"xy"`) {
			t.Errorf("%s", a.text)
		}
	}
}

// TestNoTimes: what is to live for less than no time is refused, and an item also with 0: it would live for ever. Of a
// thread 0 takes the time away.
func TestNoTimes(t *testing.T) {
	h := newHouse(t)
	id := h.ok("POST", "/threads", object{"ttl": 60}).text1("thread_id")
	for _, ttl := range []any{-1, -0.5, object{"ttl": -1, "strategy": "delete"}} {
		h.refused(422, "POST", "/threads", object{"ttl": ttl})
		h.refused(422, "PATCH", "/threads/"+id, object{"ttl": ttl})
	}
	for _, ttl := range []any{0, -1, -0.5} {
		h.refused(422, "PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{}, "ttl": ttl})
	}
	h.equal(h.ok("POST", "/threads/count", object{}), `1`)
	if a := h.ok("GET", "/threads/"+id+"?include=ttl", nil); a.object()["ttl"] == nil {
		t.Errorf("%s", a.text)
	}
	h.ok("PATCH", "/threads/"+id, object{"ttl": 0})
	if a := h.ok("GET", "/threads/"+id+"?include=ttl", nil); a.object()["ttl"] != nil {
		t.Errorf("%s", a.text)
	}
}

// TestEncodedBodies: a body that is compressed is refused by its encoding, not as JSON that is none.
func TestEncodedBodies(t *testing.T) {
	h := newHouse(t)
	for _, encoding := range []string{"gzip", "br", "deflate, gzip"} {
		if a := h.do("POST", "/threads", "{}", "Content-Encoding", encoding); a.status != 415 || !strings.Contains(a.text, "Content-Encoding") {
			t.Errorf("%s: %d %s", encoding, a.status, a.text)
		}
	}
	h.ok("POST", "/threads", "{}", "Content-Encoding", "identity")
}

// TestLongTimes: a time to live that is longer than a time.Duration can be is a long one.
func TestLongTimes(t *testing.T) {
	h := newHouse(t)
	for _, ttl := range []any{1e12, 1e300, object{"ttl": 1e300}} {
		id := h.ok("POST", "/threads", object{"ttl": ttl}).text1("thread_id")
		h.ok("PATCH", "/threads/"+id, object{"ttl": ttl})
		a := h.ok("GET", "/threads/"+id+"?include=ttl", nil)
		expires, _ := a.object()["ttl"].(object)["expires_at"].(string)
		if at, err := time.Parse(time.RFC3339, expires); err != nil || at.Before(time.Now().Add(50*365*24*time.Hour)) {
			t.Errorf("with a ttl of %v it expires at %q", ttl, expires)
		}
		h.ok("PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{"n": 1}, "ttl": 1e300})
		item := must(h.items.Get(t.Context(), []string{"a"}, "k"))
		if item.TTL < 50*365*24*time.Hour {
			t.Errorf("the item lives for %v", item.TTL)
		}
		run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "after_seconds": 1e300}).text1("run_id")
		if r := must(h.queue.Get(t.Context(), run)); r.After.Before(time.Now().Add(50 * 365 * 24 * time.Hour)) {
			t.Errorf("the run begins at %v", r.After)
		}
	}
}

// TestAssistantTaken: the id of a graph's own assistant can be computed. Who makes one of that id, before
// there is the graph or when its assistant was deleted, does not get its runs.
func TestAssistantTaken(t *testing.T) {
	id := func(graph string) string {
		return uuid.NewSHA1(uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), []byte(graph)).String()
	}
	dir := t.TempDir()
	config := func(graphs ...string) func(c *server.Config) {
		return func(c *server.Config) {
			c.Auth = server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}, "key-bob": {Identity: "bob"}, "key-root": {Identity: "root"}})
			c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
				if u.Identity == "root" {
					return server.Grant{}, nil
				}
				return server.OwnThings(ctx, u, a)
			}
			for _, g := range graphs {
				delete(c.Graphs, g)
			}
		}
	}
	h := open(t, dir, config("nested"))
	h.key = "key-ann"
	h.ok("POST", "/assistants", object{"assistant_id": id("nested"), "graph_id": "simple"})
	h.key = "key-root"
	h.ok("DELETE", "/assistants/"+id("asker"), nil)
	h.ok("DELETE", "/assistants/"+id("error"), nil)
	h.ok("POST", "/assistants", object{"assistant_id": id("error"), "graph_id": "error", "name": "of the operator"})
	h.key = "key-ann"
	h.refused(409, "POST", "/assistants", object{"assistant_id": id("asker"), "graph_id": "simple"})
	h.ok("POST", "/assistants", object{"assistant_id": id("simple"), "graph_id": "simple", "if_exists": "do_nothing"})
	h.shut()

	h = open(t, dir, config())
	for _, key := range []string{"key-ann", "key-bob"} {
		h.key = key
		for _, graph := range []string{"nested", "asker", "error"} {
			a := h.ok("GET", "/assistants/"+id(graph), nil)
			if a.text1("graph_id") != graph || (graph == "error") != (a.text1("name") == "of the operator") {
				t.Errorf("%s: the assistant of graph %s is %s", key, graph, a.text)
			}
		}
		if run := h.ok("POST", "/runs", object{"assistant_id": "nested", "input": object{"text": "x"}}); run.text1("assistant_id") != id("nested") {
			t.Errorf("%s", run.text)
		}
	}
}

// TestVersionsOfAnother: what an assistant was when it was another's is hidden, and does not come back.
func TestVersionsOfAnother(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}, "key-bob": {Identity: "bob"}, "key-root": {Identity: "root"}})
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if u.Identity == "root" {
				return server.Grant{}, nil
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	root := *ann
	root.key = "key-root"
	a := ann.ok("POST", "/assistants", object{"graph_id": "simple", "config": object{"configurable": object{"k": "secret"}}}).text1("assistant_id")
	root.ok("PATCH", "/assistants/"+a, object{"metadata": object{"owner": "bob"}, "config": object{"configurable": object{"k": "plain"}}})
	bob.ok("PATCH", "/assistants/"+a, object{"name": "new"})
	if list := bob.ok("POST", "/assistants/"+a+"/versions", object{}); strings.Contains(list.text, "secret") || strings.Count(list.text, `"version":`) != 2 {
		t.Errorf("%s", list.text)
	}
	bob.refused(404, "POST", "/assistants/"+a+"/latest", object{"version": 1})
	bob.ok("POST", "/assistants/"+a+"/latest", object{"version": 2})
	bob.ok("GET", "/assistants/"+a, nil)
	ann.refused(404, "GET", "/assistants/"+a, nil)
	if list := root.ok("POST", "/assistants/"+a+"/versions", object{}); strings.Count(list.text, `"version":`) != 3 {
		t.Errorf("%s", list.text)
	}
}

// TestSharedStays: who changes a thing that is shared by a list in its metadata leaves others in the list,
// and cannot add some.
func TestSharedStays(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}, "key-bob": {Identity: "bob"}, "key-root": {Identity: "root"}})
		c.Auth.Authorize = func(_ context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if u.Identity == "root" {
				return server.Grant{}, nil
			}
			return server.Grant{Filter: object{"members": object{"$contains": u.Identity}}}, nil
		}
	})
	root := *ann
	root.key = "key-root"
	thread := root.ok("POST", "/threads", object{"metadata": object{"members": []string{"ann", "bob"}}}).text1("thread_id")
	assistant := root.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": object{"members": []string{"ann", "bob"}}}).text1("assistant_id")
	cron := root.ok("POST", "/runs/crons", object{"assistant_id": assistant, "schedule": "0 0 1 1 *", "metadata": object{"members": []string{"ann", "bob"}}}).text1("cron_id")
	for _, path := range []string{"/threads/" + thread, "/assistants/" + assistant, "/runs/crons/" + cron} {
		ann.ok("PATCH", path, object{"metadata": object{"a": 1}})
		ann.ok("PATCH", path, object{"metadata": object{"members": []string{"ann", "eve"}}})
		if a := bob.ok("GET", path, nil); !strings.Contains(a.text, `"members":["ann","bob"]`) || !strings.Contains(a.text, `"a":1`) {
			t.Errorf("%s: %s", path, a.text)
		}
	}
}

// TestWebhookSecrets: what stands in the address of a webhook, often a secret, is not logged.
func TestWebhookSecrets(t *testing.T) {
	log := &logged{}
	h := open(t, t.TempDir(), func(c *server.Config) { c.Logger, c.AllowPrivateWebhooks = logTo(log), false })
	h.ok("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": "http://user:secret1@127.0.0.1:1/secret2?token=secret3"})
	h.until("the webhook is tried", func() bool { return strings.Contains(log.String(), "a webhook failed") })
	if text := log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "127.0.0.1:1") {
		t.Errorf("%s", text)
	}
}

// raw sends a text on a connection of its own.
func (h *house) raw(text string) net.Conn {
	h.Helper()
	conn := must(net.Dial("tcp", h.http.Listener.Addr().String()))
	h.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience / 4)); err != nil {
		h.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		h.Fatal(err)
	}
	return conn
}

// TestSlowBody: a body that does not come is not waited for, whoever sends it. What takes long after the
// body has come is not cut off.
func TestSlowBody(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"key": {Identity: "ann"}})
		c.ReadTimeout, c.Heartbeat = 200*time.Millisecond, 20*time.Millisecond
	})
	for key, want := range map[string]int{"key": 408, "wrong": 401} {
		conn := h.raw("POST /threads HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + key + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("the connection is kept: %v", err)
		}
	}
	h.key = "key"
	res, err := h.request(t.Context(), "POST", "/threads/"+h.thread()+"/runs/stream", object{"assistant_id": "slow", "input": object{"text": "x"}, "on_disconnect": "cancel"})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines, beats, text := bufio.NewReader(res.Body), 0, ""
	for {
		line, err := lines.ReadString('\n')
		if text += line; err != nil {
			break
		}
		if beats += strings.Count(line, "heartbeat"); beats == 20 { // twice the time for a body
			h.gate <- struct{}{}
			h.gate <- struct{}{}
			beats++
		}
	}
	if !strings.Contains(text, `"log":["slow","slow","z"]`) {
		t.Errorf("%s", text)
	}
}

// TestLongBody: a body that comes at a fair rate may take longer than a short one.
func TestLongBody(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.ReadTimeout = 200 * time.Millisecond })
	head, tail := `{"metadata":{"a":"`+strings.Repeat("x", 1<<20), `"}}`
	conn := h.raw(fmt.Sprintf("POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(head)+len(tail), head))
	time.Sleep(400 * time.Millisecond)
	if _, err := io.WriteString(conn, tail); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%v %v", res, err)
	}
}

// TestSlowAuthentication: the time for a body begins when it is read, however long it took to find out who
// sends it.
func TestSlowAuthentication(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.ReadTimeout = time.Second
		c.Auth = &server.Auth{Authenticate: func(*http.Request) (*server.User, error) {
			time.Sleep(c.ReadTimeout * 3 / 2)
			return &server.User{Identity: "ann"}, nil
		}}
	})
	h.ok("POST", "/threads", object{"metadata": object{"a": strings.Repeat("x", 100<<10)}})
}

// TestQuietStream: a stream that has nothing to say for longer than a client may take to read is not cut
// off, whatever its protocol.
func TestQuietStream(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.WriteTimeout, c.Heartbeat = time.Second, patience })
	for version, want := range map[bool]int{false: 1, true: 2} {
		web := httptest.NewUnstartedServer(h.api)
		web.EnableHTTP2 = version
		web.StartTLS()
		defer web.Close()
		res, err := web.Client().Post(web.URL+"/threads/"+h.thread()+"/runs/stream", "application/json", strings.NewReader(`{"assistant_id":"slow","input":{"text":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		time.Sleep(1500 * time.Millisecond)
		h.gate <- struct{}{}
		h.gate <- struct{}{}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.ProtoMajor != want || !strings.Contains(string(text), `"log":["slow","slow","z"]`) {
			t.Errorf("%s %s %v", res.Proto, text, err)
		}
	}
}

// TestUnreadAnswer: a client that does not read an answer is cut off, also where it is no stream.
func TestUnreadAnswer(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.WriteTimeout = 50 * time.Millisecond })
	id := h.thread()
	h.ok("PATCH", "/threads/"+id, object{"metadata": object{"a": strings.Repeat("x", 12<<20)}})
	h.until("all is answered", func() bool { return h.answering.Load() == 0 })
	before := h.answered.Load()
	h.raw("GET /threads/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n" + "GET /threads/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for end := time.Now().Add(patience / 4); h.answered.Load() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the answer is kept for a client that does not read it")
		}
	}
}

// TestPingBehindCommands: the answer to a ping may stand behind more commands than may wait.
func TestPingBehindCommands(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Heartbeat, c.WriteTimeout = 20*time.Millisecond, patience/4 })
	h.answersBehind(200, object{"method": "agent.getTree"}, func() {})
}

// TestPingBehindSlowCommands: nor is a client cut off for an answer behind commands that take longer than it
// has for it.
func TestPingBehindSlowCommands(t *testing.T) {
	const slow = 2 * time.Second
	var connected, held atomic.Bool // connected: it is a command that asks, not the socket itself
	h, _ := users(t, func(c *server.Config) {
		c.Heartbeat, c.WriteTimeout, c.Rate = 20*time.Millisecond, slow, -1
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Action == "create_run" && connected.Load() && held.CompareAndSwap(false, true) {
				time.Sleep(slow * 3 / 2) // the one command takes so long
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	run := object{"method": "run.start", "params": object{"assistant_id": "simple", "input": object{"text": "x"}}}
	h.answersBehind(40, run, func() { connected.Store(true) })
	if !held.Load() {
		t.Error("no command took long")
	}
}

// answersBehind is a client that gives a command so often before it answers its first ping, and reads
// all answers. connected is called in between.
func (h *house) answersBehind(commands int, command object, connected func()) {
	h.Helper()
	var once sync.Once
	var conn *websocket.Conn
	dialled := make(chan struct{})
	options := &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {h.key}}, OnPingReceived: func(ctx context.Context, _ []byte) bool {
		once.Do(func() {
			<-dialled
			for id := range commands {
				in := object{"id": id}
				maps.Copy(in, command)
				if err := wsjson.Write(ctx, conn, in); err != nil {
					h.Error(err)
					return
				}
			}
		})
		return true
	}}
	conn, _, err := websocket.Dial(h.Context(), "ws"+strings.TrimPrefix(h.http.URL, "http")+"/threads/"+h.thread()+"/stream/events", options)
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	connected()
	close(dialled)
	for id := range commands {
		var answer object
		if err := wsjson.Read(h.Context(), conn, &answer); err != nil {
			h.Fatal(err)
		}
		if answer["id"] != float64(id) {
			h.Fatalf("%v", answer)
		}
	}
}

// TestUnansweredPings: a client that does not answer pings is cut off.
func TestUnansweredPings(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Heartbeat, c.WriteTimeout = 20*time.Millisecond, 500*time.Millisecond })
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.http.URL, "http")+"/threads/"+h.thread()+"/stream/events",
		&websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := conn.Read(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestLongLists: a list of large things is refused before it fills the memory. One of them is shown, and
// a few are.
func TestLongLists(t *testing.T) {
	h := newHouse(t)
	server.SetListingMost(h.api, 100<<10)
	text := strings.Repeat("x", 20<<10)
	id := h.thread()
	for i := range 5 {
		h.ok("POST", "/threads", object{"metadata": object{"a": text}})
		h.ok("PUT", "/store/items", object{"namespace": []string{"a"}, "key": fmt.Sprint(i), "value": object{"a": text}})
		h.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": object{"a": text}})
		h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "metadata": object{"a": text}})
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": text}})
	}
	assistant := h.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": object{"a": text}}).text1("assistant_id")
	for range 4 {
		h.ok("PATCH", "/assistants/"+assistant, object{})
	}
	for _, path := range []string{"/threads/search", "/store/items/search", "/assistants/search", "/runs/crons/search", "/assistants/" + assistant + "/versions", "/threads/" + id + "/history"} {
		h.refused(422, "POST", path, object{"limit": 5})
		if a := h.ok("POST", path, object{"limit": 2}); len(a.text) < 40<<10 {
			t.Errorf("%s: %d bytes", path, len(a.text))
		}
	}
	h.refused(422, "GET", "/threads/"+id+"/runs?limit=5", nil)
	h.ok("GET", "/threads/"+id+"/runs?limit=2", nil)
	server.SetListingMost(h.api, 1)
	if a := h.ok("POST", "/threads/search", object{"limit": 1}); len(a.json.([]any)) != 1 {
		t.Errorf("%.100s", a.text)
	}
	if a := h.ok("POST", "/threads/search", object{"limit": 1, "offset": 100}); a.text != "[]" {
		t.Errorf("%s", a.text)
	}
}

// TestManyPrefixes: a search asks the store as often as it has prefixes, which are not many.
func TestManyPrefixes(t *testing.T) {
	h := newHouse(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	h.refused(422, "POST", "/threads/search", object{"stele_prefix": many})
	h.ok("POST", "/threads/search", object{"stele_prefix": many[:100]})
	for _, field := range []string{"prefix", "suffix"} {
		h.refused(422, "POST", "/store/namespaces", object{field: many[:65]})
		h.ok("POST", "/store/namespaces", object{field: many[:64]})
	}
	h.refused(422, "POST", "/store/items/search", object{"namespace_prefix": many[:65]})
	h.ok("POST", "/store/items/search", object{"namespace_prefix": many[:64]})
}

// TestSlowBodyForAuthenticate: an Authenticate that reads the body does not wait for one that does not come.
func TestSlowBodyForAuthenticate(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Auth = &server.Auth{Authenticate: func(r *http.Request) (*server.User, error) {
			_, err := io.ReadAll(r.Body) // to check a signature, say
			return nil, err
		}}
		c.ReadTimeout = 200 * time.Millisecond
	})
	conn := h.raw("POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v, %v", res, err)
	}
}
