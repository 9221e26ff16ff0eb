package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func manyThread(n int) string { return fmt.Sprintf("open-%06d", n) }

// fillMany makes the store of W5: many checkpoints in many threads, in turn.
func fillMany(b testing.TB, dir string) {
	each := sizes.openCheckpoints / sizes.openThreads
	steps := typedSteps(NewData(12).Small(each, 700))
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	cfgs := make([]saver.Config, sizes.openThreads)
	for i := range steps {
		for t := range cfgs {
			if i == 0 {
				cfgs[t] = saver.Config{ThreadID: manyThread(t)}
			}
			var err error
			cfgs[t], err = put(s, cfgs[t], &steps[i])
			must(b, err)
		}
	}
	must(b, s.Close())
}

// BenchmarkOpenEmpty opens a store that holds one checkpoint.
func BenchmarkOpenEmpty(b *testing.B) {
	dir := b.TempDir()
	s := openStore(b, dir, disk.Options{})
	_, err := put(s, saver.Config{ThreadID: "t"}, &manyRawSteps()[0])
	must(b, err)
	must(b, s.Close())
	b.ReportAllocs()
	for b.Loop() {
		s := openStore(b, dir, disk.Options{})
		must(b, s.Close())
	}
}

// BenchmarkW5 opens the store and reads the latest tuple of one thread: from
// calling Open to the first answer.
func BenchmarkW5(b *testing.B) {
	b.Run("after-close", func(b *testing.B) {
		dir := stores.many(b)
		benchOpen(b, func() string { return dir })
	})
	b.Run("after-kill", func(b *testing.B) {
		killed := filepath.Join(b.TempDir(), "killed")
		makeKilled(b, stores.many(b), killed)
		fresh := filepath.Join(b.TempDir(), "fresh")
		benchOpen(b, func() string {
			must(b, os.RemoveAll(fresh))
			copyStore(b, killed, fresh)
			return fresh
		})
	})
}

// makeKilled copies a store, puts some more, and copies it as a kill would leave
// it.
func makeKilled(b testing.TB, from, to string) {
	b.Helper()
	live := to + "-live"
	copyStore(b, from, live)
	s := openStore(b, live, disk.Options{Sync: disk.SyncNever})
	each := sizes.openCheckpoints / sizes.openThreads
	steps := typedSteps(NewData(13).Small(each+1+sizes.killedPuts/sizes.openThreads, 700))
	for i := range sizes.killedPuts {
		n := each + i/sizes.openThreads
		_, err := put(s, saver.Config{ThreadID: manyThread(i % sizes.openThreads), CheckpointID: CheckpointID(n - 1)}, &steps[n])
		must(b, err)
	}
	copyStore(b, live, to)
	must(b, s.Close())
	must(b, os.RemoveAll(live))
}

func benchOpen(b *testing.B, next func() string) {
	b.ReportAllocs()
	var heap int64
	replayed := 0
	var spent cpuSum
	for b.Loop() {
		b.StopTimer()
		dir := next()
		before := heapInUse()
		cpu := startCPU()
		b.StartTimer()
		s := openStore(b, dir, disk.Options{})
		readRaw(b, s, saver.Config{ThreadID: manyThread(sizes.openThreads / 2)})
		b.StopTimer()
		spent.since(cpu)
		heap, replayed = max(heap, heapInUse()-before), s.OpenReport().Replayed
		must(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ready-ms")
	spent.report(b, b.N)
	b.ReportMetric(float64(heap)/(1<<20), "heap-MB")
	b.ReportMetric(float64(replayed), "replayed")
}
