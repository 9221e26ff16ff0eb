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
		steps func() manySource
	}{{"durable", disk.SyncAlways, shared(manySteps)}, {"durable-raw", disk.SyncAlways, shared(manyRawSteps)}, {"relaxed-raw", disk.SyncNever, shared(manyRawSteps)},
		{"realistic-durable", disk.SyncAlways, manyFleet}, {"realistic-relaxed", disk.SyncNever, manyFleet}} {
		b.Run(w.name, func(b *testing.B) { benchMany(b, w.mode, w.steps()) })
	}
}

// manySource gives the name of a writer's k-th thread, and its n-th step.
type manySource struct {
	thread func(writer, k int) string
	step   func(writer, k, n int) Step
}

// shared are the same steps for all threads.
func shared(steps func() []Step) func() manySource {
	return func() manySource {
		all := steps()
		return manySource{func(w, k int) string { return fmt.Sprintf("many-%03d-%06d", w, k) }, func(_, _, n int) Step { return all[n] }}
	}
}

// manyFleet is realistic data.
func manyFleet() manySource {
	f := NewFleet(21, sizes.writers, sizes.manySteps)
	return manySource{func(w, k int) string { return f.Thread(k*sizes.writers + w) }, func(w, k, n int) Step { return f.Step(k*sizes.writers+w, n) }}
}

func benchMany(b *testing.B, mode disk.SyncMode, steps manySource) {
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
		k, n := w.n/sizes.manySteps, w.n%sizes.manySteps
		if n == 0 {
			w.cfg = saver.Config{ThreadID: steps.thread(g, k)}
		}
		st := steps.step(g, k, n)
		w.n++
		start := time.Now()
		cfg, err := put(s, w.cfg, &st)
		if err != nil {
			return err
		}
		w.puts.since(start)
		w.cfg = cfg
		return putWrites(s, cfg, &st, 0)
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
