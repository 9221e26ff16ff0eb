//go:build unix

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
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
	"github.com/stele-go/stele/store"
)

// large is a server on a store of many threads with a state and a run that has ended.
type large struct {
	b     *testing.B
	api   *server.Server
	disk  *disk.Saver
	items *store.Local
	queue *runs.Local
	ids   []string
}

func (l *large) none(err error) {
	l.b.Helper()
	if err != nil {
		l.b.Fatal(err)
	}
}

func newLarge(b *testing.B, n int) *large {
	b.Helper()
	l := &large{b: b, disk: must(disk.Open(b.TempDir(), disk.Options{Sync: disk.SyncNever}))}
	l.items = must(store.On(l.disk, store.Options{}))
	l.queue = must(runs.NewLocal(b.Context(), l.items, runs.LocalOptions{}))
	l.api = must(server.New(server.Config{Saver: l.disk, Store: l.items, Queue: l.queue, Auth: server.NoAuth(), Workers: -1, Logger: logTo(io.Discard)}))
	for i := range n {
		var made struct {
			ID string `json:"thread_id"`
		}
		l.none(json.Unmarshal(l.ask("POST", "/threads", object{"metadata": object{"graph_id": "g", "old": i < n/100, "user": fmt.Sprint(i % 1000)}}), &made))
		l.ids = append(l.ids, made.ID)
		v := map[string]saver.Version{"a": saver.IntVersion(1)}
		cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i), Versions: v, Values: map[string]saver.Value{"a": saver.ValueOf(i)}}
		_, err := l.disk.Put(b.Context(), saver.Config{ThreadID: made.ID}, cp, saver.Metadata{"step": int64(0)}, v)
		l.none(err)
		_, err = l.queue.Submit(b.Context(), runs.Request{Spec: runs.Spec{Graph: "g", ThreadID: made.ID}})
		l.none(err)
		c, _, err := l.queue.Claim(b.Context(), "w", []string{"g"})
		l.none(err)
		l.none(l.queue.Finish(b.Context(), *c, runs.Outcome{Status: runs.Success}))
		l.none(l.items.Put(b.Context(), store.Namespace{"users", fmt.Sprint(i % 1000)}, made.ID, object{"n": i}))
	}
	for !server.HasIndex(l.api) {
		time.Sleep(time.Millisecond)
	}
	return l
}

func (l *large) close() {
	l.none(errors.Join(l.api.Close(), l.items.Close(), l.disk.Close()))
}

func (l *large) ask(method, path string, in any) []byte {
	l.b.Helper()
	text, err := json.Marshal(in)
	l.none(err)
	r := httptest.NewRequestWithContext(l.b.Context(), method, path, bytes.NewReader(text))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	l.api.ServeHTTP(w, r)
	if w.Code >= 300 {
		l.b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// growthRows are requests, and what is wanted: at most so many milliseconds of CPU at the largest size,
// or CPU that grows at most with so high a power of the number of threads.
var growthRows = []struct {
	name, method, path string
	body               any
	ms, pow            float64
}{
	{"newest", "POST", "/threads/search", object{"limit": 10}, 2, 0},
	{"oldest by metadata", "POST", "/threads/search", object{"limit": 10, "metadata": object{"old": true}}, 20, 0},
	{"count", "POST", "/threads/count", object{}, 2, 0},
	{"count by metadata", "POST", "/threads/count", object{"metadata": object{"user": "7"}}, 2, 0},
	{"status", "POST", "/threads/search", object{"limit": 10, "status": "idle"}, 0, 1.1},
	{"Studio's list", "POST", "/threads/search", object{"limit": 50, "sort_by": "updated_at", "sort_order": "desc", "stele_status": "any", "stele_values": "about"}, 20, 0},
	{"Studio's list by status", "POST", "/threads/search", object{"limit": 50, "sort_by": "updated_at", "stele_status": "waiting", "stele_values": "about"}, 0, 1.1},
	{"Studio's count of what waits", "POST", "/threads/count", object{"stele_status": "waiting"}, 20, 0},
	{"Studio's runs", "GET", "/stele/runs", nil, 20, 0},
	{"Studio's runs by status", "GET", "/stele/runs?status=success", nil, 20, 0},
	{"Studio's health", "GET", "/stele/health", nil, 2, 0},
	{"namespaces", "POST", "/store/namespaces", object{"limit": 100}, 20, 0},
	{"items", "POST", "/store/items/search", object{"namespace_prefix": []string{"users", "7"}, "limit": 10}, 20, 0},
	{"crons", "POST", "/runs/crons/search", object{"limit": 10}, 2, 0},
	{"assistants", "POST", "/assistants/search", object{"limit": 10}, 2, 0},
	{"thread", "GET", "/threads/ID", nil, 2, 0},
	{"state", "GET", "/threads/ID/state", nil, 2, 0},
	{"runs of a thread", "GET", "/threads/ID/runs", nil, 2, 0},
	{"new thread", "POST", "/threads", object{}, 2, 0},
}

// BenchmarkGrowth measures each request of a client, and of Studio, on a server with a tenth of BENCH_GROWTH
// threads and with all, 10,000 unless it is set, and says whether what is wanted was met.
func BenchmarkGrowth(b *testing.B) {
	most, err := strconv.Atoi(os.Getenv("BENCH_GROWTH"))
	if err != nil {
		most = 10_000
	}
	took := map[string][2]float64{}
	for i, n := range []int{most / 10, most} {
		l := newLarge(b, n)
		for _, row := range growthRows {
			path := row.path
			if before, after, ok := bytes.Cut([]byte(path), []byte("ID")); ok {
				path = string(before) + l.ids[n/2] + string(after)
			}
			var times []float64
			for range 5 {
				start := cpuTime(b)
				l.ask(row.method, path, row.body)
				times = append(times, (cpuTime(b)-start).Seconds()*1e3)
			}
			slices.Sort(times)
			both := took[row.name]
			both[i] = times[2]
			took[row.name] = both
		}
		l.close()
	}
	for _, row := range growthRows {
		t := took[row.name]
		power := math.Log10(t[1] / t[0])
		met, wanted := row.ms > 0 && t[1] <= row.ms, fmt.Sprintf("at most %g ms", row.ms)
		if row.pow > 0 {
			met, wanted = power <= row.pow, fmt.Sprintf("at most with power %g", row.pow)
		}
		fmt.Printf("%s: %.3g ms with %d threads, %.3g ms with %d: wanted %s: %s\n", row.name, t[0], most/10, t[1], most, wanted, map[bool]string{true: "met", false: "missed"}[met])
	}
}

// cpuTime is the processor time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRunsMemory measures what a server takes when BENCH_RUNS runs, 2,000 unless it is set, have ended, each on a thread of its own,
// by 16 clients at a time: its live heap, wanted at most 5 KiB a run and 8 MiB, and the most that the process had resident meanwhile.
func BenchmarkRunsMemory(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("BENCH_RUNS"))
	if err != nil {
		n = 2_000
	}
	l := &large{b: b, disk: must(disk.Open(b.TempDir(), disk.Options{Sync: disk.SyncNever}))}
	l.items = must(store.On(l.disk, store.Options{}))
	l.queue = must(runs.NewLocal(b.Context(), l.items, runs.LocalOptions{}))
	g := must(builder().Node("n", func(context.Context, any) (any, error) { return object{"log": []string{"n"}}, nil }).
		Sequence(graph.Start, "n", graph.End).Compile(graph.Options{Saver: l.disk, Store: l.items}))
	l.api = must(server.New(server.Config{Graphs: map[string]*pregel.Graph{"g": g}, Saver: l.disk, Store: l.items, Queue: l.queue, Auth: server.NoAuth(), Logger: logTo(io.Discard)}))
	defer l.close()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins here, where the system can
	var begun atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for begun.Add(1) <= int64(n) { // one that fails ends, and holds up nobody
				var made struct {
					ID string `json:"thread_id"`
				}
				l.none(json.Unmarshal(l.ask("POST", "/threads", object{}), &made))
				l.ask("POST", "/threads/"+made.ID+"/runs/wait", object{"assistant_id": "g", "input": object{"text": "x"}})
			}
		})
	}
	clients.Wait()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	live, wanted := float64(m.HeapAlloc)/(1<<20), 8+float64(n)*5/1024
	b.Logf("%d runs: live heap %.0f MiB, resident at most %.0f MiB: wanted at most %.0f MiB live: %s", n, live, peakRSS(), wanted, map[bool]string{true: "met", false: "missed"}[live <= wanted])
}

// peakRSS is the most memory the process has had resident so far, in MiB; 0 if the system does not say.
func peakRSS() float64 {
	text, _ := os.ReadFile("/proc/self/status") // there is none elsewhere
	var kb float64
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	_, _ = fmt.Sscanf(string(rest), "%f", &kb)
	return kb / 1024
}
