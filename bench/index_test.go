package bench

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// BenchmarkIndexMemory says what a realistic checkpoint, and the write beside it, take in the
// index, and what a collection takes of the processor for them: as puts left them, and as they
// were read from disk.
func BenchmarkIndexMemory(b *testing.B) {
	const threads, steps = 2_000, 50
	fleet := NewFleet(31, threads, steps)
	ctx := context.Background()
	opts := disk.Options{Sync: disk.SyncNever, MemoryBudget: 1 << 30, CacheBytes: -1}
	for range b.N {
		dir := b.TempDir()
		before := heapNow()
		s := openStore(b, dir, opts)
		cpu := startCPU()
		for i := range threads * steps {
			t, n := i%threads, i/threads
			st := fleet.Step(t, n)
			cfg, err := put(s, saver.Config{ThreadID: fleet.Thread(t), CheckpointID: fleet.ID(t, n-1)}, &st)
			must(b, err)
			must(b, putWrites(s, cfg, &st, 0))
		}
		must(b, s.Flush(ctx))
		cpu.report(b, threads*steps)
		heapNow().minus(before).report(b, "put", threads*steps)
		must(b, s.Close())
		before = heapNow()
		s = openStore(b, dir, opts)
		for t := range threads {
			_, err := s.GetTuple(ctx, saver.Config{ThreadID: fleet.Thread(t)})
			must(b, err)
		}
		heapNow().minus(before).report(b, "loaded", threads*steps)
		must(b, s.Close())
	}
}

// heapState is what lives on the heap, and what the collector took of the processor to mark it.
type heapState struct{ bytes, objects, scanned, markNS float64 }

// heapNow is the heap after collections that emptied the pools.
func heapNow() heapState {
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/objects:objects"}, {Name: "/gc/scan/heap:bytes"}}
	metrics.Read(s)
	const times = 5
	begin := cpuTime()
	for range times {
		runtime.GC()
	}
	return heapState{float64(s[0].Value.Uint64()), float64(s[1].Value.Uint64()), float64(s[2].Value.Uint64()), float64((cpuTime() - begin).Nanoseconds()) / times}
}

func (h heapState) minus(o heapState) heapState {
	return heapState{h.bytes - o.bytes, h.objects - o.objects, h.scanned - o.scanned, h.markNS - o.markNS}
}

func (h heapState) report(b *testing.B, what string, n int) {
	b.ReportMetric(h.bytes/float64(n), what+"-B/checkpoint")
	b.ReportMetric(h.objects/float64(n), what+"-objects/checkpoint")
	b.ReportMetric(h.scanned/float64(n), what+"-scanned-B/checkpoint")
	b.ReportMetric(h.markNS/float64(n), what+"-mark-ns/checkpoint")
}
