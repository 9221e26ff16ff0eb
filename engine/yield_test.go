package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// TestBackgroundYields: a flush, a compaction and an image let others have the processor
// about once for each partition, and not where they are behind.
func TestBackgroundYields(t *testing.T) {
	const partitions = 40
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	defer func() { must(t, e.Close()) }()
	var turns atomic.Int64
	e.throttle.yieldEvery, e.throttle.giveTurn = 0, func() { turns.Add(1) }
	put := func(round int) {
		for i := range partitions {
			mustPut(t, e, fmt.Sprintf("thread-%d", i), fmt.Sprintf("entry-%d", round), fmt.Sprintf("value %d of %d", round, i))
		}
	}
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
		if n := turns.Load() - before; n < partitions {
			t.Errorf("%s of %d threads: others had the processor %d times", w.name, partitions, n)
		}
	}
	e.throttle.setSegments(1<<40, false)
	y, before := e.throttle.yielder(), turns.Load()
	for range 100 {
		y.yield()
	}
	if n := turns.Load() - before; n > 0 {
		t.Errorf("work that is behind gave it away %d times", n)
	}
	e.throttle.setSegments(0, false)
}
