package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// eraseThreads is how many threads BenchmarkErase erases of the store.
const eraseThreads = 10

// BenchmarkErase erases 10 of BENCH_ERASE_THREADS threads of 100 checkpoints, in one call
// or one by one. Both begin with the same store, whose size it reports.
func BenchmarkErase(b *testing.B) {
	for _, c := range []struct {
		name string
		call func(s *disk.Saver, ids []string) error
	}{
		{"one call", func(s *disk.Saver, ids []string) error { return s.Erase(context.Background(), ids...) }},
		{"ten calls", func(s *disk.Saver, ids []string) error {
			for _, id := range ids {
				if err := s.Erase(context.Background(), id); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var bytes int64
			for b.Loop() {
				b.StopTimer()
				s, ids := eraseStore(b)
				bytes = s.Stats().SegmentBytes
				b.StartTimer()
				must(b, c.call(s, ids))
				b.StopTimer()
				must(b, s.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(bytes)/(1<<20), "MiB")
		})
	}
}

// eraseStore is a store with everything in segments, and the threads to erase.
func eraseStore(b *testing.B) (s *disk.Saver, ids []string) {
	b.Helper()
	dir, steps := b.TempDir(), manyRawSteps()
	s = openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	for t := range size("BENCH_ERASE_THREADS", 90) {
		cfg := saver.Config{ThreadID: fmt.Sprintf("thread-%06d", t)}
		if len(ids) < eraseThreads {
			ids = append(ids, cfg.ThreadID)
		}
		for i := range steps {
			var err error
			cfg, err = put(s, cfg, &steps[i])
			must(b, err)
		}
	}
	must(b, s.Close())
	s = openStore(b, dir, disk.Options{})
	must(b, s.Compact(context.Background()))
	return s, ids
}
