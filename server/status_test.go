package server_test

import (
	"context"
	"iter"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
)

// TestSteleStatus: stele_status tells how far a thread is, and was at each checkpoint, in the
// words of savers: a thread whose run was cut off is not one that waits.
func TestSteleStatus(t *testing.T) {
	h := newHouse(t)
	run := func(graph string) string {
		id := h.thread()
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": graph, "input": object{"text": "x"}})
		return id
	}
	want := map[string]string{run("simple"): "done", run("asker"): "waiting", run("error"): "failed", h.thread(): ""}
	ctx, cancel := context.WithCancel(t.Context())
	h.gate <- struct{}{} // x ends, and y is cut off
	go func() {
		for len(h.gate) > 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := h.graphs(h.disk)["slow"].Invoke(ctx, pregel.Thread("cut"), object{"text": "x"}); err == nil {
		t.Fatal("the run was not cut off")
	}
	want["cut"] = "unfinished"
	busy := h.thread()
	h.ok("POST", "/threads/"+busy+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}})
	want[busy] = "running"

	if info := h.ok("GET", "/info", nil).sub("stele"); info.object()["thread_status"] != true {
		t.Errorf("%s", info.text)
	}
	all := h.ok("POST", "/threads/search", object{"stele_status": "any", "limit": 100}).json.([]any)
	if len(all) != len(want) {
		t.Errorf("%d of %d threads", len(all), len(want))
	}
	for _, th := range all {
		if id, got := th.(object)["thread_id"].(string), th.(object)["stele_status"]; got != want[id] {
			t.Errorf("thread %s: %v, want %q", id, got, want[id])
		}
	}
	for id, status := range want {
		if got := h.ok("GET", "/threads/"+id+"?include=stele_status", nil).text1("stele_status"); got != status {
			t.Errorf("thread %s: %q, want %q", id, got, status)
		}
		if _, ok := h.ok("GET", "/threads/"+id, nil).object()["stele_status"]; ok {
			t.Error("the status was not asked for")
		}
		if status == "" {
			continue
		}
		found := h.ok("POST", "/threads/search", object{"stele_status": status}).json.([]any)
		if len(found) != 1 || found[0].(object)["thread_id"] != id {
			t.Errorf("%s: %v, want %s", status, found, id)
		}
		h.equal(h.ok("POST", "/threads/count", object{"stele_status": status}), "1")
	}
	h.refused(422, "POST", "/threads/search", object{"stele_status": "interrupted"})

	for id, status := range want {
		for i, st := range h.ok("POST", "/threads/"+id+"/history", object{"limit": 100, "values": false}).json.([]any) {
			want := "unfinished"
			if i == 0 && status != "running" {
				want = status
			}
			if got := st.(object)["stele_status"]; got != want {
				t.Errorf("thread %s, checkpoint %d: %v, want %q", id, i, got, want)
			}
		}
	}
}

// TestSleepsWithoutItsGraph: a thread that sleeps is not one that waits for somebody on a server without its graph either, whether
// it has others or, as stele studio, none.
func TestSleepsWithoutItsGraph(t *testing.T) {
	for _, none := range []bool{false, true} {
		h := open(t, t.TempDir(), func(c *server.Config) {
			if none {
				c.Graphs = nil
			}
		})
		for _, g := range []*pregel.Graph{h.graphs(h.disk)["asker"], must(builder().Node("nap", func(ctx context.Context, _ any) (any, error) { return nil, pregel.Sleep(ctx, time.Hour) }).
			Sequence(graph.Start, "nap").Compile(graph.Options{Name: "elsewhere", Saver: h.disk, Store: h.items}))} {
			id := h.ok("POST", "/threads", object{"metadata": object{"graph_id": g.Name()}}).text1("thread_id")
			if _, err := g.Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
				t.Fatal(err)
			}
			status := map[bool]string{true: "waiting", false: "sleeping"}[g.Name() == "asker"]
			if got := h.ok("GET", "/threads/"+id+"?include=stele_status", nil).text1("stele_status"); got != status {
				t.Errorf("no graphs %t: thread of %s: %q", none, g.Name(), got)
			}
			if found := h.ok("POST", "/threads/search", object{"stele_status": status}).json.([]any); len(found) != 1 || found[0].(object)["thread_id"] != id {
				t.Errorf("no graphs %t: %s: %v, want %s", none, status, found, id)
			}
			h.equal(h.ok("POST", "/threads/count", object{"stele_status": status}), "1")
		}
	}
}

// TestThreadPrefix: stele_prefix selects threads by how their ids begin, those that a server
// made and those that only the store has, each once, and for a user no others' threads.
func TestThreadPrefix(t *testing.T) {
	h := newHouse(t)
	made := h.thread()
	for _, id := range []string{"order-1", "order-2", "other"} {
		if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		prefix []any
		want   []string
	}{
		{[]any{"order-"}, []string{"order-1", "order-2"}},
		{[]any{"order-1", "ord", made[:8]}, []string{made, "order-1", "order-2"}},
		{[]any{made}, []string{made}},
		{[]any{"", "o"}, []string{made, "order-1", "order-2", "other"}},
		{[]any{"rder"}, nil},
	} {
		body := object{"stele_prefix": test.prefix, "sort_by": "thread_id", "sort_order": "asc"}
		var got []string
		for _, th := range h.ok("POST", "/threads/search", body).json.([]any) {
			got = append(got, th.(object)["thread_id"].(string))
		}
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.prefix, got, test.want)
		}
		h.equal(h.ok("POST", "/threads/count", body), strconv.Itoa(len(test.want)))
	}
	h.refused(422, "POST", "/threads/search", object{"stele_prefix": "order"})
}

// TestStatusOfOwnThread: a thread without a checkpoint does not take the status and the time of
// another whose id begins with its own.
func TestStatusOfOwnThread(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	before := h.ok("GET", "/threads/"+id, nil).text
	if _, err := h.graphs(h.disk)["asker"].Invoke(t.Context(), pregel.Thread(id+"/secret"), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	if after := h.ok("GET", "/threads/"+id, nil).text; after != before {
		t.Errorf("%s, want %s", after, before)
	}
	if got := h.ok("GET", "/threads/"+id+"?include=stele_status", nil).text1("stele_status"); got != "" {
		t.Errorf("status %q", got)
	}
	h.equal(h.ok("POST", "/threads/search", object{"ids": []string{id}, "stele_status": "waiting"}), "[]")
}

// looked notes what threads it is asked for.
type looked struct {
	*disk.Saver
	asked *[]saver.ThreadQuery
}

func (s looked) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	*s.asked = append(*s.asked, q)
	return s.Saver.Threads(ctx, q)
}

// TestOneThreadLooked: for the status of one thread no other is looked at.
func TestOneThreadLooked(t *testing.T) {
	var asked []saver.ThreadQuery
	h := open(t, t.TempDir(), func(c *server.Config) { c.Saver = looked{c.Saver.(*disk.Saver), &asked} })
	id := h.thread()
	asked = nil
	h.ok("GET", "/threads/"+id+"?include=stele_status", nil)
	if len(asked) != 1 || asked[0].ThreadID != id {
		t.Errorf("asked for %+v, want thread %s alone", asked, id)
	}
}

// unreachable cannot be asked about threads for some calls.
type unreachable struct {
	*disk.Saver
	calls *atomic.Int32
}

func (s unreachable) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	if s.calls.Add(-1) >= 0 {
		return func(yield func(saver.ThreadInfo, error) bool) {
			yield(saver.ThreadInfo{}, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET})
		}
	}
	return s.Saver.Threads(ctx, q)
}

// TestStoreUnreachableAroundARun: a store that cannot be reached when the graph has ended, nor when the next attempt
// begins, does not end the run with an error.
func TestStoreUnreachableAroundARun(t *testing.T) {
	var calls atomic.Int32
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Saver = unreachable{c.Saver.(*disk.Saver), &calls}
		c.Graphs["simple"] = must(builder().Node("a", func(context.Context, any) (any, error) {
			calls.Store(2)
			return object{"log": []string{"a"}}, nil
		}).Sequence(graph.Start, "a").Compile(graph.Options{Name: "simple", Saver: c.Saver}))
	})
	path := "/threads/" + h.thread() + "/runs"
	id := h.ok("POST", path, object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	h.equal(h.ok("GET", path+"/"+id+"/join", nil).sub("log"), `["a"]`)
	if got := h.ok("GET", path+"/"+id, nil).text1("status"); got != "success" {
		t.Errorf("status %q", got)
	}
	if calls.Load() >= 0 {
		t.Error("the store was not asked three times")
	}
}

// beginning is a queue of which a run is begun while its runs are listed.
type beginning struct {
	*runs.Local
	graph string
}

func (q beginning) List(ctx context.Context, sel runs.Query) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		for r, err := range q.Local.List(ctx, sel) {
			if !yield(r, err) {
				return
			}
		}
		if _, _, err := q.Local.Claim(ctx, "w", []string{q.graph}); err != nil {
			yield(runs.Run{}, err)
		}
	}
}

// TestBusyAsARunBegins: a thread is busy also at the moment at which its run is begun.
func TestBusyAsARunBegins(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Queue, c.Workers = beginning{c.Queue.(*runs.Local), "simple"}, -1 })
	for _, look := range []func(id string){
		func(id string) {
			h.refused(409, "POST", "/threads/"+id+"/state", object{"values": object{"text": "y"}})
		},
		func(string) {
			if got := h.ok("POST", "/threads/search", object{"stele_status": "running"}).json.([]any); len(got) != 2 {
				t.Errorf("%d threads are running, want 2", len(got))
			}
		},
	} {
		id := h.thread()
		h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}})
		look(id)
	}
}
