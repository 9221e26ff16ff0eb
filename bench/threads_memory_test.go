package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

const (
	memoryChild  = "BENCH_MEMORY_CHILD"
	memoryBudget = 256 << 20
)

// threadsMemory is what a process found that made a store of many threads of two checkpoints.
type threadsMemory struct {
	PutFirst, PutLast                 float64 // µs of CPU, of the first and of the last tenth
	HeapPut, HeapList, HeapCompact    float64 // live after a collection, MiB
	PeakPut, PeakThreads, PeakCompact float64 // most resident so far, MiB
	PeakList                          float64
	ListFirst, List, CompactCPU, Wall float64 // ms of CPU, but for Wall: s of Compact
}

// BenchmarkThreadsMemory says whether the memory of a process with BENCH_MEMORY_THREADS threads,
// 100,000 unless it is set, is what the budget and the threads account for. The process has a GOMEMLIMIT
// of 1.4 times that, since Go's collector lets a heap double otherwise, unless one is set: off is none.
func BenchmarkThreadsMemory(b *testing.B) {
	n := size("BENCH_MEMORY_THREADS", 100_000)
	const mib = 1 << 20
	live := (memoryBudget + float64(n*(150+len(thread(0))))) / mib
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryChild$")
	cmd.Env = append([]string{fmt.Sprintf("GOMEMLIMIT=%dMiB", int(1.4*live))}, os.Environ()...)
	cmd.Env = append(cmd.Env, memoryChild+"="+filepath.Join(b.TempDir(), "store"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(b, err)
	var m threadsMemory
	must(b, json.NewDecoder(bytes.NewReader(out)).Decode(&m))
	for _, row := range []struct {
		what         string
		is, at, most float64
		unit         string
	}{
		{"live heap after the puts", m.HeapPut, 0, live, "MiB"},
		{"live heap after listings of threads", m.HeapList, 0, live, "MiB"},
		{"live heap after Compact", m.HeapCompact, 0, live, "MiB"},
		{"resident at most while putting", m.PeakPut, 0, 1.5 * live, "MiB"},
		{"resident at most with listings of threads", m.PeakThreads, 0, 1.5 * live, "MiB"},
		{"resident at most with Compact", m.PeakCompact, 0, 1.5 * live, "MiB"},
		{"resident at most with a listing of all checkpoints", m.PeakList, 0, 1.5 * live, "MiB"},
		{"CPU of a put of the last tenth", m.PutLast, m.PutFirst, 1.5 * m.PutFirst, "µs"},
		{"CPU of the first listing of 100 after Open", m.ListFirst, 0, 10, "ms"},
		{"CPU of the next", m.List, 0, 10, "ms"},
		{"CPU of Compact", m.CompactCPU, 0, 100_000 * max(float64(n)/1e6, 0.01), "ms"},
	} {
		met := "met"
		if row.is > row.most {
			met = "missed"
		}
		fmt.Printf("%d threads: %s: %.4g %s: wanted at most %.4g: %s\n", n, row.what, row.is, row.unit, row.most, met)
	}
	b.ReportMetric(m.HeapPut, "heap-MiB")
	b.ReportMetric(m.PeakCompact, "peak-MiB")
	b.ReportMetric(m.PutLast, "cpu-µs/put")
	b.ReportMetric(0, "ns/op")
}

// TestMemoryChild is the process of BenchmarkThreadsMemory; by itself it does nothing.
func TestMemoryChild(t *testing.T) {
	dir := os.Getenv(memoryChild)
	if dir == "" {
		return
	}
	n := size("BENCH_MEMORY_THREADS", 100_000)
	g := &grown{disk: openStore(t, dir, disk.Options{Sync: disk.SyncNever, MemoryBudget: memoryBudget})}
	var m threadsMemory
	live := func() float64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc) / (1 << 20)
	}
	ms := func(do func() error) float64 {
		start := cpuTime()
		must(t, do())
		return (cpuTime() - start).Seconds() * 1e3
	}
	for tenth := range 10 {
		took := ms(func() error {
			for i := tenth * 2 * n / 10; i < (tenth+1)*2*n/10; i++ {
				if err := g.put(thread(i/2), i); err != nil {
					return err
				}
			}
			return nil
		})
		if m.PutLast = took * 1e3 / float64(2*n/10); tenth == 0 {
			m.PutFirst = m.PutLast
		}
	}
	m.HeapPut, m.PeakPut = live(), peakRSS()
	list := func() error { return consume(g.disk.List(t.Context(), saver.Query{Limit: 100})) }
	must(t, g.disk.Close())
	g.disk = openStore(t, dir, disk.Options{Sync: disk.SyncNever, MemoryBudget: memoryBudget})
	m.ListFirst, m.List = ms(list), ms(list)
	must(t, consume(g.disk.Threads(t.Context(), saver.ThreadQuery{})))
	m.HeapList, m.PeakThreads = live(), peakRSS()
	start := time.Now()
	m.CompactCPU = ms(func() error { return g.disk.Compact(t.Context()) })
	m.Wall = time.Since(start).Seconds()
	m.HeapCompact, m.PeakCompact = live(), peakRSS()
	must(t, consume(g.disk.List(t.Context(), saver.Query{})))
	m.PeakList = peakRSS()
	must(t, g.disk.Close())
	out, err := json.Marshal(m)
	must(t, err)
	fmt.Println(string(out))
}
