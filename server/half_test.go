package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// half leaves what a server leaves that is killed while it makes a thread with a state.
func (h *house) half() string {
	h.Helper()
	id := uuid.NewString()
	note := fmt.Sprintf(`{"thread":%q,"since":%q}`, id, time.Now().UTC().Format(time.RFC3339Nano))
	if err := h.items.Put(h.Context(), store.Namespace{"__stele_server__", "halves"}, id, object{"json": note}, store.NoIndex(), store.TTL(-1)); err != nil {
		h.Fatal(err)
	}
	if _, err := h.graphs(h.disk)["simple"].Invoke(h.Context(), pregel.Thread(id), object{"text": "of the first request"}); err != nil {
		h.Fatal(err)
	}
	return id
}

// holds reports whether the saver has a state of a thread.
func (h *house) holds(id string) bool {
	h.Helper()
	_, ok, err := saver.ThreadOf(h.Context(), h.disk, id)
	if err != nil {
		h.Fatal(err)
	}
	return ok
}

// TestHalfThreads: a thread that was to begin with a state, and whose server was killed before it was whole,
// is not there when the next one begins. Who asks for it again gets a new one.
func TestHalfThreads(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id, whole := h.half(), h.ok("POST", "/threads/"+h.thread()+"/copy", object{}).text1("thread_id")
	h.shut()
	h = open(t, dir, nil)
	if h.holds(id) {
		t.Error("the state is left")
	}
	h.refused(404, "GET", "/threads/"+id, nil)
	h.ok("GET", "/threads/"+whole, nil)
	if a := h.ok("POST", "/threads/count", object{}); a.text != "2" {
		t.Errorf("%s threads, want 2", a.text)
	}

	h, _ = users(t, nil)
	id = h.half() // of another server, which this one does not wait for
	update := object{"values": object{"text": "again"}, "as_node": "a"}
	h.ok("POST", "/threads", object{"thread_id": id, "graph_id": "simple", "supersteps": []object{{"updates": []object{update}}}})
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil).sub("values"), `{"log":[],"text":"again"}`)
	if a := h.ok("POST", "/threads/"+id+"/history", object{"limit": 10}); len(a.json.([]any)) != 1 {
		t.Errorf("%s", a.text)
	}
	if found := must(h.items.Search(t.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "halves"}})); len(found) > 0 {
		t.Errorf("%d notes are left", len(found))
	}
}

// TestHalfIsHidden: no request reaches a thread before it is whole: what its client were told would go with it.
// Who may make the thread makes a new one.
func TestHalfIsHidden(t *testing.T) {
	h := newHouse(t)
	id := h.half()
	h.refused(404, "POST", "/threads/"+id+"/state", object{"values": object{"text": "told"}, "as_node": "a"})
	h.refused(404, "GET", "/threads/"+id, nil)
	run := object{"assistant_id": "simple", "input": object{"text": "x"}}
	h.refused(404, "POST", "/threads/"+id+"/runs", run)
	h.refused(404, "POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"})
	for path, want := range map[string]string{"/threads/search": "[]", "/threads/count": "0"} {
		if a := h.ok("POST", path, object{}); a.text != want {
			t.Errorf("%s: %s", path, a.text)
		}
	}
	run["if_not_exists"] = "create"
	h.ended(id, h.ok("POST", "/threads/"+id+"/runs", run).text1("run_id"))
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil).sub("values"), `{"log":["a","b"],"text":"x"}`)
	h.shut()
	h = open(t, h.dir, nil)
	h.ok("GET", "/threads/"+id, nil)
}

// TestThreadMadeAnew: a client that does not wait and asks another server for the thread gets it from that one, once the
// first has failed. What the first server removes then is not what the second makes. Who asks while the second makes it
// gets its thread, and changes nothing.
func TestThreadMadeAnew(t *testing.T) {
	type stage struct{ reached, goOn chan struct{} }
	stages := map[string]stage{"first": {make(chan struct{}), make(chan struct{})}, "second": {make(chan struct{}), make(chan struct{})}}
	var cfg server.Config
	h := open(t, t.TempDir(), func(c *server.Config) {
		sum := channel.Reduce(func(old, new string) string {
			if s, ok := stages[new]; ok {
				close(s.reached)
				<-s.goOn
				if new == "first" {
					panic(new)
				}
			}
			return old + new
		})
		c.Graphs["slow"] = must(graph.New(graph.Key("text", sum)).Node("a", says("a")).Edge(graph.Start, "a").Compile(graph.Options{Name: "slow", Saver: c.Saver}))
		c.Queue = struct{ runs.Queue }{c.Queue} // as one that servers share
		cfg = *c
	})
	other := must(server.New(cfg))
	defer func() { _ = other.Close() }()
	at := httptest.NewServer(other)
	defer at.Close()
	second := *h
	second.base = at.URL
	id := uuid.NewString()
	ask := func(texts ...string) object {
		var steps []object
		for _, text := range texts {
			steps = append(steps, object{"updates": []object{{"values": object{"text": text}, "as_node": "a"}}})
		}
		return object{"thread_id": id, "graph_id": "slow", "supersteps": steps}
	}
	answered := make(chan answer)
	go func() { answered <- h.do("POST", "/threads", ask("x", "first")) }()
	<-stages["first"].reached
	go func() { answered <- second.do("POST", "/threads", ask("x", "second")) }()
	close(stages["first"].goOn)
	if a := <-answered; a.status != 500 {
		t.Errorf("%d %s", a.status, a.text)
	}
	<-stages["second"].reached
	if err := server.RemoveHalf(t.Context(), h.api, id); !errors.Is(err, saver.ErrConflict) {
		t.Errorf("the first server removes what the second one makes: %v", err)
	}
	third := ask("third")
	third["if_exists"] = "do_nothing"
	go func() { answered <- h.do("POST", "/threads", third) }()
	close(stages["second"].goOn)
	for range 2 {
		if a := <-answered; a.status != 200 {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	h.until("the first server has removed what is left", func() bool { return !server.RemovesHalves(h.api) })
	h.equal(second.ok("GET", "/threads/"+id+"/state", nil).sub("values"), `{"text":"xsecond"}`)
}

// TestThreadOfAProgramStays: a thread that a program has made takes no supersteps of a new one: it would go with
// what is left of that.
func TestThreadOfAProgramStays(t *testing.T) {
	h := newHouse(t)
	id := uuid.NewString()
	if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(id), object{"text": "of a program"}); err != nil {
		t.Fatal(err)
	}
	before := h.ok("GET", "/threads/"+id+"/state", nil).text
	update := object{"values": object{"text": "again"}, "as_node": "a"}
	h.refused(409, "POST", "/threads", object{"thread_id": id, "graph_id": "simple", "supersteps": []object{{"updates": []object{update}}}})
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil), before)
}

// TestFullDiskBetween: wherever the disk becomes full in a request that stores several things, it is refused
// as a whole.
func TestFullDiskBetween(t *testing.T) {
	inj := faultfs.NewInjector()
	h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)}}, func(c *server.Config) { c.Workers = -1 })
	id := h.ok("POST", "/threads", object{"graph_id": "simple"}).text1("thread_id")
	h.ok("POST", "/threads/"+id+"/state", object{"values": object{"text": "x"}, "as_node": "a"})
	cron := h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	for _, r := range []struct {
		method, path string
		body         object
	}{
		{"POST", "/threads", object{"ttl": 60}},
		{"PATCH", "/threads/" + id, object{"ttl": 60}},
		{"POST", "/threads/" + id + "/copy", object{}},
		{"POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}},
		{"PATCH", "/runs/crons/" + cron, object{"schedule": "0 0 2 1 *"}},
	} {
		for n := 1; ; n++ {
			before := h.stored()
			inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, N: n, Sticky: true, Err: syscall.ENOSPC})
			a := h.do(r.method, r.path, r.body)
			inj.Set()
			if a.status == 200 {
				break
			}
			if a.status != 507 {
				t.Fatalf("%s %s, write %d: %d %s", r.method, r.path, n, a.status, a.text)
			}
			if strings.HasSuffix(r.path, "/copy") {
				h.until("what is left of the copy is gone", func() bool { return h.stored() == before })
			} else if after := h.stored(); after != before {
				t.Errorf("%s %s, write %d:\nbefore %s\nafter  %s", r.method, r.path, n, before, after)
			}
		}
	}
}

// TestTemporaryWithoutRun: a thread that goes with its run goes too if the run was removed before it, as by a
// server that was killed.
func TestTemporaryWithoutRun(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	run := h.ok("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}})
	if _, err := h.queue.Cancel(t.Context(), run.text1("run_id"), runs.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := h.queue.Delete(t.Context(), run.text1("run_id")); err != nil {
		t.Fatal(err)
	}
	h.until("nothing is to be done any more", func() bool { return len(must(h.items.Search(t.Context(), pending))) == 0 })
	h.refused(404, "GET", "/threads/"+run.text1("thread_id"), nil)
}

// TestAssistantStays: an assistant whose threads cannot be removed stays: the request can be made again.
func TestAssistantStays(t *testing.T) {
	h, _ := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(_ context.Context, _ *server.User, a server.Access) (server.Grant, error) {
			if a.Resource == "threads" && a.Action == "delete" {
				return server.Grant{}, &server.AuthError{Detail: "no threads"}
			}
			return server.Grant{}, nil
		}
	})
	id := h.ok("POST", "/assistants", object{"graph_id": "simple"}).text1("assistant_id")
	h.refused(403, "DELETE", "/assistants/"+id+"?delete_threads=true", nil)
	h.ok("GET", "/assistants/"+id, nil)
	h.ok("DELETE", "/assistants/"+id, nil)
}

// TestLargeBodyAnnounced: a body that is too large is refused before it is sent.
func TestLargeBodyAnnounced(t *testing.T) {
	h := newHouse(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 16777217\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 413 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// TestSearchesHoldLittle: what a search holds of all that it finds does not grow with what clients gave.
func TestSearchesHoldLittle(t *testing.T) {
	h := newHouse(t)
	text := strings.Repeat("x", 20<<10)
	run := object{"assistant_id": "simple", "input": object{"text": text}}
	for range 5 {
		id := h.ok("POST", "/threads", object{"metadata": object{"a": text}}).text1("thread_id")
		h.ok("POST", "/threads/"+id+"/runs/wait", run)
		h.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": object{"a": text}, "context": object{"a": text}})
		h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": text}, "metadata": object{"a": text}})
	}
	for what, n := range server.FoundBytes(h.api) {
		if n == 0 || n > 20<<10 {
			t.Errorf("a search for %s holds %d bytes", what, n)
		}
	}
	for _, path := range []string{"/threads/search", "/assistants/search", "/runs/crons/search"} {
		if a := h.ok("POST", path, object{"metadata": object{"a": text}, "limit": 1000}); strings.Count(a.text, `"a":"`) < 5 {
			t.Errorf("%s: %.200s", path, a.text)
		}
	}
}
