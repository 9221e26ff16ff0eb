package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestUnreadableThreads: a thread whose state its graph cannot read, or that cannot be shown, is
// listed with the error, and so are all others. It can be seen alone, and deleted.
func TestUnreadableThreads(t *testing.T) {
	h := newHouse(t)
	good := h.thread()
	h.ok("POST", "/threads/"+good+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	// deep nests: 512 levels can be stored, and are one more than can be shown.
	deep := func(levels int) (v any) {
		for range levels {
			v = []any{v}
		}
		return v
	}
	// The graph of these threads has the name of a graph of the server, and not its types.
	other := func(name string, value any) *pregel.Graph {
		b := graph.New(graph.Key("text", channel.LastValue[any]())).Node("a", func(context.Context, any) (any, error) { return object{"text": value}, nil })
		return must(b.Edge(graph.Start, "a").Compile(graph.Options{Name: name, Saver: h.disk}))
	}
	bad := map[string]string{h.thread(): "simple", "of another program": "simple", "not to be shown": "elsewhere"}
	for id, name := range bad {
		value := any(object{"is": []any{"no text"}})
		if name == "elsewhere" {
			value = deep(512)
		}
		if _, err := other(name, value).Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(id, " ") {
			continue
		}
		h.ok("PATCH", "/threads/"+id, object{"metadata": object{"graph_id": name}})
	}
	strange := h.thread() // a name that is none
	h.ok("PATCH", "/threads/"+strange, object{"metadata": object{"graph_id": 5}})

	for _, search := range []object{{"limit": 10}, {"limit": 10, "sort_by": "status"}, {"limit": 10, "sort_by": "updated_at", "extract": object{"text": "values.text"}}} {
		list := h.ok("POST", "/threads/search", search).json.([]any)
		if len(list) != len(bad)+2 {
			t.Errorf("%v: %d threads", search, len(list))
		}
		for _, x := range list {
			th := x.(object)
			id := th["thread_id"].(string)
			e, _ := th["error"].(object)
			switch {
			case bad[id] == "" && (e != nil || th["status"] != "idle"):
				t.Errorf("%v: %v", search, th)
			case bad[id] == "":
			case bad[id] == "simple" && !strings.Contains(e["message"].(string), `channel "text"`):
				t.Errorf("%v: the channel is not named: %v", search, th)
			case e["error"] != "UnreadableState" || !strings.HasPrefix(e["message"].(string), "The state of the thread cannot be read: ") || th["values"] != nil:
				t.Errorf("%v: %v", search, th)
			}
		}
	}
	for search, want := range map[string]int{`{"status":"idle"}`: 3, `{"status":"error"}`: 2, `{"values":{"text":"x"}}`: 1, `{}`: 5} {
		if got := h.ok("POST", "/threads/count", search).text; got != string(rune('0'+want)) {
			t.Errorf("%s: %s, want %d", search, got, want)
		}
	}
	for id := range bad {
		path := "/threads/" + strings.ReplaceAll(id, " ", "%20")
		if a := h.ok("GET", path, nil); !strings.Contains(a.text, `"UnreadableState"`) {
			t.Error(a.text)
		}
		h.ok("DELETE", path, nil)
	}
	if list := h.ok("POST", "/threads/search", object{}).json.([]any); len(list) != 2 {
		t.Errorf("%v", list)
	}
	// What can be shown may be too deep to be extracted from.
	const nested = "33333333-3333-4333-8333-333333333333"
	if _, err := other("elsewhere", deep(511)).Invoke(t.Context(), pregel.Thread(nested), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	list := h.ok("POST", "/threads/search", object{"ids": []string{nested}, "extract": object{"text": "values.text"}}).json.([]any)
	if len(list) != 1 || list[0].(object)["error"] == nil || list[0].(object)["values"] == nil {
		t.Errorf("%v", list)
	}
}

// TestUnreadableStore: a store that cannot be read is an error of the request, and not a state of
// the thread. No client is told of hosts and files; the log has them.
func TestUnreadableStore(t *testing.T) {
	var broken, once error // once comes after left reads
	left := 0
	var log strings.Builder
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Saver = saver.Intercept(c.Saver, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
			if call.Method == "GetTuple" && broken != nil {
				return broken
			}
			if err := once; call.Method == "GetTuple" && err != nil {
				if left--; left < 0 {
					once = nil
					return err
				}
			}
			return next(ctx)
		})
		c.Graphs = (&house{T: t}).graphs(c.Saver)
		c.Workers, c.Logger = -1, logTo(&log)
	})
	for _, id := range []string{"11111111-1111-4111-8111-111111111111", "of a program"} {
		if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	one := "/threads/11111111-1111-4111-8111-111111111111"
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.New("dial tcp: lookup secret.example: no such host"), 500},
		{context.DeadlineExceeded, 503},
		{fault.ErrPoisoned, 503},
		{&fault.CorruptionError{File: "/srv/secret/log", Kind: "record"}, 200},
	} {
		broken = c.err
		log.Reset()
		for _, a := range []answer{h.do("GET", one, nil), h.do("POST", "/threads/search", object{}), h.do("POST", "/threads/search", object{"status": "error"})} {
			if a.status != c.status || strings.Contains(a.text, "secret") || (a.status == 200) != strings.Contains(a.text, `"UnreadableState"`) {
				t.Errorf("%v: %d %s, want %d", c.err, a.status, a.text, c.status)
			}
		}
		if !strings.Contains(log.String(), "secret") && strings.Contains(c.err.Error(), "secret") {
			t.Errorf("%v is not in the log: %s", c.err, &log)
		}
	}
	broken = nil
	h.ok("GET", one, nil)
	// What fails once is no fault of the thread, though the store reads it a moment later.
	for skipped := range 3 {
		left = skipped
		once = errors.New("dial tcp: connection reset")
		if a := h.do("GET", one, nil); a.status == 200 && strings.Contains(a.text, `"UnreadableState"`) {
			t.Errorf("read %d failed once: %s", skipped, a.text)
		}
	}
}

// strict is a serializer that fails as its author likes with values that hold a word.
type strict struct {
	serde.Serializer
	fail *atomic.Bool
}

func (s strict) Decode(t serde.Typed) (any, error) {
	if err := s.check(t); err != nil {
		return nil, err
	}
	return s.Serializer.Decode(t)
}

func (s strict) DecodeInto(t serde.Typed, dst any) error {
	if err := s.check(t); err != nil {
		return err
	}
	return s.Serializer.DecodeInto(t, dst)
}

func (s strict) check(t serde.Typed) error {
	isItem := bytes.Contains(t.Data, []byte("json")) // of the queue: the run has the text in its events
	if s.fail.Load() && !isItem && bytes.Contains(t.Data, []byte("undecodable")) {
		return errors.New("no key for secret.example")
	}
	return nil
}

// TestUnreadableByAuthors: what a graph's Migrate or a serializer of one's own fails with may have
// any type, or be a panic. The thread is listed with an error, and all others are as they were.
func TestUnreadableByAuthors(t *testing.T) {
	var fail atomic.Bool
	var log strings.Builder
	h := openOn(t, t.TempDir(), disk.Options{Serializer: strict{serde.Default(), &fail}}, func(c *server.Config) {
		c.Logger = logTo(&log)
		for name, migrate := range map[string]func(*saver.Checkpoint) error{
			"fails":  func(*saver.Checkpoint) error { return errors.New("no layout of secret.example") },
			"panics": func(*saver.Checkpoint) error { panic("secret.example") },
		} {
			c.Graphs[name] = must(pregel.New(pregel.Spec{
				Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": channel.LastValue[any]()}, Input: pregel.One("in"),
				Nodes: []*pregel.Node{{Name: "n", Triggers: []string{"in"}, Reads: pregel.One("in"), Writers: []pregel.Writer{pregel.WriteTo("out")}}},
				Migrate: func(cp *saver.Checkpoint) error {
					if fail.Load() {
						return migrate(cp)
					}
					return nil
				},
			}, pregel.Options{Name: name, Saver: c.Saver}))
		}
	})
	good := h.thread()
	h.ok("POST", "/threads/"+good+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	bad := map[string]bool{}
	for _, assistant := range []string{"fails", "panics", "simple"} {
		id := h.thread()
		bad[id] = true
		input := any("x")
		if assistant == "simple" {
			input = object{"text": "undecodable"}
		}
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": assistant, "input": input})
	}
	// A program beside the server has stored metadata that cannot be read, on a thread of the server's
	// and on one of its own.
	mixed := h.thread()
	h.ok("PATCH", "/threads/"+mixed, object{"metadata": object{"graph_id": "simple"}})
	for _, id := range []string{mixed, "44444444-4444-4444-8444-444444444444"} {
		bad[id] = true
		if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}, pregel.RunOptions{Metadata: object{"note": "undecodable"}}); err != nil {
			t.Fatal(err)
		}
	}
	fail.Store(true)
	for _, search := range []object{{}, {"sort_by": "status"}, {"values": object{"text": "x"}}, {"status": "error"}, {"sort_by": "updated_at"}} {
		a := h.ok("POST", "/threads/search", search)
		if strings.Contains(a.text, "secret") {
			t.Errorf("%v: a client is told %s", search, a.text)
		}
		seen := 0
		for _, x := range a.json.([]any) {
			th := x.(object)
			e, _ := th["error"].(object)
			if isBad := bad[th["thread_id"].(string)]; isBad != (e["error"] == "UnreadableState") || isBad != (th["status"] == "error") || isBad != (th["values"] == nil) {
				t.Errorf("%v: %v", search, th)
			}
			seen++
		}
		want := len(bad) + 1
		if search["values"] != nil {
			want = 1
		} else if search["status"] != nil {
			want = len(bad)
		}
		if seen != want {
			t.Errorf("%v: %d threads, want %d", search, seen, want)
		}
	}
	if !strings.Contains(log.String(), "no key for secret") || !strings.Contains(log.String(), "no layout of secret") || !strings.Contains(log.String(), "panic: secret") {
		t.Errorf("the log does not say why: %s", &log)
	}
	for id := range bad {
		h.ok("GET", "/threads/"+id, nil)
		h.refused(500, "GET", "/threads/"+id+"/state", nil)
	}
	fail.Store(false)
	for id := range bad {
		h.ok("GET", "/threads/"+id+"/state", nil)
	}
}

// TestUnreadableRuns: a run that cannot be decoded is shown with an error, and so is its thread; the
// others are as they were. A run whose input alone cannot be decoded is shown without it.
func TestUnreadableRuns(t *testing.T) {
	h := newHouse(t)
	run := func(thread string) string {
		h.ok("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
		return h.ok("GET", "/threads/"+thread+"/runs", nil).json.([]any)[0].(object)["run_id"].(string)
	}
	good, bad := h.thread(), h.thread()
	run(good)
	noInput, lost := run(bad), run(bad)
	damage := func(kind, id, text string) {
		t.Helper()
		if _, err := h.items.Batch(t.Context(), store.PutOp{Namespace: store.Namespace{"stele.runs", kind}, Key: id, Value: object{"json": text}}); err != nil {
			t.Fatal(err)
		}
	}
	damage("specs", noInput, `{"thread_id":"`+bad+`","graph":"simple","input":{"Kind":"msgpack","Data":"wQ=="}}`)
	damage("runs", lost, `{"id":`)
	h.until("nobody has the run in memory", func() bool {
		_, err := h.queue.Get(t.Context(), lost)
		return errors.Is(err, runs.ErrUnreadable)
	})
	isLost := func(of object) bool {
		e, _ := of["error"].(object)
		return e["error"] == "UnreadableRun" && !strings.Contains(fmt.Sprint(e["message"]), "json")
	}
	list := h.ok("GET", "/threads/"+bad+"/runs", nil).json.([]any)
	if len(list) != 2 || list[0].(object)["run_id"] != lost || !isLost(list[0].(object)) || list[1].(object)["run_id"] != noInput || !isLost(list[1].(object)) || list[1].(object)["status"] != "success" {
		t.Errorf("%v", list)
	}
	if one := h.ok("GET", "/threads/"+bad+"/runs/"+noInput, nil).object(); !isLost(one) || one["kwargs"].(object)["input"] != nil {
		t.Errorf("%v", one)
	}
	for _, search := range []object{{}, {"sort_by": "updated_at"}, {"sort_by": "status"}, {"metadata": object{"graph_id": "simple"}}} {
		list := h.ok("POST", "/threads/search", search).json.([]any)
		if len(list) != 2 {
			t.Errorf("%v: %v", search, list)
		}
		for _, x := range list {
			if th := x.(object); isLost(th) != (th["thread_id"] == bad) || (th["status"] == "error") != (th["thread_id"] == bad) || th["values"] == nil {
				t.Errorf("%v: %v", search, th)
			}
		}
	}
	if got := h.ok("POST", "/threads/search", object{"status": "error"}).json.([]any); len(got) != 1 || got[0].(object)["thread_id"] != bad {
		t.Errorf("%v", got)
	}
	for _, query := range []string{"", "?status=success", "?thread_id=" + bad} {
		all := h.ok("GET", "/stele/runs"+query, nil).object()["runs"].([]any)
		named := 0
		for _, x := range all {
			if r := x.(object); r["run_id"] == lost && r["error"] != nil {
				named++
			}
		}
		if want := map[bool]int{true: 2, false: 3}[strings.Contains(query, "thread")]; len(all) != want || named != 1 {
			t.Errorf("%q: %v", query, all)
		}
	}
	h.ok("GET", "/metrics", nil)
	// A stream of the thread that was left within the run goes on, too.
	ctx, leave := context.WithTimeout(t.Context(), patience)
	defer leave()
	streamed, err := h.request(ctx, "GET", "/threads/"+bad+"/stream", nil, "Last-Event-ID", lost+"/1")
	if err != nil {
		t.Fatal(err)
	}
	defer streamed.Body.Close()
	run(bad) // the thread goes on
	shown := 0
	if err := frames(streamed.Body, func(frame) bool { shown++; return false }); err != nil || shown == 0 {
		t.Errorf("the stream of the thread shows %d events, %v", shown, err)
	}
	if a := h.do("GET", "/threads/"+lost+"/stream", nil); a.status != 404 {
		t.Errorf("%d", a.status)
	}
	fromNow, err := h.request(ctx, "GET", "/threads/"+bad+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = fromNow.Body.Close()
	if fromNow.StatusCode != 200 {
		t.Errorf("the stream of the thread: %s", fromNow.Status)
	}
	h.heard(bad, 0, 2)

	// Operators remove it, and nothing else that it is about; one that is under way they cannot remove.
	if a := h.do("DELETE", "/threads/"+good+"/runs/"+lost, nil); a.status != 404 {
		t.Errorf("removed from another thread: %d %s", a.status, a.text)
	}
	slow := h.ok("POST", "/threads/"+good+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "after_seconds": 3600}).object()["run_id"].(string)
	for _, c := range []struct {
		id     string
		status int
	}{{slow, 409}, {noInput, 409}, {lost, 204}, {lost, 404}} {
		if a := h.do("DELETE", "/stele/runs/"+c.id, nil); a.status != c.status {
			t.Errorf("remove %s: %d %s, want %d", c.id, a.status, a.text, c.status)
		}
	}
	if list := h.ok("GET", "/threads/"+bad+"/runs", nil).json.([]any); len(list) != 2 {
		t.Errorf("%v", list)
	}
	// So does one that has ended and whose events cannot be decoded, or what one of them says.
	for i, wrong := range []func([]byte) []byte{
		func([]byte) []byte { return []byte("no events") },
		func(events []byte) []byte {
			return bytes.Replace(events, []byte("\xa7success"), []byte("\xc1success"), 1)
		},
	} {
		id := run(bad)
		for found, err := range h.items.Scan(t.Context(), store.Query{Prefix: store.Namespace{"stele.runs", "runs"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if found.Key == id {
				found.Value["events"] = wrong(found.Value["events"].([]byte))
				if _, err := h.items.Batch(t.Context(), store.PutOp{Namespace: found.Namespace, Key: found.Key, Value: found.Value}); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.until("nobody has its events in memory", func() bool {
			events, err := h.queue.Events(t.Context(), id, 0, 0)
			return errors.Is(err, runs.ErrUnreadable) || slices.ContainsFunc(events, func(ev runs.Event) bool {
				_, err := ev.JSON(h.queue.Serializer())
				return err != nil
			})
		})
		if i == 0 {
			h.heard(bad, 0, 2)
		}
		h.ok("DELETE", "/threads/"+bad+"/runs/"+id, nil)
	}
	// One whose thread is known goes by the address of its run, or with its thread.
	byRun, withThread := run(bad), run(bad)
	for _, id := range []string{byRun, withThread} {
		damage("runs", id, `{"id":`)
		h.until("nobody has the run in memory", func() bool {
			_, err := h.queue.Get(t.Context(), id)
			return errors.Is(err, runs.ErrUnreadable)
		})
	}
	h.ok("DELETE", "/threads/"+bad+"/runs/"+byRun, nil)
	h.ok("DELETE", "/threads/"+bad, nil)
	for _, id := range []string{byRun, withThread} {
		if _, err := h.queue.Get(t.Context(), id); !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("run %s: %v", id, err)
		}
	}
}
