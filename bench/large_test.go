package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var long = flag.Bool("long", false, "run BenchmarkLarge on 10,000,000 checkpoints in 100,000 threads: minutes, and about 8 GB of disk")

// largeSizes are those of BenchmarkLarge: a run of a thread is burst steps, and
// threads take turns.
func largeSizes() (checkpoints, threads, burst int) {
	if *long {
		checkpoints, threads = 10_000_000, 100_000
	} else {
		checkpoints, threads = 20_000, 1_000
	}
	return size("BENCH_LARGE_CHECKPOINTS", checkpoints), size("BENCH_LARGE_THREADS", threads), 10
}

// largeChild names what a process of this test binary does with a large store, and
// largeDir the store: memory is that of a process that does nothing else.
const (
	largeChild = "BENCH_LARGE_CHILD"
	largeDir   = "BENCH_LARGE_DIR"
)

// largeOpen is what a process found that opened a large store and read one tuple.
type largeOpen struct {
	OpenMs, ReadyMs, HeapMB, PeakMB float64
	Replayed                        int
}

// BenchmarkLarge opens a store of many checkpoints in many threads in a process of
// its own, after a clean close and after a kill, and reads one tuple. With
// BENCH_LARGE_DIR the store is kept there: a run that finds it takes it as it is,
// or goes on filling it.
func BenchmarkLarge(b *testing.B) {
	dir := os.Getenv(largeDir)
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "store")
	}
	start := time.Now()
	puts := fillLarge(b, dir)
	b.Logf("%d puts in %v, %d bytes on disk", puts, time.Since(start).Round(time.Second), diskBytes(b, dir))
	for _, end := range []string{"close", "kill"} {
		b.Run("after-"+end, func(b *testing.B) { benchLarge(b, dir, end) })
	}
}

func benchLarge(b *testing.B, dir, end string) {
	var ready []float64
	var last largeOpen
	for b.Loop() {
		runLarge(b, dir, "put-and-"+end)
		out := runLarge(b, dir, "open")
		must(b, json.Unmarshal(out, &last))
		ready = append(ready, last.ReadyMs)
	}
	slices.Sort(ready)
	b.ReportMetric(ready[len(ready)/2], "ready-ms")
	b.ReportMetric(last.HeapMB, "heap-MB")
	b.ReportMetric(last.PeakMB, "peak-MB")
	b.ReportMetric(float64(last.Replayed), "replayed")
	b.ReportMetric(0, "ns/op") // of processes that also write
}

// runLarge lets a process work on the store, and returns what it printed.
func runLarge(b *testing.B, dir, work string) []byte {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLargeChild$", fmt.Sprintf("-long=%v", *long))
	cmd.Env = append(os.Environ(), largeChild+"="+work, largeDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if work != "put-and-kill" {
		must(b, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return []byte(line)
}

// TestLargeChild is the process of BenchmarkLarge; by itself it does nothing.
func TestLargeChild(t *testing.T) {
	dir := os.Getenv(largeDir)
	switch os.Getenv(largeChild) {
	case "open":
		openLarge(t, dir)
	case "put-and-close":
		must(t, putLarge(t, dir).Close())
	case "put-and-kill":
		putLarge(t, dir)
		p, err := os.FindProcess(os.Getpid())
		must(t, err)
		must(t, p.Kill())
		select {}
	}
}

func openLarge(t *testing.T, dir string) {
	before := heapInUse()
	start := time.Now()
	s := openStore(t, dir, disk.Options{})
	opened := time.Since(start)
	_, threads, _ := largeSizes()
	readRaw(t, s, saver.Config{ThreadID: manyThread(threads / 2)})
	found := largeOpen{OpenMs: opened.Seconds() * 1e3, ReadyMs: time.Since(start).Seconds() * 1e3, Replayed: s.OpenReport().Replayed}
	found.PeakMB = peakRSS()
	found.HeapMB = float64(heapInUse()-before) / (1 << 20)
	must(t, s.Close())
	out, err := json.Marshal(found)
	must(t, err)
	fmt.Println(string(out))
	runtime.KeepAlive(s)
}

// putLarge puts some more, as many as W5 does before a kill, in as many threads.
func putLarge(t *testing.T, dir string) *disk.Saver {
	s := openStore(t, dir, disk.Options{Sync: disk.SyncNever})
	_, threads, _ := largeSizes()
	steps := typedSteps(NewData(14).Small(1, 100))
	run := int(time.Now().UnixNano())
	for i := range sizes.killedPuts {
		st := steps[0]
		st.Checkpoint.ID = fmt.Sprintf("2%019d-%06d", run, i)
		_, err := put(s, saver.Config{ThreadID: manyThread((run + i) % threads)}, &st)
		must(t, err)
	}
	return s
}

// fillLarge makes the store, or what is missing of it, and returns how many puts
// that took.
func fillLarge(b *testing.B, dir string) (puts int) {
	checkpoints, threads, burst := largeSizes()
	each := checkpoints / threads
	steps := typedSteps(NewData(12).Small(each, 100))
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	for from := 0; from < each; from += burst {
		to := min(from+burst, each)
		if _, err := s.GetTuple(b.Context(), saver.Config{ThreadID: manyThread(threads - 1), CheckpointID: CheckpointID(to - 1)}); err == nil {
			continue // an earlier run came further
		}
		for t := range threads {
			cfg := saver.Config{ThreadID: manyThread(t)}
			if from > 0 {
				cfg.CheckpointID = CheckpointID(from - 1)
			}
			for i := from; i < to; i++ {
				var err error
				cfg, err = put(s, cfg, &steps[i])
				must(b, err)
				puts++
			}
		}
	}
	must(b, s.Close())
	return puts
}
