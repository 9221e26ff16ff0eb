package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/internal/metric"
)

// Where writers outrun flushes, or flushes compaction, commits are slowed down: else
// the log, what is in memory until it is flushed, and the segments that a read must
// look into would grow without end. Engines call it a write stall. Commits then enter
// the log at a rate: that at which the last flush moved it, less the further behind
// the work is. No commit waits longer than maxStall, so that a flush that takes long
// costs time, and never the store.
const (
	// stallFrom and stallFull are how many times FlushBytes the log holds when commits
	// begin to be slowed down, and when they are slowed down the most. A FlushBytes
	// below minStall counts as that.
	stallFrom, stallFull = 2, 4
	minStall             = 4 * mib
	// The same for segments that are yet to be merged, in times CompactFanout. With
	// six or seven classes of size, most stores have less than seven times.
	stallSegmentsFrom, stallSegmentsFull = 12, 24
	// slowest is the part of the rate that is left at the most.
	slowest = 1.0 / 16
	// minStallRate and firstStallRate bound the rate, in bytes a second: the latter
	// counts until there was a flush.
	minStallRate, firstStallRate = 1 * mib, 16 * mib
	maxStall                     = time.Second
)

// throttle holds up commits. The zero value lets all pass.
type throttle struct {
	flushRate atomic.Int64 // log bytes a second of the last flush; 0: none yet
	segments  atomic.Int64 // those that are yet to be merged
	hurry     atomic.Bool  // compaction is behind by a round

	mu   sync.Mutex
	next time.Time // when the next commit may enter the log

	stalled metric.Latency // of commits that waited
}

// pressure is how far behind the work is, from 0, where nothing is slowed down, to 1.
func (t *throttle) pressure(o *Options, logBytes int64) float64 {
	flush := float64(max(o.FlushBytes, minStall))
	return max(0, share(float64(logBytes), stallFrom*flush, stallFull*flush), t.merging(o))
}

// merging is the part of the pressure that comes of segments that are yet to be merged.
func (t *throttle) merging(o *Options) float64 {
	fanout := float64(o.CompactFanout)
	return max(0, share(float64(t.segments.Load()), stallSegmentsFrom*fanout, stallSegmentsFull*fanout))
}

// share is where n lies between from and full; at most 1.
func share(n, from, full float64) float64 { return min(1, (n-from)/(full-from)) }

// rate is how many bytes of log may be committed in a second.
func (t *throttle) rate(pressure float64) float64 {
	r := float64(firstStallRate)
	if n := t.flushRate.Load(); n > 0 {
		r = float64(n)
	}
	return max(r*(1-pressure*(1-slowest)), minStallRate)
}

// take is how long a commit of n bytes waits that comes now. Commits take turns: each
// waits for what those before it may write.
func (t *throttle) take(now time.Time, n int64, rate float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next.Before(now) {
		t.next = now
	}
	wait := min(t.next.Sub(now), maxStall)
	// A turn is kept no further ahead than anybody waits: who comes later passes then
	// with the others, and the rate is not kept, rather than the store be closed to all.
	t.next = now.Add(wait + min(time.Duration(float64(n)/rate*float64(time.Second)), maxStall))
	return wait
}

// stall holds up a commit of about n bytes where the work is behind. An error is
// ctx's; nothing was done then.
func (e *Engine) stall(ctx context.Context, n int64, urgent bool) error {
	if urgent || e.opts.ManualWork || e.workErr.Load() != nil {
		return nil // it frees space, or the work is not there to wait for
	}
	p := e.throttle.pressure(&e.opts, e.logBytes.Load())
	if p == 0 {
		return nil
	}
	begin := metric.Now()
	wait := e.throttle.take(time.Now(), max(n, minRecord), e.throttle.rate(p))
	if wait <= 0 {
		return nil
	}
	e.nudge()
	sleep(ctx, wait)
	e.throttle.stalled.Since(begin)
	return ctx.Err()
}

// minRecord is about what a record takes whose size nobody tells.
const minRecord = 256

// noteFlushed learns how fast flushes are.
func (t *throttle) noteFlushed(logged int64, took time.Duration) {
	if logged > 0 && took > 0 {
		t.flushRate.Store(max(1, int64(float64(logged)/took.Seconds())))
	}
}

// noteSegments counts the segments that are yet to be merged. Where those of one size
// are twice as many as make a compaction, the one that is under way has taken so long
// that another waits: it hurries then, since what is dead stays on the disk until it is
// merged, and reads look into every segment.
func (e *Engine) noteSegments() {
	n, segs := int64(0), e.state().Segments
	e.throttle.hurry.Store(pickCompaction(segs, 2*e.opts.CompactFanout, e.opts.SegmentSize) != nil)
	for _, s := range segs {
		if s.Size < e.opts.SegmentSize {
			n++
		}
	}
	e.throttle.segments.Store(n)
}
