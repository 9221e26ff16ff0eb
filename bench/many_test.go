package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// manySteps are the steps of one writer; all writers store the same ones, each
// in threads of its own. Nothing is shared between threads.
var (
	manySteps    = sync.OnceValue(func() []Step { return NewData(8).Small(sizes.manySteps, 2048) })
	manyRawSteps = sync.OnceValue(func() []Step { return typedSteps(NewData(8).Small(sizes.manySteps, 2048)) })
)

// BenchmarkW2 is many writers. An op is one step of one of them, which is two
// commits.
func BenchmarkW2(b *testing.B) {
	for _, w := range []struct {
		name  string
		mode  disk.SyncMode
		steps func() []Step
	}{{"durable", disk.SyncAlways, manySteps}, {"durable-raw", disk.SyncAlways, manyRawSteps}, {"relaxed-raw", disk.SyncNever, manyRawSteps}} {
		b.Run(w.name, func(b *testing.B) { benchMany(b, w.mode, w.steps()) })
	}
}

func benchMany(b *testing.B, mode disk.SyncMode, steps []Step) {
	dir := b.TempDir()
	s := openStore(b, dir, disk.Options{Sync: mode})
	type writer struct {
		n    int
		cfg  saver.Config
		puts latencies
		_    [64]byte // a cache line apart
	}
	writers := make([]writer, sizes.writers)
	b.ReportAllocs()
	cpu := startCPU()
	inParallel(b, sizes.writers, func(g int) error {
		w := &writers[g]
		st := &steps[w.n%len(steps)]
		if w.n%len(steps) == 0 {
			w.cfg = saver.Config{ThreadID: fmt.Sprintf("many-%03d-%06d", g, w.n/len(steps))}
		}
		w.n++
		start := time.Now()
		cfg, err := put(s, w.cfg, st)
		if err != nil {
			return err
		}
		w.puts.since(start)
		w.cfg = cfg
		return putWrites(s, cfg, st, 0)
	})
	cpu.report(b, b.N)
	var puts latencies
	for i := range writers {
		puts = append(puts, writers[i].puts...)
	}
	m := s.Metrics()
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(m.Log.Syncs)/float64(b.N), "fsyncs/step")
	puts.report(b, "put")
	reportDisk(b, s, dir, b.N)
}
