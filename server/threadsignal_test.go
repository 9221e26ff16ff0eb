package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestSignals: a run that waits for a signal is pending, and its thread interrupted. A signal makes it go on, and
// one with a key that was sent before does nothing.
func TestSignals(t *testing.T) {
	letters := pregel.NewSignal[map[string]any]("letter")
	get := func(ctx context.Context, _ any) (any, error) {
		var log []string
		for range 2 {
			v, ok, err := letters.ReceiveFor(ctx, 24*time.Hour)
			if err != nil {
				return nil, err
			}
			log = append(log, fmt.Sprint(v["n"], " ", ok))
		}
		return object{"log": log}, nil
	}
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["letters"] = must(builder().Node("get", get).Sequence(graph.Start, "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	thread := h.thread()
	path := "/stele/threads/" + thread + "/signals/letter"
	h.refused(404, "POST", "/stele/threads/"+someID+"/signals/letter", object{"value": object{"n": 1}})
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id")
	asleep := func() {
		h.until("the run sleeps", func() bool {
			st := h.ok("GET", "/threads/"+thread, nil)
			return st.text1("status") == "interrupted" && strings.Contains(st.text, `"signal":"letter"`)
		})
		if s := h.ok("GET", "/threads/"+thread+"/runs/"+run, nil).text1("status"); s != "pending" {
			t.Errorf("the run is %s", s)
		}
	}
	asleep()
	h.refused(422, "POST", path, object{"value": 1, "key": 2})
	for range 2 {
		h.ok("POST", path, object{"value": object{"n": 1}, "key": "one"})
	}
	asleep()
	h.ok("POST", path, object{"value": object{"n": 2}})
	h.ended(thread, run)
	if st := h.ok("GET", "/threads/"+thread, nil); !strings.Contains(st.text, `["1 true","2 true"]`) {
		t.Errorf("%s", st.text)
	}
}

// TestSignalsAndTTL: a signal is a change of its thread, whose time to live begins anew.
func TestSignalsAndTTL(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		ends := func(context.Context, any) (any, error) { return nil, nil }
		c.Graphs["letters"] = must(builder().Node("get", ends).Sequence(graph.Start, "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	id := h.ok("POST", "/threads", object{"ttl": 1000}).text1("thread_id")
	h.ended(id, h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id"))
	expires := func() string {
		ttl, _ := h.ok("GET", "/threads/"+id+"?include=ttl", nil).object()["ttl"].(object)
		return fmt.Sprint(ttl["expires_at"])
	}
	before := expires()
	h.ok("POST", "/stele/threads/"+id+"/signals/letter", object{"value": object{"n": 1}})
	if after := expires(); after <= before {
		t.Errorf("it expires at %s, before the signal at %s", after, before)
	}
}

// elsewhere is a store behind which another server does something, once: between a signal that was stored and
// the answer, as soon as a record of the server was read.
type elsewhere struct {
	*store.Local
	sent atomic.Bool
	does func()
}

func (e *elsewhere) Append(ctx context.Context, ns store.Namespace, topic, once string, value map[string]any) error {
	err := e.Local.Append(ctx, ns, topic, once, value)
	e.sent.Store(true)
	return err
}

func (e *elsewhere) Get(ctx context.Context, ns store.Namespace, key string, opts ...store.GetOption) (*store.Item, error) {
	item, err := e.Local.Get(ctx, ns, key, opts...)
	if strings.HasPrefix(ns[0], "__stele_server") && e.sent.Swap(false) {
		e.does()
	}
	return item, err
}

// TestSignalsAndDeletionElsewhere: a thread that another server deletes while a signal to it is answered does
// not come back.
func TestSignalsAndDeletionElsewhere(t *testing.T) {
	var cfg server.Config
	var s *elsewhere
	h := open(t, t.TempDir(), func(c *server.Config) {
		ends := func(context.Context, any) (any, error) { return nil, nil }
		s = &elsewhere{Local: c.Store.(*store.Local)}
		c.Store = s
		c.Graphs["letters"] = must(builder().Node("get", ends).Sequence(graph.Start, "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: s}))
		cfg = *c
		cfg.Store = s.Local
	})
	id := h.ok("POST", "/threads", object{"ttl": 1000}).text1("thread_id")
	h.ended(id, h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id"))
	other := must(server.New(cfg))
	defer other.Close()
	s.does = func() {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/threads/"+id, nil)
		r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1"
		other.ServeHTTP(w, r)
		if w.Code != 204 {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
	h.ok("POST", "/stele/threads/"+id+"/signals/letter", object{"value": object{"n": 1}})
	if s.sent.Swap(false) {
		s.does()
	}
	if got := h.do("GET", "/threads/"+id, nil); got.status != 404 {
		t.Errorf("it is there: %s", got.text)
	}
}

// TestSleepersAndTTL: a thread does not expire while it waits until an instant.
func TestSleepersAndTTL(t *testing.T) {
	nap := func(ctx context.Context, _ any) (any, error) { return nil, pregel.Sleep(ctx, 24*time.Hour) }
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["nap"] = must(builder().Node("nap", nap).Sequence(graph.Start, "nap").Compile(graph.Options{Name: "nap", Saver: c.Saver}))
	})
	thread := h.thread()
	h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "nap", "input": object{"text": "x"}})
	h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+thread, nil).text1("status") == "interrupted" })
	h.ok("PATCH", "/threads/"+thread, object{"ttl": object{"ttl": 1e-6}})
	for range 3 {
		other := h.thread()
		h.ok("PATCH", "/threads/"+other, object{"ttl": object{"ttl": 1e-6}})
		h.until("another thread expires", func() bool { return h.do("GET", "/threads/"+other, nil).status == 404 })
	}
	h.ok("GET", "/threads/"+thread, nil)
}

// TestSignalsOfADeletedThread: a thread that gets the id of one that was deleted does not get its signals, and
// their keys count anew.
func TestSignalsOfADeletedThread(t *testing.T) {
	letters := pregel.NewSignal[float64]("letter")
	get := func(ctx context.Context, _ any) (any, error) {
		n, err := letters.Receive(ctx)
		return object{"log": []string{fmt.Sprint("letter ", n)}}, err
	}
	dir := t.TempDir()
	h := open(t, dir, func(c *server.Config) {
		c.Graphs["letters"] = must(builder().Node("get", get).Sequence(graph.Start, "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	begin := func() (run string) {
		h.ok("POST", "/threads", object{"thread_id": someID})
		run = h.ok("POST", "/threads/"+someID+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id")
		h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+someID, nil).text1("status") == "interrupted" })
		return run
	}
	send := func(n int) {
		h.ok("POST", "/stele/threads/"+someID+"/signals/letter", object{"value": n, "key": fmt.Sprint("letter ", n)})
	}
	run := begin()
	send(1)
	h.ended(someID, run)
	send(2)
	h.ok("DELETE", "/threads/"+someID, nil)
	run = begin()
	send(1)
	h.ended(someID, run)
	if st := h.ok("GET", "/threads/"+someID, nil); !strings.Contains(st.text, `["letter 1"]`) {
		t.Error(st.text)
	}
	send(3)
	h.ok("PATCH", "/threads/"+someID, object{"metadata": object{"owner": "ann"}})
	// What has no graph deletes them, too.
	rep, err := server.EraseUser(t.Context(), server.EraseOptions{Saver: h.disk, Store: h.items, Queue: h.queue, Identity: "ann"})
	if err != nil || rep.Threads != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	left := func() int {
		return len(must(h.items.Search(t.Context(), store.Query{Prefix: store.Namespace{"__stele_signals__"}})))
	}
	if n := left(); n > 0 {
		t.Errorf("%d items are left", n)
	}
	run = begin()
	send(1)
	h.ended(someID, run)
	send(2)
	h.shut()
	h = open(t, dir, func(c *server.Config) { // without the graph, or another one with that store
		c.Graphs = map[string]*pregel.Graph{"other": must(builder().Node("get", get).Sequence(graph.Start, "get").Compile(graph.Options{Name: "other", Saver: c.Saver}))}
	})
	if left() == 0 {
		t.Error("there are no signals")
	}
	h.ok("DELETE", "/threads/"+someID, nil)
	if n := left(); n > 0 {
		t.Errorf("a server without the graph leaves %d items", n)
	}
}

// TestRefusedSignals: a signal of another type fails the run, is listed, and can be sent again or deleted.
func TestRefusedSignals(t *testing.T) {
	letters := pregel.NewSignal[string]("letter")
	get := func(ctx context.Context, _ any) (any, error) {
		if err := pregel.Expose(ctx, "letters", 0); err != nil {
			return nil, err
		}
		v, err := letters.Receive(ctx)
		return object{"log": []string{v}}, err
	}
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["letters"] = must(builder().Node("get", get).Sequence(graph.Start, "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	id := h.thread()
	path := "/stele/threads/" + id + "/signals/"
	h.refused(409, "GET", path+"refused", nil)
	begin := func() string {
		run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters"}).text1("run_id")
		h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
		return run
	}
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id")
	h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil).sub("stele_exposed"), `{"letters":0}`)
	for n := range 2 {
		h.ok("POST", path+"letter", object{"value": n})
		h.ended(id, run)
		run = begin()
	}
	refused := func() (list []object) {
		for _, r := range h.ok("GET", path+"refused", nil).object()["refused"].([]any) {
			list = append(list, r.(object))
		}
		return list
	}
	list := refused()
	if len(list) != 2 || list[1]["name"] != "letter" || list[1]["value"] != 1.0 || !strings.Contains(fmt.Sprint(list[1]["error"]), "string") {
		t.Fatalf("%v", list)
	}
	h.ok("DELETE", path+"refused/"+list[0]["id"].(string), nil)
	h.ok("POST", path+"letter", object{"value": "one", "instead": list[1]["id"]})
	h.ended(id, run)
	if list := refused(); len(list) > 0 {
		t.Errorf("%v", list)
	}
	if st := h.ok("GET", "/threads/"+id, nil); !strings.Contains(st.text, `["one"]`) {
		t.Error(st.text)
	}
}

// TestSignalsOfADeletedRun: a run that is deleted gives back the signals that it took, unless another run has gone on
// from them.
func TestSignalsOfADeletedRun(t *testing.T) {
	letters := pregel.NewSignal[float64]("letter")
	get := func(ctx context.Context, _ any) (any, error) {
		n, err := letters.Receive(ctx)
		return object{"log": []string{fmt.Sprint("letter ", n)}}, err
	}
	nap := func(ctx context.Context, _ any) (any, error) { return nil, pregel.Sleep(ctx, 24*time.Hour) }
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["letters"] = must(builder().Node("get", get).Node("again", get).Node("nap", nap).Sequence(graph.Start, "get", "again").Edge("again", "nap").
			Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	id := h.thread()
	begin := func() string {
		return h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}, "multitask_strategy": "interrupt"}).text1("run_id")
	}
	has := func(want string) {
		t.Helper()
		h.until("the log is "+want, func() bool { return strings.Contains(h.ok("GET", "/threads/"+id, nil).text, `"log":`+want) })
	}
	run := begin()
	h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
	for n := range 4 {
		h.ok("POST", "/stele/threads/"+id+"/signals/letter", object{"value": n})
	}
	has(`["letter 0","letter 1"]`)
	h.ok("DELETE", "/threads/"+id+"/runs/"+run, nil)
	run = begin()
	has(`["letter 0","letter 1"]`)
	begin()
	has(`["letter 0","letter 1","letter 2","letter 3"]`)
	h.ok("DELETE", "/threads/"+id+"/runs/"+run, nil)
	begin()
	h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
	h.ok("POST", "/stele/threads/"+id+"/signals/letter", object{"value": 9})
	has(`["letter 0","letter 1","letter 2","letter 3","letter 9"]`)
}

// TestUpdateWhileARunSleeps: the run goes on from the update, and does not take its input again.
func TestUpdateWhileARunSleeps(t *testing.T) {
	letters := pregel.NewSignal[float64]("letter")
	get := func(ctx context.Context, _ any) (any, error) {
		n, err := letters.Receive(ctx)
		return object{"log": []string{fmt.Sprint("letter ", n)}}, err
	}
	first := func(ctx context.Context, _ any) (any, error) { return object{"log": []string{"first"}}, nil }
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["letters"] = must(builder().Node("first", first).Node("get", get).Sequence(graph.Start, "first", "get").Compile(graph.Options{Name: "letters", Saver: c.Saver, Store: c.Store}))
	})
	id := h.thread()
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": object{"text": "x"}}).text1("run_id")
	h.until("the run sleeps", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
	h.ok("POST", "/threads/"+id+"/state", object{"values": object{"log": []string{"updated"}}})
	h.ok("POST", "/stele/threads/"+id+"/signals/letter", object{"value": 1})
	h.ended(id, run)
	if st := h.ok("GET", "/threads/"+id, nil); !strings.Contains(st.text, `["first","updated","letter 1"]`) {
		t.Error(st.text)
	}
}

// TestSleepingStatus: a thread whose run sleeps is sleeping, in searches too, unless it asks somebody beside it. The
// history tells which version of the graph stored a checkpoint.
func TestSleepingStatus(t *testing.T) {
	nap := func(ctx context.Context, _ any) (any, error) { return nil, pregel.Sleep(ctx, 24*time.Hour) }
	ask := func(ctx context.Context, _ any) (any, error) {
		_, err := pregel.Ask(ctx, "ok?")
		return nil, err
	}
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["nap"] = must(builder().Node("nap", nap).Sequence(graph.Start, "nap").Compile(graph.Options{Name: "nap", Saver: c.Saver, Version: "seven"}))
		c.Graphs["both"] = must(builder().Node("nap", nap).Node("ask", ask).Edge(graph.Start, "nap").Edge(graph.Start, "ask").Compile(graph.Options{Name: "both", Saver: c.Saver}))
	})
	want := map[string]string{}
	for graph, status := range map[string]string{"nap": "sleeping", "both": "waiting", "asker": "waiting"} {
		id := h.thread()
		h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": graph, "input": object{"text": "x"}})
		h.until(graph+" waits", func() bool { return h.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
		want[id] = status
		if got := h.ok("GET", "/threads/"+id+"?include=stele_status", nil).text1("stele_status"); got != status {
			t.Errorf("%s is %s, want %s", graph, got, status)
		}
		version := h.ok("POST", "/threads/"+id+"/history", object{"values": false}).json.([]any)[0].(object)["stele_version"]
		if graph == "nap" && version != "seven" || version == nil {
			t.Errorf("%s was stored by version %v", graph, version)
		}
	}
	for status, n := range map[string]int{"sleeping": 1, "waiting": 2, "running": 0, "any": 3} {
		for _, by := range []string{"created_at", "updated_at", "status"} {
			found := h.ok("POST", "/threads/search", object{"stele_status": status, "sort_by": by}).json.([]any)
			if len(found) != n {
				t.Errorf("%d threads are %s, want %d", len(found), status, n)
			}
			for _, th := range found {
				if got := th.(object)["stele_status"]; got != want[th.(object)["thread_id"].(string)] {
					t.Errorf("a search for %s by %s finds one that is %v", status, by, got)
				}
			}
		}
		h.equal(h.ok("POST", "/threads/count", object{"stele_status": status}), fmt.Sprint(n))
	}
}
