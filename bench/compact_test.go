package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// BenchmarkPutBesideCompaction is one caller's durable puts while the store compacts,
// over and over, what BENCH_COMPACT_THREADS threads of 100 checkpoints hold; and
// before that, as many puts while it does not.
func BenchmarkPutBesideCompaction(b *testing.B) {
	dir, steps := b.TempDir(), manyRawSteps()
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	for t := range size("BENCH_COMPACT_THREADS", 200) {
		cfg := saver.Config{ThreadID: fmt.Sprintf("old-%06d", t)}
		for i := range steps {
			var err error
			cfg, err = put(s, cfg, &steps[i])
			must(b, err)
		}
	}
	must(b, s.Close())
	s = openStore(b, dir, disk.Options{})
	must(b, s.Flush(context.Background()))
	n := 0
	puts := func(count int) latencies {
		var took latencies
		for range count {
			cfg := saver.Config{ThreadID: fmt.Sprintf("new-%06d", n)}
			st := &steps[n%len(steps)]
			n++
			start := time.Now()
			_, err := put(s, cfg, st)
			must(b, err)
			took.since(start)
		}
		return took
	}
	const least = 500
	alone := puts(max(least, b.N))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	compactions := 0
	go func() {
		for {
			if err := s.Compact(ctx); err != nil {
				done <- err
				return
			}
			compactions++
		}
	}()
	b.ResetTimer()
	beside := puts(max(least, b.N))
	b.StopTimer()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	alone.report(b, "alone")
	beside.report(b, "beside")
	b.ReportMetric(float64(compactions), "compactions")
	must(b, s.Close())
}
