package engine

import (
	"context"
	"time"
)

// yieldCredit is the most time that a yielder gives away beyond what it has worked.
const yieldCredit = 10 * time.Millisecond

// yielder lets commits and reads have the processor between two pieces of background work: with few
// processors a flush and a compaction keep all of them busy. It gives away hardly more time than the
// work took, since some kernels leave a yielding thread only a few percent of a busy processor. It
// gives away none if the work is so far behind that commits are slowed down for it. A yielder belongs
// to one goroutine.
type yielder struct {
	t      *throttle
	last   Time          // when it last had a choice
	worked time.Duration // until then
	gave   time.Duration
}

// yielder returns one for a piece of work that begins now.
func (t *throttle) yielder() *yielder { return &yielder{t: t} }

// gaveAway is how long others had the processor.
func (y *yielder) gaveAway() time.Duration { return y.gave }

// yield is called after each piece of work, as often as one likes.
func (y *yielder) yield() {
	now := Now()
	if y.last == 0 {
		y.last = now
	}
	took := time.Duration(now - y.last)
	if took < y.t.yieldEvery {
		return
	}
	y.worked += took
	if y.gave <= y.worked+yieldCredit && y.t.pressure() == 0 {
		y.t.giveTurn()
		y.gave += Since(now)
		now = Now()
	}
	y.last = now
}

// maxCredit bounds what compaction makes up for after it was slower than
// Options.CompactRate, so that no burst of writes follows a pause.
const maxCredit = 20 * time.Millisecond

// limiter returns a function that compaction calls for the bytes it has read or written,
// and between them with 0. It yields, and slows compaction to Options.CompactRate, unless
// compaction is behind. The function belongs to one goroutine.
func (t *throttle) limiter(ctx context.Context) func(n int) {
	y, rate := t.yielder(), t.opts.CompactRate
	if rate < 0 {
		return func(int) { y.yield() }
	}
	due := time.Now() // when what was moved would have been, at that rate
	return func(n int) {
		y.yield()
		now := time.Now()
		if t.hurry.Load() {
			due = now
			return
		}
		if least := now.Add(-maxCredit); due.Before(least) {
			due = least
		}
		due = due.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		if ahead := due.Sub(now); ahead > 5*time.Millisecond {
			sleep(ctx, ahead)
		}
	}
}
