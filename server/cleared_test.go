package server_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
)

// TestFullDiskIsCleared: a client clears a full disk by itself. Whatever it deletes, also threads whose runs are
// pending or under way, the request succeeds, the space comes back without a compaction that somebody asks for, and
// the server stores again. The reserve has room for the live part of the largest segment, whichever were merged before.
func TestFullDiskIsCleared(t *testing.T) {
	source := rand.NewChaCha8([32]byte{1})
	big := func() string { // hardly to be compressed
		b := make([]byte, 768<<10)
		_, _ = source.Read(b)
		return base64.StdEncoding.EncodeToString(b)
	}
	type deletion struct {
		workers int
		more    func(h *house, thread string)             // makes a thread more than one with a state
		clear   func(h *house, threads []string) []object // what to delete, as method, path and body
	}
	cases := map[string]deletion{
		"threads": {workers: -1, clear: func(_ *house, threads []string) (out []object) {
			for _, id := range threads {
				out = append(out, object{"DELETE": "/threads/" + id})
			}
			return out
		}},
		"threads with a pending run": {workers: -1, more: func(h *house, id string) {
			h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}})
		}, clear: func(_ *house, threads []string) (out []object) {
			for _, id := range threads {
				out = append(out, object{"DELETE": "/threads/" + id})
			}
			return out
		}},
		"threads with a run under way": {workers: 100, more: func(h *house, id string) {
			run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
			h.until("it is under way", func() bool { return h.ok("GET", "/threads/"+id+"/runs/"+run, nil).text1("status") == "running" })
		}, clear: func(_ *house, threads []string) (out []object) {
			for _, id := range threads {
				out = append(out, object{"DELETE": "/threads/" + id})
			}
			return out
		}},
		"threads, pruned": {workers: -1, clear: func(_ *house, threads []string) []object {
			return []object{{"POST": "/threads/prune", "body": object{"thread_ids": threads, "strategy": "delete"}}}
		}},
		"histories, pruned": {workers: -1, more: func(h *house, id string) {
			h.ok("POST", "/threads/"+id+"/state", object{"values": object{"text": "small"}, "as_node": "b"})
		}, clear: func(_ *house, threads []string) []object {
			return []object{{"POST": "/threads/prune", "body": object{"thread_ids": threads, "strategy": "keep_latest"}}}
		}},
		"items": {workers: -1, clear: nil},
	}
	if race.Enabled { // what the others write takes minutes under it
		cases = map[string]deletion{"items": cases["items"], "threads with a run under way": cases["threads with a run under way"]}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{Capacity: 56 << 20})
			o := disk.Options{NoPatches: true, FlushBytes: 4 << 20, DiskReserve: 24 << 20}
			h := openOn(t, "store", o.In(disk.Simulation{FS: mem}), func(cfg *server.Config) { cfg.Workers = c.workers })
			var threads []string
			var requests []object
			put := func() int {
				if c.clear == nil {
					key := base64.RawURLEncoding.EncodeToString([]byte{byte(len(requests))})
					a := h.do("PUT", "/store/items", object{"namespace": []string{"a"}, "key": key, "value": object{"text": big()}})
					if a.status/100 == 2 {
						requests = append(requests, object{"DELETE": "/store/items", "body": object{"namespace": []string{"a"}, "key": key}})
					}
					return a.status
				}
				a := h.do("POST", "/threads", object{"metadata": object{"graph_id": "simple"}})
				if a.status/100 == 2 {
					id := a.text1("thread_id")
					if a = h.do("POST", "/threads/"+id+"/state", object{"values": object{"text": big()}, "as_node": "b"}); a.status/100 == 2 && c.more != nil && len(threads) < 8 {
						c.more(h, id)
					}
					threads = append(threads, id)
				}
				return a.status
			}
			for n := 0; ; n++ {
				status := put()
				if status == 507 {
					break
				}
				if status/100 != 2 || n == 100 {
					t.Fatalf("put %d: %d", n, status)
				}
			}
			if c.clear != nil {
				requests = c.clear(h, threads)
			}
			for _, r := range requests {
				for _, method := range []string{"DELETE", "POST"} {
					if path, ok := r[method].(string); ok {
						h.until(method+" "+path, func() bool { // while space comes back it may be refused
							a := h.do(method, path, r["body"])
							if a.status/100 != 2 && a.status != 507 {
								t.Fatalf("%s %s: %d %s", method, path, a.status, a.text)
							}
							return a.status != 507
						})
					}
				}
			}
			h.until("there is room", func() bool { return put()/100 == 2 })
		})
	}
}

// TestFullDiskKeepsRuns: a run that cannot be stored, as the disk is full, cancels no other run of its thread and
// rolls nothing back.
func TestFullDiskKeepsRuns(t *testing.T) {
	strategies := []string{"rollback", "interrupt"}
	if race.Enabled {
		strategies = strategies[:1]
	}
	for _, strategy := range strategies {
		t.Run(strategy, func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{})
			o := disk.Options{DiskReserve: 64 << 20}
			h := openOn(t, "store", o.In(disk.Simulation{FS: mem}), func(cfg *server.Config) { cfg.Workers = 100 })
			thread := h.ok("POST", "/threads", object{"metadata": object{"graph_id": "simple"}}).text1("thread_id")
			h.ok("POST", "/threads/"+thread+"/state", object{"values": object{"text": "kept"}, "as_node": "b"})
			at := "/threads/" + thread + "/runs"
			run := h.ok("POST", at, object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
			h.until("it is under way", func() bool { return h.ok("GET", at+"/"+run, nil).text1("status") == "running" })
			mem.SetCapacity(o.DiskReserve / 2) // whatever a flush frees, it stays full
			defer mem.SetCapacity(0)           // so that the server can close what runs
			for n := 0; ; n++ {                // free space is not looked at for each commit
				a := h.do("PUT", "/store/items", object{"namespace": []string{"a"}, "key": strconv.Itoa(n), "value": object{"text": strings.Repeat("x", 1<<16)}})
				if a.status == 507 {
					break
				}
				if a.status/100 != 2 || n == 1000 {
					t.Fatalf("put %d: %d", n, a.status)
				}
			}
			a := h.do("POST", at, object{"assistant_id": "slow", "input": object{"text": "y"}, "multitask_strategy": strategy})
			if a.status != 507 {
				t.Fatalf("%d %s, want 507", a.status, a.text)
			}
			if status := h.ok("GET", at+"/"+run, nil).text1("status"); status != "running" {
				t.Errorf("the run is %s, want running", status)
			}
			if list := h.do("GET", at, nil); list.status != 200 || strings.Count(list.text, `"multitask_strategy"`) != 1 {
				t.Errorf("%d %s, want one run", list.status, list.text)
			}
		})
	}
}
