package server_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestBriefValues: a page reads a state without its large values, reads each of those when it
// is asked for, and is told what JSON has no form for. Who does not ask sees LangGraph's answer.
func TestBriefValues(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	decimal := serde.NewExt(serde.ExtPositional, "decimal", "Decimal", []any{"1.5"}, "")
	values := object{"text": "small", "large": strings.Repeat("x", 300_000), "blob": []byte("\x00\x01\x02"), "deep": []any{object{"price": decimal}}}
	anything := channel.LastValue[any]()
	b := graph.New(graph.Key("text", anything), graph.Key("large", anything), graph.Key("blob", anything), graph.Key("deep", anything)).Node("a", func(context.Context, any) (any, error) { return values, nil })
	g := must(b.Edge(graph.Start, "a").Compile(graph.Options{Name: "elsewhere", Saver: h.disk}))
	if _, err := g.Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	h.ok("PATCH", "/threads/"+id, object{"metadata": object{"graph_id": "elsewhere"}})
	path := "/threads/" + id + "/state"

	whole := h.ok("GET", path, nil).object()["values"].(object)
	if len(whole["large"].(string)) != 300_000 || whole["blob"] != "AAEC" {
		t.Errorf("without asking: %v", whole["blob"])
	}
	got := h.ok("GET", path+"?stele_values=brief", nil)
	h.equal(got.sub("values"), `{"blob":{"$stele":"bytes","bytes":3,"start":"AAEC"},"deep":[{"price":{"$stele":"type","code":1,"type":"decimal.Decimal","value":["1.5"]}}],"large":{"$stele":"large","bytes":300002},"text":"small"}`)
	checkpoint := got.text1("checkpoint_id")
	one := h.ok("GET", path+"/"+checkpoint+"?stele_values=channel:large", nil).object()["values"].(object)
	if len(one) != 1 || one["large"] != whole["large"] {
		t.Errorf("one channel: %d", len(one))
	}
	h.equal(h.ok("GET", path+"?stele_values=channel:nothing", nil).sub("values"), `{}`)
	h.refused(422, "GET", path+"?stele_values=all", nil)
}

// TestAboutThreads: a list of threads has a title of each, and a line about it, in place of its values.
func TestAboutThreads(t *testing.T) {
	h := newHouse(t)
	chat, plain, empty := h.thread(), h.thread(), h.thread()
	h.ok("POST", "/threads/"+chat+"/runs/wait", object{"assistant_id": "chat", "input": object{"messages": []any{object{"role": "user", "content": "hi"}}}})
	h.ok("POST", "/threads/"+plain+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": strings.Repeat("ä", 300)}})
	want := map[string]string{chat: "hello", plain: "text: " + strings.Repeat("ä", 154), empty: ""}
	titles := map[string]string{chat: "hi", plain: "", empty: ""}
	for _, th := range h.ok("POST", "/threads/search", object{"stele_values": "about"}).json.([]any) {
		th := th.(object)
		id := th["thread_id"].(string)
		if th["stele_about"] != want[id] || th["stele_title"] != titles[id] || th["values"] != nil {
			t.Errorf("%v, want %q", th, want[id])
		}
		if got := h.ok("GET", "/threads/"+id+"?stele_values=about", nil).object(); got["stele_about"] != want[id] || got["values"] != nil {
			t.Errorf("alone: %v, want %q", got, want[id])
		}
	}
	h.refused(422, "POST", "/threads/search", object{"stele_values": "brief"})
}

// TestSearchReadsFewStates: a list of threads by their last change, or of one status, reads the
// states of the threads that it shows, however many there are.
func TestSearchReadsFewStates(t *testing.T) {
	var mu sync.Mutex
	reads := map[string]bool{}
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Saver = saver.Intercept(c.Saver, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
			if call.Method == "GetTuple" {
				mu.Lock()
				defer mu.Unlock()
				reads[call.Config.ThreadID] = true
			}
			return next(ctx)
		})
		c.Graphs = (&house{T: t}).graphs(c.Saver)
	})
	var all []string
	for i := range 60 {
		name := "simple"
		if i%2 == 1 {
			name = "asker"
		}
		id := fmt.Sprintf("of a program %d", i)
		if i%3 != 0 {
			id = h.thread()
		}
		if _, err := h.graphs(h.disk)[name].Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	slices.Reverse(all)
	for _, test := range []struct {
		search object
		want   func(i int) bool
	}{
		{object{"stele_status": "any", "sort_by": "updated_at", "sort_order": "desc"}, func(int) bool { return true }},
		{object{"stele_status": "waiting", "sort_by": "updated_at", "sort_order": "desc"}, func(i int) bool { return i%2 == 0 }},
	} {
		mu.Lock()
		clear(reads)
		mu.Unlock()
		test.search["limit"] = 10
		var got, want []string
		for _, th := range h.ok("POST", "/threads/search", test.search).json.([]any) {
			got = append(got, th.(object)["thread_id"].(string))
		}
		for i, id := range all {
			if test.want(i) && len(want) < 10 {
				want = append(want, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", test.search, got, want)
		}
		mu.Lock()
		if len(reads) > 10 {
			t.Errorf("%v: the states of %d threads were read", test.search, len(reads))
		}
		mu.Unlock()
	}
}

// TestBriefInside: the large values of a graph inside are left out as those around it.
func TestBriefInside(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		inner := must(graph.New(graph.Key("text", channel.LastValue[any]()), graph.Key("large", channel.LastValue[any]())).Node("in", func(context.Context, any) (any, error) {
			return object{"large": strings.Repeat("x", 300<<10)}, nil
		}).Node("ask", func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "?") }).Sequence(graph.Start, "in", "ask").Compile(graph.Options{Name: "inner"}))
		c.Graphs["outer"] = must(graph.New(graph.Key("text", channel.LastValue[any]())).Subgraph("inner", inner).Edge(graph.Start, "inner").Compile(graph.Options{Name: "outer", Saver: c.Saver}))
	})
	thread := h.thread()
	h.ok("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "outer", "input": object{"text": "y"}})
	for how, whole := range map[string]bool{"": true, "&stele_values=brief": false} {
		a := h.ok("GET", "/threads/"+thread+"/state?subgraphs=true"+how, nil)
		task := a.object()["tasks"].([]any)[0].(map[string]any)
		values := task["state"].(map[string]any)["values"].(map[string]any)
		if _, is := values["large"].(string); is != whole || values["text"] != "y" || len(a.text) > 300<<10 != whole {
			t.Errorf("%q: %d bytes, text %v, large is whole: %t", how, len(a.text), values["text"], is)
		}
	}
}

// scanned is a store that notes of which namespaces all items were read.
type scanned struct {
	*store.Local
	mu  sync.Mutex
	all []string
}

func (s *scanned) Scan(ctx context.Context, q store.Query) iter.Seq2[store.Found, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, strings.Join(q.Prefix, "/"))
	return s.Local.Scan(ctx, q)
}

// TestWaitingReadsFewRecords: which threads wait, or are unfinished, and how many, is found without the
// records of all others, however many there are.
func TestWaitingReadsFewRecords(t *testing.T) {
	items := &scanned{}
	h := open(t, t.TempDir(), func(c *server.Config) {
		items.Local = c.Store.(*store.Local)
		c.Store = items
	})
	waiting := h.thread()
	h.ok("POST", "/threads/"+waiting+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "x"}})
	for range 3 {
		h.ok("POST", "/threads/"+h.thread()+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	}
	for _, test := range []struct {
		status string
		found  int
		scans  bool
	}{{"waiting", 1, false}, {"unfinished", 0, false}, {"done", 3, true}} {
		items.mu.Lock()
		items.all = nil
		items.mu.Unlock()
		found := h.ok("POST", "/threads/search", object{"stele_status": test.status, "sort_by": "updated_at", "sort_order": "asc"}).json.([]any)
		n := h.ok("POST", "/threads/count", object{"stele_status": test.status}).json.(float64)
		if len(found) != test.found || int(n) != test.found {
			t.Errorf("%d threads are %s, counted %v, want %d", len(found), test.status, n, test.found)
		}
		items.mu.Lock()
		if got := slices.ContainsFunc(items.all, func(ns string) bool { return strings.HasSuffix(ns, "/threads") }); got != test.scans {
			t.Errorf("%s: all items of %q were read", test.status, items.all)
		}
		items.mu.Unlock()
	}
}

// TestHealthCountsThreads: the count of threads is of what a person calls threads, not of the histories that
// subgraphs have within them.
func TestHealthCountsThreads(t *testing.T) {
	h := newHouse(t)
	inner := must(graph.New(graph.Key("text", channel.LastValue[any]())).Node("in", func(context.Context, any) (any, error) { return object{"text": "in"}, nil }).
		Edge(graph.Start, "in").Compile(graph.Options{Name: "inner"}))
	outer := must(graph.New(graph.Key("text", channel.LastValue[any]())).Subgraph("inner", inner).Edge(graph.Start, "inner").Compile(graph.Options{Name: "outer", Saver: h.disk}))
	for i := range 3 {
		if _, err := outer.Invoke(t.Context(), pregel.Thread(fmt.Sprint("thread ", i)), object{"text": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.disk.Stats().Threads; n <= 3 {
		t.Fatalf("the store has %d histories, so this tests nothing", n)
	}
	// The index is made in the background when the server begins.
	h.until("three threads", func() bool { return h.ok("GET", "/stele/health", nil).sub("stats").object()["threads"] == 3.0 })
}
