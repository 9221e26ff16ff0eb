package engine

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
)

// TestBuckets: every duration is in the bucket its bounds say, at each edge.
func TestBuckets(t *testing.T) {
	b := metrics.LatencyBounds()
	if !slices.IsSorted(b) || len(slices.Compact(slices.Clone(b))) != len(b) {
		t.Fatalf("bounds %v do not ascend", b)
	}
	for i, edge := range b {
		for d, want := range map[time.Duration]int{edge - 1: i, edge: i, edge + 1: i + 1} {
			if got := bucketOf(d); got != want {
				t.Errorf("%v is in bucket %d, not %d", d, got, want)
			}
		}
	}
	b[0] = 0
	if metrics.LatencyBounds()[0] == 0 {
		t.Error("Bounds hands out its own array")
	}
}

func TestLatency(t *testing.T) {
	var l Latency
	if h := l.Read(); h.Count() != 0 || h.Quantile(0.5) != 0 {
		t.Errorf("nothing was counted, and it says %+v", h)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 95 {
				l.Observe(15 * time.Millisecond)
			}
			for range 5 {
				l.Observe(time.Hour)
			}
		})
	}
	wg.Wait()
	l.Observe(-time.Second)
	h := l.Read()
	if h.Count() != 401 || h.Sum != 380*15*time.Millisecond+20*time.Hour || h.Counts[0] != 1 {
		t.Errorf("counted %+v", h)
	}
	if got := h.Quantile(0.9); got != 20*time.Millisecond {
		t.Errorf("p90 is %v", got)
	}
	if got := h.Quantile(1); got != 10*time.Second {
		t.Errorf("the slowest is %v", got)
	}
	var each Latency
	each.ObserveEach(45*time.Millisecond, 3)
	if h := each.Read(); h.Count() != 3 || h.Sum != 45*time.Millisecond || h.Quantile(1) != 20*time.Millisecond {
		t.Errorf("three of 15 ms each are %+v", h)
	}
	start := Now()
	l.Since(start)
	if l.Read().Count() != 402 || Since(start) < 0 {
		t.Error("Since does not count")
	}
}

func BenchmarkSince(b *testing.B) {
	var l Latency
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Since(Now())
		}
	})
}
