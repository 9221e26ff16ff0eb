package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// stores are filled once and shared by the benchmarks that only read.
var stores = struct {
	dir      string // removed by TestMain
	wide     func(b testing.TB) string
	compact  func(b testing.TB) string
	history  func(b testing.TB) string
	historyC func(b testing.TB) string
	many     func(b testing.TB) string
}{}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stele-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// A program that keeps agents has a heap; in an empty one the collector would
	// run all the time, and be most of what is measured.
	ballast := make([]byte, 64<<20)
	if os.Getenv(memoryChild) != "" {
		ballast = nil // its heap is what is measured
	}
	stores.dir = dir
	stores.wide = once("wide", fillWide)
	stores.compact = once("wide-compacted", func(b testing.TB, dir string) { copyStore(b, stores.wide(b), dir); compact(b, dir) })
	stores.history = once("history", fillHistory)
	stores.historyC = once("history-compacted", func(b testing.TB, dir string) { copyStore(b, stores.history(b), dir); compact(b, dir) })
	stores.many = once("many", fillMany)
	code := m.Run()
	runtime.KeepAlive(ballast)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// once makes the store called name at its first use.
func once(name string, fill func(b testing.TB, dir string)) func(b testing.TB) string {
	var mu sync.Mutex
	made := ""
	return func(b testing.TB) string {
		b.Helper()
		mu.Lock()
		defer mu.Unlock()
		if made == "" {
			dir := filepath.Join(stores.dir, name)
			fill(b, dir)
			made = dir
		}
		return made
	}
}

func wideThread(n int) string { return fmt.Sprintf("wide-%06d", n) }

// fillWide makes the threads of W3. The state of 50 of them is made, and given to
// all in turn.
func fillWide(b testing.TB, dir string) {
	d := NewData(9)
	steps := make([]Step, 50)
	for i := range steps {
		steps[i] = d.Wide().Typed()
	}
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	for i := range sizes.threads {
		_, err := put(s, saver.Config{ThreadID: wideThread(i)}, &steps[i%len(steps)])
		must(b, err)
	}
	must(b, s.Close())
}

// BenchmarkW3 reads the latest tuple of random threads, all its values. Cold
// means that stele has just opened the store and reads each thread for the first
// time; the kernel's page cache is warm all the same.
func BenchmarkW3(b *testing.B) {
	for _, form := range []struct {
		name string
		dir  func(b testing.TB) string
	}{{"written", stores.wide}, {"compacted", stores.compact}} {
		for _, cache := range []string{"cold", "warm"} {
			for _, decode := range []string{"raw", "decoded"} {
				b.Run(form.name+"/"+cache+"/"+decode, func(b *testing.B) {
					benchLatest(b, form.dir(b), cache == "cold", decode == "decoded")
				})
			}
		}
	}
}

func benchLatest(b *testing.B, dir string, cold, decode bool) {
	before := heapInUse()
	s := openStore(b, dir, disk.Options{})
	order := NewData(10).r.Perm(sizes.threads)
	read := func(i int) {
		cfg := saver.Config{ThreadID: wideThread(order[i%len(order)])}
		if decode {
			readDecoded(b, s, cfg)
		} else {
			readRaw(b, s, cfg)
		}
	}
	if !cold {
		for i := range order {
			read(i)
		}
	}
	var gets latencies
	b.ReportAllocs()
	i, cpu := 0, startCPU()
	for ; b.Loop(); i++ {
		if cold && i > 0 && i%len(order) == 0 {
			b.StopTimer()
			must(b, s.Close())
			s = openStore(b, dir, disk.Options{})
			b.StartTimer()
		}
		start := time.Now()
		read(i)
		gets.since(start)
	}
	b.StopTimer()
	cpu.report(b, i)
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "gets/s")
	gets.report(b, "get")
	if !cold {
		b.ReportMetric(float64(heapInUse()-before)/(1<<20), "heap-MB")
	}
	must(b, s.Close())
}

// heapInUse is what lives on the heap after collections that emptied the pools.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
