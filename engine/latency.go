package engine

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/metrics"
)

// Latency counts durations, cheaply enough to do it always: an observation is two readings
// of the monotonic clock and two atomic additions. The zero value is ready; all methods are
// safe for concurrent use.
type Latency struct {
	counts [metrics.Buckets]atomic.Uint64
	nanos  atomic.Int64
}

// Time is a moment of the monotonic clock.
type Time time.Duration

// clockStart has a monotonic reading, so that time.Since reads no wall clock.
var clockStart = time.Now()

// Now is the present moment.
func Now() Time { return Time(time.Since(clockStart)) }

// Since returns the time that passed since t.
func Since(t Time) time.Duration { return time.Duration(Now() - t) }

// Since counts the time from t to now.
func (l *Latency) Since(t Time) { l.Observe(Since(t)) }

// Observe counts d. A negative d counts as 0.
func (l *Latency) Observe(d time.Duration) {
	d = max(d, 0)
	l.counts[bucketOf(d)].Add(1)
	l.nanos.Add(int64(d))
}

// ObserveEach counts n observations that took d in total, each with their mean.
func (l *Latency) ObserveEach(d time.Duration, n int) {
	d = max(d, 0)
	l.counts[bucketOf(d/time.Duration(n))].Add(uint64(n))
	l.nanos.Add(int64(d))
}

// bounds has the upper bounds of the buckets.
var bounds = metrics.LatencyBounds()

// bucketOf returns the number of the first bucket whose bound is not below d.
func bucketOf(d time.Duration) int {
	i := int(firstBound[bits.Len64(uint64(d))])
	for i < len(bounds) && bounds[i] < d {
		i++
	}
	return i
}

// firstBound has, by the number of bits of a duration, the first bucket that it may be in.
var firstBound = func() (first [65]uint8) {
	for n := 1; n < len(first); n++ {
		i := first[n-1]
		for int(i) < len(bounds) && uint64(bounds[i]) < 1<<(n-1) {
			i++
		}
		first[n] = i
	}
	return first
}()

// Read returns the observations so far.
func (l *Latency) Read() metrics.Histogram {
	h := metrics.Histogram{Sum: time.Duration(l.nanos.Load()), Counts: make([]uint64, len(l.counts))}
	for i := range l.counts {
		h.Counts[i] = l.counts[i].Load()
	}
	return h
}
