package engine

import (
	"testing"
	"time"
)

func TestStallPressure(t *testing.T) {
	for _, c := range []struct {
		logged, segments int64
		want             float64
	}{
		{0, 0, 0},
		{128 * mib, 48, 0},
		{192 * mib, 0, 0.5},
		{0, 72, 0.5},
		{192 * mib, 96, 1},
		{1 << 40, 0, 1},
		{0, 1 << 40, 1},
	} {
		th := newThrottle(Options{FlushBytes: 64 * mib, CompactFanout: 4})
		th.setSegments(c.segments, false)
		th.committed(c.logged)
		if got := th.pressure(); got != c.want {
			t.Errorf("pressure of %d bytes and %d segments is %v, want %v", c.logged, c.segments, got, c.want)
		}
	}
	small := newThrottle(Options{FlushBytes: 1, CompactFanout: 4})
	small.committed(stallFrom * minStall)
	if got := small.pressure(); got != 0 {
		t.Errorf("a store with small flushes is slowed down at %d bytes: %v", stallFrom*minStall, got)
	}
}

// The rate is that of the last flush, and never so low that the store is closed.
func TestStallRate(t *testing.T) {
	var th throttle
	for _, c := range []struct {
		flushed        int64
		took           time.Duration
		pressure, want float64
	}{
		{0, 0, 0, firstStallRate},
		{100 * mib, time.Second, 0, 100 * mib},
		{100 * mib, 2 * time.Second, 1, 50 * mib * slowest},
		{1, time.Hour, 1, minStallRate},
		{160 * mib, time.Second, 0.5, 160 * mib * (1 + slowest) / 2},
	} {
		th.flushed(c.flushed, c.took)
		if got := th.rate(c.pressure); got != c.want {
			t.Errorf("after a flush of %d bytes in %v the rate at %v is %v, want %v", c.flushed, c.took, c.pressure, got, c.want)
		}
	}
}

// Commits take turns at the rate, and none waits longer than maxStall.
func TestStallTurns(t *testing.T) {
	var th throttle
	now := time.Unix(1, 0)
	for i, want := range []time.Duration{0, 100, 200, 300} {
		if got := th.take(now, 100, 1000); got != want*time.Millisecond {
			t.Errorf("commit %d waits %v, want %v", i, got, want*time.Millisecond)
		}
	}
	for range 100 {
		if got := th.take(now, 1<<40, 1); got > maxStall {
			t.Fatalf("a commit waits %v", got)
		}
	}
	if got := th.take(now.Add(time.Minute), 100, 1000); got != 0 {
		t.Errorf("a commit that comes after all the others waits %v", got)
	}
}
