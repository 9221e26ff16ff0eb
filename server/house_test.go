package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type object = map[string]any

// house is a program with a server, its stores in a directory.
type house struct {
	*testing.T
	dir   string
	disk  *disk.Saver
	items *store.Local
	queue *runs.Local
	api   *server.Server
	http  *httptest.Server
	base  string // of addresses
	key   string // X-Api-Key of requests
	// gate holds the nodes "slow" until a value comes.
	gate chan struct{}
	shut func()
	// answering is how many requests are being answered, answered how many were before.
	answering, answered *atomic.Int64
}

// open opens a house in a directory, with a Config that change may change.
func open(t *testing.T, dir string, change func(*server.Config)) *house {
	t.Helper()
	return openOn(t, dir, disk.Options{}, change)
}

// openOn opens a house whose saver has options.
func openOn(t *testing.T, dir string, o disk.Options, change func(*server.Config)) *house {
	t.Helper()
	return openSaver(t, dir, must(disk.Open(dir, o)), change)
}

// openSaver opens a house on a saver.
func openSaver(t *testing.T, dir string, s *disk.Saver, change func(*server.Config)) *house {
	t.Helper()
	h := &house{T: t, dir: dir, disk: s, gate: make(chan struct{}, 100), answering: new(atomic.Int64), answered: new(atomic.Int64)}
	h.items = must(store.On(h.disk, store.Options{}))
	h.queue = must(runs.NewLocal(t.Context(), h.items, runs.LocalOptions{}))
	cfg := server.Config{Graphs: h.graphs(h.disk), Saver: h.disk, Store: h.items, Queue: h.queue, Auth: server.NoAuth(), AllowPrivateWebhooks: true, DrainTimeout: time.Millisecond,
		Logger: logTo(io.Discard)}
	if change != nil {
		change(&cfg)
	}
	h.api = must(server.New(cfg))
	h.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.answering.Add(1)
		defer func() { h.answered.Add(1); h.answering.Add(-1) }()
		if r.UserAgent() == reader {
			w = unhurried{w}
		}
		h.api.ServeHTTP(w, r)
	}))
	h.base = h.http.URL
	h.shut = sync.OnceFunc(func() {
		h.http.CloseClientConnections()
		if err := h.api.Close(); err != nil {
			t.Error(err)
		}
		h.http.Close()
		if err := errors.Join(h.items.Close(), h.disk.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.shut)
	return h
}

// reader is the User-Agent of a client that reads answers at once. However busy the machine is, it is not
// cut off, as others are by a short Config.WriteTimeout.
const reader = "reader"

// unhurried is a ResponseWriter that lets the client take its time.
type unhurried struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (u unhurried) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// SetWriteDeadline is for http.ResponseController.
func (unhurried) SetWriteDeadline(time.Time) error { return nil }

// pending is what the server has still to do.
var pending = store.Query{Prefix: store.Namespace{"__stele_server__", "after"}}

func newHouse(t *testing.T) *house {
	t.Helper()
	return open(t, t.TempDir(), nil)
}

func builder() *graph.Builder {
	return graph.New(graph.Key("text", channel.LastValue[string]()), graph.Key("log", channel.Reduce(channel.Append[string])))
}

func says(word string) pregel.Func {
	return func(ctx context.Context, in any) (any, error) {
		if err := pregel.Emit(ctx, object{"at": word}); err != nil {
			return nil, err
		}
		return object{"log": []string{word}}, nil
	}
}

func (h *house) graphs(s saver.Saver) map[string]*pregel.Graph {
	options := func(name string) graph.Options { return graph.Options{Name: name, Saver: s, Store: h.items} }
	ask := func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, object{"q": "ok?"})
		return object{"log": []string{fmt.Sprint("answer ", answer)}}, err
	}
	slow := func(ctx context.Context, _ any) (any, error) {
		select {
		case <-h.gate:
			return object{"log": []string{"slow"}}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return map[string]*pregel.Graph{
		"simple": must(builder().Node("a", says("a")).Node("b", says("b")).Sequence(graph.Start, "a", "b").Compile(options("simple"))),
		"asker":  must(builder().Node("a", says("a")).Node("ask", ask).Sequence(graph.Start, "a", "ask").Compile(options("asker"))),
		"typed": must(builder().Node("ask", func(ctx context.Context, _ any) (any, error) {
			n, err := pregel.AskFor[int](ctx, "how many?")
			return object{"log": []string{fmt.Sprint(n)}}, err
		}).Sequence(graph.Start, "ask").Compile(options("typed"))),
		"nested": must(builder().Subgraph("inner", must(builder().Node("a", says("a")).Node("ask", ask).Sequence(graph.Start, "a", "ask").Compile(graph.Options{Name: "inner"}))).
			Node("b", says("b")).Sequence(graph.Start, "inner", "b").Compile(options("nested"))),
		"error": must(builder().Node("a", says("a")).Node("boom", func(context.Context, any) (any, error) { return nil, errors.New("boom") }).
			Sequence(graph.Start, "a", "boom").Compile(options("error"))),
		"slow": must(builder().Node("x", slow).Node("y", slow).Node("z", says("z")).Sequence(graph.Start, "x", "y", "z").Compile(options("slow"))),
		"chat": must(graph.For[message.State]().Node("call", func(ctx context.Context, s *message.State) (graph.Update, error) {
			for _, part := range []string{"hel", "lo"} {
				if err := pregel.EmitMessage(ctx, message.Chunk{Message: message.Message{Type: message.TypeAI, ID: "m1", Content: part}}); err != nil {
					return nil, err
				}
			}
			m := message.AI("hello")
			m.ID = "m1"
			return graph.Write(&s.Messages, message.List{m}), nil
		}).Edge(graph.Start, "call").Compile(options("chat"))).Untyped(),
	}
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	text   string
	json   any
}

func (a answer) object() object {
	m, _ := a.json.(object)
	return m
}

func (a answer) text1(name string) string {
	s, _ := a.object()[name].(string)
	return s
}

// request makes a request; body is JSON unless it is nil or a string, which goes as it is.
func (h *house) request(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	h.Helper()
	var r io.Reader
	switch x := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(x)
	default:
		r = bytes.NewReader(must(json.Marshal(x)))
	}
	req := must(http.NewRequestWithContext(ctx, method, h.base+path, r))
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if h.key != "" {
		req.Header.Set("X-Api-Key", h.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

// do makes a request and reads the answer.
func (h *house) do(method, path string, body any, header ...string) answer {
	h.Helper()
	res, err := h.request(h.Context(), method, path, body, append(header, "User-Agent", reader)...)
	if err != nil {
		h.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		h.Fatalf("%s %s: %v", method, path, err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.json)
	return a
}

// ok makes a request that must succeed.
func (h *house) ok(method, path string, body any, header ...string) answer {
	h.Helper()
	a := h.do(method, path, body, header...)
	if a.status/100 != 2 {
		h.Fatalf("%s %s %v: %d %s", method, path, body, a.status, a.text)
	}
	return a
}

// refused makes a request that must be refused with a status.
func (h *house) refused(status int, method, path string, body any, header ...string) answer {
	h.Helper()
	a := h.do(method, path, body, header...)
	if a.status != status {
		h.Errorf("%s %s %v: %d %s, want %d", method, path, body, a.status, a.text, status)
	}
	return a
}

// thread makes a thread.
func (h *house) thread() string {
	h.Helper()
	return h.ok("POST", "/threads", object{}).text1("thread_id")
}

// equal compares an answer with JSON.
func (h *house) equal(a answer, want string) {
	h.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		h.Fatal(err)
	}
	if string(must(json.Marshal(a.json))) != string(must(json.Marshal(w))) {
		h.Errorf("got  %s\nwant %s", a.text, want)
	}
}

// frame is an event of a stream.
type frame struct{ event, data, id string }

// frames reads server-sent events until the stream ends, or each returns false.
func frames(r io.Reader, each func(frame) bool) error {
	lines := bufio.NewReader(r)
	var f frame
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasSuffix(line, "\r\n") {
			return fmt.Errorf("a line ends without CRLF: %q", line)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		switch {
		case name == "" && value == "": // the end of an event
			if f != (frame{}) && !each(f) {
				return nil
			}
			f = frame{}
		case name == "event":
			f.event = value
		case name == "data":
			f.data = value
		case name == "id":
			f.id = value
		}
	}
}

// stream makes a request and reads all its events.
func (h *house) stream(method, path string, body any, header ...string) []frame {
	h.Helper()
	res, err := h.request(h.Context(), method, path, body, header...)
	if err != nil {
		h.Fatal(err)
	}
	defer res.Body.Close()
	var out []frame
	if res.StatusCode != 200 {
		h.Fatalf("%s %s: %s %s", method, path, res.Status, must(io.ReadAll(res.Body)))
	}
	if err := frames(res.Body, func(f frame) bool { out = append(out, f); return true }); err != nil {
		h.Fatal(err)
	}
	return out
}

// sees compares the events of a stream, each as "name data".
func (h *house) sees(got []frame, want ...string) {
	h.Helper()
	var lines []string
	for _, f := range got {
		if f.event == "metadata" {
			f.data = ""
		}
		lines = append(lines, strings.TrimSpace(f.event+" "+f.data))
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		h.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// patience bounds every wait. It decides nothing but how long a failure takes: a busy machine takes
// many seconds over what is quick.
const patience = 2 * time.Minute

// until waits for something that happens soon.
func (h *house) until(what string, done func() bool) {
	h.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// ended waits for a run.
func (h *house) ended(thread, run string) answer {
	h.Helper()
	var a answer
	h.until("the run ends", func() bool {
		a = h.ok("GET", "/threads/"+thread+"/runs/"+run, nil)
		s := a.text1("status")
		return s != "pending" && s != "running"
	})
	return a
}

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// logTo is a Logger of a test.
func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
