package server_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// stored is all that clients can see, without what a request to look at it changes.
func (h *house) stored() string {
	h.Helper()
	var b strings.Builder
	for _, path := range []string{"/threads/search", "/assistants/search", "/runs/crons/search", "/store/items/search"} {
		fmt.Fprintln(&b, path, h.ok("POST", path, object{"limit": 1000}).text)
	}
	for info, err := range h.disk.Threads(h.Context(), saver.ThreadQuery{}) {
		if err != nil {
			h.Fatal(err)
		}
		fmt.Fprintln(&b, "state", info.ThreadID)
	}
	for r, err := range h.queue.List(h.Context(), runs.Query{}) {
		if err != nil {
			h.Fatal(err)
		}
		fmt.Fprintln(&b, "run", r.ID, r.Status, r.Key)
	}
	return b.String()
}

// TestHealthy: who asks for the store too is told that it takes no writes, and else that the process answers.
func TestHealthy(t *testing.T) {
	inj := faultfs.NewInjector()
	h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj), Inline: true}}, func(c *server.Config) { c.Workers = -1 })
	h.equal(h.ok("GET", "/ok", nil), `{"ok":true,"services":{}}`)
	h.equal(h.ok("GET", "/ok?check_db=1", nil), `{"ok":true,"services":{"database":"healthy"}}`)
	inj.Set(faultfs.Rule{Op: faultfs.OpSync, Sticky: true, Err: syscall.EIO}, faultfs.Rule{Op: faultfs.OpSyncData, Sticky: true, Err: syscall.EIO})
	h.refused(503, "POST", "/threads", object{})
	inj.Set()
	h.equal(h.ok("GET", "/ok", nil), `{"ok":true,"services":{}}`)
	h.equal(h.refused(500, "GET", "/ok?check_db=1", nil), `{"ok":false,"services":{"database":"unhealthy"}}`)
	h.http.CloseClientConnections()
	_ = h.api.Close()
	_ = h.disk.Close() // it is poisoned
}

// TestFullDisk: on a full disk each change is refused with 507 and leaves nothing, reading goes
// on, and with room again the server goes on, also with the run that
// was under way.
func TestFullDisk(t *testing.T) {
	inj := faultfs.NewInjector()
	h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)}}, func(c *server.Config) { c.Workers = 1 })
	idle, busy := h.thread(), h.thread()
	h.ok("POST", "/threads/"+idle+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	h.ok("PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{"n": 1}})
	assistant := h.ok("POST", "/assistants", object{"graph_id": "simple"}).text1("assistant_id")
	cron := h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	run := h.ok("POST", "/threads/"+busy+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	h.until("the run begins", func() bool {
		return strings.Contains(h.ok("GET", "/threads/"+busy+"/state", nil).text, `"next":["x"]`)
	})

	inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, Sticky: true, Err: syscall.ENOSPC})
	before := h.stored()
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/threads", object{}},
		{"PATCH", "/threads/" + idle, object{"metadata": object{"a": 1}}},
		{"POST", "/threads/" + idle + "/state", object{"values": object{"text": "y"}}},
		{"POST", "/threads/" + idle + "/copy", nil},
		{"POST", "/threads/" + idle + "/runs", object{"assistant_id": "simple", "input": object{"text": "y"}}},
		{"POST", "/threads/" + idle + "/runs/wait", object{"assistant_id": "simple", "input": object{"text": "y"}}},
		{"POST", "/threads/" + idle + "/runs/stream", object{"assistant_id": "simple", "input": object{"text": "y"}}},
		{"POST", "/threads/" + idle + "/commands", object{"id": 1, "method": "run.start", "params": object{"assistant_id": "simple", "input": object{"text": "y"}}}},
		{"POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "y"}, "webhook": h.http.URL}},
		{"POST", "/runs/wait", object{"assistant_id": "simple", "input": object{"text": "y"}}},
		{"POST", "/runs/batch", []object{{"assistant_id": "simple", "input": object{"text": "y"}}}},
		{"POST", "/assistants", object{"graph_id": "simple"}},
		{"PATCH", "/assistants/" + assistant, object{"name": "n"}},
		{"PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{"n": 2}}},
		{"POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}},
		{"PATCH", "/runs/crons/" + cron, object{"enabled": false}},
	} {
		a := h.do(r.method, r.path, r.body)
		if strings.HasSuffix(r.path, "/commands") {
			if !strings.Contains(a.text, "507: The disk is full.") {
				t.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.text)
			}
		} else if a.status != 507 || a.text != `{"detail":"The disk is full. Nothing was stored. Free space on it. A store in a directory takes deletions meanwhile, and their space returns."}` {
			t.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.text)
		}
	}
	if after := h.stored(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	inj.Set()
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	if a := h.ended(busy, run); a.text1("status") != "success" {
		t.Errorf("%s", a.text)
	}
	h.equal(h.ok("GET", "/threads/"+busy+"/state", nil).sub("values"), `{"log":["slow","slow","z"],"text":"x"}`)
	h.equal(h.ok("POST", "/runs/wait", object{"assistant_id": "simple", "input": object{"text": "y"}}), `{"log":["a","b"],"text":"y"}`)
}

// TestFullDiskAnywhere lets the disk be full from any write of a request on: what is refused
// was not done, and what is answered was.
func TestFullDiskAnywhere(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("SERVER_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("go test ./server -run TestFullDiskAnywhere: SERVER_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	bothQueues(t, func(t *testing.T, h *house, inj *faultfs.Injector) { fullAnywhere(h, inj, rnd) })
}

// bothQueues runs a test with the queue in the store of the server, whose disk has faults, and with
// one elsewhere.
func bothQueues(t *testing.T, test func(t *testing.T, h *house, inj *faultfs.Injector)) {
	for _, where := range []string{"together", "apart"} {
		t.Run(where, func(t *testing.T) {
			inj := faultfs.NewInjector()
			var other *runs.Local
			h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)}}, func(c *server.Config) {
				c.Workers = -1
				if where == "apart" {
					items := must(store.NewMemory(store.Options{}))
					t.Cleanup(func() { _ = items.Close() })
					other = must(runs.NewLocal(t.Context(), items, runs.LocalOptions{}))
					c.Queue = other
				}
			})
			if other != nil {
				h.queue = other
			}
			test(t, h, inj)
		})
	}
}

func fullAnywhere(h *house, inj *faultfs.Injector, rnd *rand.Rand) {
	t := h.T
	thread := h.thread()
	h.ok("PATCH", "/threads/"+thread, object{"metadata": object{"graph_id": "simple"}})
	for n := 1; n <= 8; n++ {
		path := []string{"/threads/" + thread + "/runs", "/runs"}[rnd.IntN(2)]
		before := h.stored()
		inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, N: 1 + n%8, Sticky: true, Err: syscall.ENOSPC})
		a := h.do("POST", path, object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": "http://127.0.0.1:1/"})
		inj.Set()
		switch a.status {
		case 200:
			if h.stored() == before {
				t.Errorf("write %d of %s: answered, and not done", n, path)
			}
			h.ok("DELETE", "/threads/"+a.text1("thread_id")+"/runs/"+a.text1("run_id"), nil)
		case 507:
			h.until("a run that was refused is gone", func() bool { return strings.Count(h.stored(), "\nrun ") == strings.Count(before, "\nrun ") })
		default:
			t.Fatalf("write %d of %s: %d %s", n, path, a.status, a.text)
		}
	}
}

// TestRefusedStatelessRun: wherever in a stateless run's request the disk becomes full, the
// thread that was made for it goes, also one that no search shows.
func TestRefusedStatelessRun(t *testing.T) { bothQueues(t, refusedStatelessRun) }

func refusedStatelessRun(t *testing.T, h *house, inj *faultfs.Injector) {
	records := func() int {
		return len(must(h.items.Search(t.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "threads"}, Limit: 1000})))
	}
	refused, kept := 0, 0
	for n := range 8 {
		for _, completion := range []string{"delete", "keep"} {
			inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, N: 1 + n, Sticky: true, Err: syscall.ENOSPC})
			a := h.do("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": "http://127.0.0.1:1/", "on_completion": completion})
			inj.Set()
			if a.status == 200 {
				kept++
				continue
			}
			refused++
			if a.status != 507 {
				t.Fatalf("write %d: %d %s", n, a.status, a.text)
			}
			h.until("the thread of a run that was refused is gone", func() bool {
				undoing := server.Undoing(h.api) // asked before what it has done is looked for
				n := records()
				if n != kept && !undoing {
					t.Fatalf("%d threads are stored, want %d, and nobody removes the others", n, kept)
				}
				return n == kept
			})
		}
	}
	if refused < 2 {
		t.Errorf("%d requests were refused", refused)
	}
}

// A run that is refused because its thread is busy leaves the thread as it was, whose graph it is of.
func TestRefusedRunChangesNoThread(t *testing.T) {
	bothQueues(t, func(t *testing.T, h *house, _ *faultfs.Injector) {
		id := h.thread()
		path := "/threads/" + id + "/runs"
		h.ok("POST", path, object{"assistant_id": "slow", "input": object{"text": "first"}}) // nobody executes it
		before := h.ok("GET", "/threads/"+id, nil).object()["metadata"]
		h.refused(409, "POST", path, object{"assistant_id": "simple", "input": object{"text": "second"}, "multitask_strategy": "reject"})
		if after := h.ok("GET", "/threads/"+id, nil).object()["metadata"]; !reflect.DeepEqual(before, after) {
			t.Errorf("the thread had %v, and has %v", before, after)
		}
	})
}
