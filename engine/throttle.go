package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
)

const (
	// stallFrom and stallFull are how many times FlushBytes the log holds when commits
	// begin to be slowed down, and when they are slowed down the most. A FlushBytes
	// below minStall counts as that.
	stallFrom, stallFull = 2, 4
	minStall             = 4 << 20
	// The same for segments that are yet to be merged, in times Options.CompactFanout. With
	// six or seven classes of size, most stores have less than seven times.
	stallSegmentsFrom, stallSegmentsFull = 12, 24
	// slowest is the part of the rate that is left when commits are slowed down the most.
	slowest = 1.0 / 16
	// minStallRate and firstStallRate bound the rate, in bytes a second: the latter
	// counts until there was a flush.
	minStallRate, firstStallRate = 1 << 20, 16 << 20
	maxStall                     = time.Second
)

// throttle shares processor and device between commits and the work behind them.
//
// Where writers outrun flushes, or flushes compaction, commits are slowed down: else the
// log, what is in memory until it is flushed, and the segments that a read must look into
// would grow without end. Engines call it a write stall. Commits then enter the log at a
// rate: that at which the last flush moved it, less the further behind the work is. No
// commit waits longer than maxStall, so that a flush that takes long costs time, and never
// the store.
//
// Where the work keeps up, it is the work that gives way: compaction is held to a rate
// (limiter), and all of it lets others have the processor between two pieces (yielder).
//
// It belongs to one open store. All methods are safe for concurrent use.
type throttle struct {
	opts Options

	// yieldEvery is how long work computes until it lets others have the processor, by
	// calling giveTurn. Tests change them before there is work.
	yieldEvery time.Duration
	giveTurn   func()

	logBytes  atomic.Int64 // committed since the last flush
	flushRate atomic.Int64 // log bytes a second of the last flush; 0: none yet
	segments  atomic.Int64 // those that are yet to be merged
	hurry     atomic.Bool  // compaction is behind by a round

	mu   sync.Mutex
	next time.Time // when the next commit may enter the log

	stalled Latency
}

// newThrottle returns the throttle of a store that has no log and no segments yet.
func newThrottle(o Options) *throttle {
	return &throttle{opts: o, yieldEvery: 100 * time.Microsecond, giveTurn: vfs.Yield}
}

// committed counts n bytes of log more.
func (t *throttle) committed(n int64) { t.logBytes.Add(n) }

// loggedBytes is what was committed since the last flush.
func (t *throttle) loggedBytes() int64 { return t.logBytes.Load() }

// flushed says that a flush moved n bytes of the log into segments, and how long it worked.
func (t *throttle) flushed(n int64, took time.Duration) {
	t.logBytes.Add(-n)
	if n > 0 && took > 0 {
		t.flushRate.Store(max(1, int64(float64(n)/took.Seconds())))
	}
}

// setSegments says how many segments are yet to be merged, and whether compaction is so
// far behind that it is no longer held to its rate.
func (t *throttle) setSegments(n int64, hurry bool) {
	t.segments.Store(n)
	t.hurry.Store(hurry)
}

// Stalled is how many commits waited, and for how long.
func (t *throttle) Stalled() metrics.Histogram { return t.stalled.Read() }

// pressure returns how far behind the work is, from 0 (nothing is slowed down) to 1.
func (t *throttle) pressure() float64 {
	flush, fanout := float64(max(t.opts.FlushBytes, minStall)), float64(t.opts.CompactFanout)
	return max(0,
		share(float64(t.logBytes.Load()), stallFrom*flush, stallFull*flush),
		share(float64(t.segments.Load()), stallSegmentsFrom*fanout, stallSegmentsFull*fanout))
}

// share returns how far n is on the way from `from` to full; at most 1.
func share(n, from, full float64) float64 { return min(1, (n-from)/(full-from)) }

// rate is how many bytes of log may be committed in a second.
func (t *throttle) rate(pressure float64) float64 {
	r := float64(firstStallRate)
	if n := t.flushRate.Load(); n > 0 {
		r = float64(n)
	}
	return max(r*(1-pressure*(1-slowest)), minStallRate)
}

// take returns how long a commit of n bytes that comes now must wait. Commits take turns: each waits as
// long as the commits before it may take at the rate.
func (t *throttle) take(now time.Time, n int64, rate float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next.Before(now) {
		t.next = now
	}
	wait := min(t.next.Sub(now), maxStall)
	// No turn is further ahead than the longest wait: commits that come later wait no longer, and the
	// rate is exceeded rather than the store closed to all.
	t.next = now.Add(wait + min(time.Duration(float64(n)/rate*float64(time.Second)), maxStall))
	return wait
}

// wait holds up a commit of about n bytes where the work is behind. It calls wake before it
// waits. An error is ctx's; nothing was done then.
func (t *throttle) wait(ctx context.Context, n int64, wake func()) error {
	p := t.pressure()
	if p == 0 {
		return nil
	}
	begin := Now()
	wait := t.take(time.Now(), max(n, minRecord), t.rate(p))
	if wait <= 0 {
		return nil
	}
	wake()
	sleep(ctx, wait)
	t.stalled.Since(begin)
	return ctx.Err()
}

// minRecord is the assumed size of a record whose size is not given.
const minRecord = 256

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
