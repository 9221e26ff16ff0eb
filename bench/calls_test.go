package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// modes are the two ends: durable on return, and left to the kernel.
var modes = []disk.SyncMode{disk.SyncAlways, disk.SyncNever}

// BenchmarkPut puts checkpoints of 2 KB, each upon the last, one caller. A thread
// has 100 of them.
func BenchmarkPut(b *testing.B) {
	for _, mode := range modes {
		b.Run("sync="+mode.String(), func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, dir, disk.Options{Sync: mode})
			steps := typedSteps(NewData(1).Small(100, 2048))
			b.ReportAllocs()
			cpu := startCPU()
			var cfg saver.Config
			for i := 0; b.Loop(); i++ {
				if i%len(steps) == 0 {
					cfg = saver.Config{ThreadID: fmt.Sprintf("thread-%06d", i/len(steps))}
				}
				var err error
				cfg, err = put(s, cfg, &steps[i%len(steps)])
				must(b, err)
			}
			cpu.report(b, b.N)
			reportSyncs(b, s, b.N)
			must(b, s.Close())
		})
	}
}

// BenchmarkPutWrites stores one task's write of 700 bytes, ten to a checkpoint,
// which is not there yet.
func BenchmarkPutWrites(b *testing.B) {
	for _, mode := range modes {
		b.Run("sync="+mode.String(), func(b *testing.B) {
			s := openStore(b, b.TempDir(), disk.Options{Sync: mode})
			steps := typedSteps(NewData(1).Chat(10))
			b.ReportAllocs()
			cpu := startCPU()
			for i := 0; b.Loop(); i++ {
				cfg := saver.Config{ThreadID: fmt.Sprintf("thread-%06d", i/1000), CheckpointID: CheckpointID(i / 10)}
				w := steps[i%10].Writes[:1]
				must(b, s.PutWrites(context.Background(), cfg, w, fmt.Sprintf("task-%08d", i), "~__pregel_pull, model"))
			}
			cpu.report(b, b.N)
			must(b, s.Close())
		})
	}
}

// BenchmarkGetTuple reads one of 1,000 threads with 20 checkpoints of 2 KB and
// its values, undecoded, from memory and log.
func BenchmarkGetTuple(b *testing.B) {
	const threads, checkpoints = 1000, 20
	s := openStore(b, b.TempDir(), disk.Options{Sync: disk.SyncNever})
	steps := typedSteps(NewData(1).Small(checkpoints, 2048))
	for t := range threads {
		cfg := saver.Config{ThreadID: fmt.Sprintf("thread-%06d", t)}
		for i := range steps {
			var err error
			cfg, err = put(s, cfg, &steps[i])
			must(b, err)
		}
		must(b, putWrites(s, cfg, &steps[0], 0))
	}
	run := func(b *testing.B, id func(i int) string) {
		b.ReportAllocs()
		r, cpu := NewData(2).r, startCPU()
		defer func() { cpu.report(b, b.N) }()
		for b.Loop() {
			readRaw(b, s, saver.Config{ThreadID: fmt.Sprintf("thread-%06d", r.IntN(threads)), CheckpointID: id(r.IntN(checkpoints))})
		}
	}
	b.Run("latest", func(b *testing.B) { run(b, func(int) string { return "" }) })
	b.Run("by-id", func(b *testing.B) { run(b, CheckpointID) })
	b.Run("no-values", func(b *testing.B) {
		b.ReportAllocs()
		r, cpu := NewData(2).r, startCPU()
		defer func() { cpu.report(b, b.N) }()
		for b.Loop() {
			_, err := s.GetTuple(context.Background(), saver.Config{ThreadID: fmt.Sprintf("thread-%06d", r.IntN(threads))})
			must(b, err)
		}
	})
	b.Run("list-10", func(b *testing.B) {
		b.ReportAllocs()
		r, cpu := NewData(2).r, startCPU()
		defer func() { cpu.report(b, b.N) }()
		for b.Loop() {
			n := 0
			q := saver.Query{ThreadID: fmt.Sprintf("thread-%06d", r.IntN(threads)), Namespace: saver.InNamespace(""), Limit: 10}
			for _, err := range s.List(context.Background(), q) {
				must(b, err)
				n++
			}
			if n != 10 {
				b.Fatalf("listed %d", n)
			}
		}
	})
	must(b, s.Close())
}

// readRaw gets a tuple and the bytes of all its values and writes.
func readRaw(b testing.TB, s *disk.Saver, cfg saver.Config) int {
	tup, err := s.GetTuple(context.Background(), cfg)
	must(b, err)
	return rawBytes(b, tup)
}

func rawBytes(b testing.TB, tup *saver.Tuple) int {
	n := 0
	for _, v := range tup.Checkpoint.Values {
		t, err := v.Typed()
		must(b, err)
		n += len(t.Data)
	}
	for _, w := range tup.PendingWrites {
		t, err := w.Value.Typed()
		must(b, err)
		n += len(t.Data)
	}
	return n
}

// readDecoded is readRaw with every value decoded to plain data.
func readDecoded(b testing.TB, s *disk.Saver, cfg saver.Config) {
	tup, err := s.GetTuple(context.Background(), cfg)
	must(b, err)
	decodeAll(b, tup)
}

func decodeAll(b testing.TB, tup *saver.Tuple) {
	for _, v := range tup.Checkpoint.Values {
		_, err := v.Any()
		must(b, err)
	}
	for _, w := range tup.PendingWrites {
		_, err := w.Value.Any()
		must(b, err)
	}
}

func typedSteps(steps []Step) []Step {
	for i := range steps {
		steps[i] = steps[i].Typed()
	}
	return steps
}

func reportSyncs(b *testing.B, s *disk.Saver, steps int) {
	b.ReportMetric(float64(s.Metrics().Log.Syncs)/float64(steps), "fsyncs/op")
}
