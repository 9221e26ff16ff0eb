package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/internal/vfs"
)

func TestStallPressure(t *testing.T) {
	o := Options{FlushBytes: 64 * mib, CompactFanout: 4}
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
		var th throttle
		th.segments.Store(c.segments)
		if got := th.pressure(&o, c.logged); got != c.want {
			t.Errorf("pressure of %d bytes and %d segments is %v, want %v", c.logged, c.segments, got, c.want)
		}
	}
	small := Options{FlushBytes: 1, CompactFanout: 4}
	if got := new(throttle).pressure(&small, stallFrom*minStall); got != 0 {
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
		th.noteFlushed(c.flushed, c.took)
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

// While a flush does not come to its end, commits wait, one that frees space does not,
// one whose context ends stores nothing, and all is as before once the flush is done.
func TestCommitsWaitForFlush(t *testing.T) {
	ctx := context.Background()
	held, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys := &besideFS{FS: vfs.NewMem(vfs.MemOptions{})}
	fsys.beside = func() { once.Do(func() { close(held) }); <-hold }
	e := mustOpen(t, Options{FS: fsys, FlushBytes: 64 << 10, ImageBytes: 1 << 40, Sync: 2})
	val := strings.Repeat("x", 1<<20)
	put := func(key string) {
		t.Helper()
		must(t, e.CommitHinted(ctx, Hint{Size: 1 << 20}, []string{"t"}, func(tx *Tx) error {
			v, err := NewValue([]byte(val))
			if err != nil {
				return err
			}
			return tx.Put("t", key, 0, []SlotIn{{Name: "v", Value: &v}})
		}))
	}
	put("first")
	<-held
	waited := func() (n uint64) {
		for _, c := range e.Metrics().Stalled.Counts {
			n += c
		}
		return n
	}
	for e.logBytes.Load() <= stallFrom*minStall {
		put("k")
	}
	if n := waited(); n != 0 {
		t.Fatalf("%d commits waited with little in the log", n)
	}
	for range 3 { // the first of them takes its turn at once
		put("k")
	}
	n := waited()
	if n == 0 {
		t.Fatal("no commit waited for the flush")
	}
	must(t, e.CommitHinted(ctx, Hint{Urgent: true}, []string{"t"}, func(tx *Tx) error { return tx.Delete("t", "k") }))
	if waited() != n {
		t.Error("a commit that frees space waited")
	}
	ended, end := context.WithCancel(ctx)
	end()
	err := e.Commit(ended, []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) })
	if !errors.Is(err, context.Canceled) || errors.Is(err, errNothing) {
		t.Errorf("a commit that waited with an ended context: %v", err)
	}
	if got, err := read(e, "t", "first"); got != val {
		t.Errorf("the thread is not as it was: %d bytes, %v", len(got), err)
	}
	close(hold)
	must(t, e.Flush(ctx))
	n = waited()
	put("k")
	if waited() != n {
		t.Error("a commit waited after the flush")
	}
	must(t, e.Close())
}

// Compaction is held to its rate until it is behind by a round.
func TestCompactionHurriesWhenBehind(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, CompactFanout: 3})
	for n := range 6 {
		if e.throttle.hurry.Load() {
			t.Fatalf("compaction hurries with %d segments", n)
		}
		mustPut(t, e, "t", "k", strings.Repeat("x", n))
		must(t, e.Flush(ctx))
	}
	if !e.throttle.hurry.Load() || e.throttle.segments.Load() != 6 {
		t.Errorf("compaction does not hurry with %d segments", e.throttle.segments.Load())
	}
	if did, err := e.CompactStep(ctx); !did || err != nil {
		t.Fatal(did, err)
	}
	if e.throttle.hurry.Load() || e.throttle.segments.Load() != 1 {
		t.Errorf("compaction hurries with %d segments", e.throttle.segments.Load())
	}
	must(t, e.Close())
}

// A store whose flushes fail goes on at full speed: its log has everything.
func TestNoStallWhereFlushesFail(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), FlushBytes: 1 << 40})
	err := errors.New("no flush")
	e.workErr.Store(&err)
	e.logBytes.Add(1 << 50)
	for range 3 {
		mustPut(t, e, "t", "k", strings.Repeat("x", 1<<20))
	}
	if h := e.Metrics().Stalled; h.Sum != 0 {
		t.Errorf("commits waited %v for flushes that fail", h.Sum)
	}
	e.logBytes.Add(-1 << 50)
	must(t, e.Close())
}
