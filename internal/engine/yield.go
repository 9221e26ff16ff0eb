package engine

import (
	"time"

	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/internal/vfs"
)

// yieldEvery is how long background work computes until it lets others have the
// processor.
const yieldEvery = 100 * time.Microsecond

// yielder lets commits and reads have the processor between two pieces of background
// work: few processors are busy with a flush and a compaction alone. Where the work is
// behind, so that commits are slowed down for it, it goes on instead: some kernels give who
// yields a few percent of a busy processor. A yielder belongs to one goroutine.
type yielder struct {
	e    *Engine
	last metric.Time
	gave time.Duration // how long others had it
}

// yield is called after each piece of work, as often as one likes.
func (y *yielder) yield() {
	now := metric.Now()
	if time.Duration(now-y.last) < y.e.yieldEvery {
		return
	}
	if y.e.throttle.pressure(&y.e.opts, y.e.logBytes.Load()) == 0 {
		vfs.Yield()
		y.gave += metric.Since(now)
		now = metric.Now()
	}
	y.last = now
}
