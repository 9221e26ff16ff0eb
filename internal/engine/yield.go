package engine

import (
	"time"

	"github.com/stele-go/stele/internal/metric"
)

// yieldEvery is how long background work computes until it lets others have the
// processor.
const yieldEvery = 100 * time.Microsecond

// yieldCredit is how much more time it gives away than it takes, at most.
const yieldCredit = 10 * time.Millisecond

// yielder lets commits and reads have the processor between two pieces of background
// work: few processors are busy with a flush and a compaction alone. It gives away hardly more
// time than the work took, since some kernels give who yields a few percent of a busy
// processor; and none where the work is behind, so that commits are slowed down for it. A
// yielder belongs to one goroutine.
type yielder struct {
	e      *Engine
	last   metric.Time   // when it last had a choice
	worked time.Duration // until then
	gave   time.Duration // how long others had it
}

// yield is called after each piece of work, as often as one likes.
func (y *yielder) yield() {
	now := metric.Now()
	if y.last == 0 {
		y.last = now
	}
	took := time.Duration(now - y.last)
	if took < y.e.yieldEvery {
		return
	}
	y.worked += took
	if y.gave <= y.worked+yieldCredit && y.e.throttle.pressure(&y.e.opts, y.e.logBytes.Load()) == 0 {
		y.e.giveTurn()
		y.gave += metric.Since(now)
		now = metric.Now()
	}
	y.last = now
}
