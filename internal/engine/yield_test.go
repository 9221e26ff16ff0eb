package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/internal/vfs"
)

// TestBackgroundYields: with one processor, a flush, a compaction and an image let
// others have it about once for each thread, and not where they are behind.
func TestBackgroundYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const threads = 40
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	defer func() { must(t, e.Close()) }()
	e.yieldEvery = 0
	put := func(round int) {
		for i := range threads {
			mustPut(t, e, fmt.Sprintf("thread-%d", i), fmt.Sprintf("item-%d", round), fmt.Sprintf("value %d of %d", round, i))
		}
	}
	var turns atomic.Int64
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	works := []struct {
		name string
		work func() error
	}{
		{"flush", func() error { return e.Flush(context.Background()) }},
		{"image", func() error { return e.WriteImage(context.Background()) }},
		{"compact", func() error { return e.Compact(context.Background()) }},
	}
	for round, w := range works {
		put(round)
		before := turns.Load()
		must(t, w.work())
		if n := turns.Load() - before; n < threads/2 { // the runtime has goroutines of its own
			t.Errorf("%s of %d threads: others had the processor %d times", w.name, threads, n)
		}
	}
	e.throttle.segments.Store(1 << 40)
	y, before := yielder{e: e}, turns.Load()
	for range 100 {
		y.yield()
	}
	if n := turns.Load() - before; n > 10 { // the runtime may take the processor away by itself
		t.Errorf("work that is behind gave it away %d times", n)
	}
	e.throttle.segments.Store(0)
	stop.Store(true)
	<-ended
}
