// Package metric measures how long calls take, cheaply enough to do it always:
// one observation is two readings of the monotonic clock and two atomic additions,
// and where one thing ends as another begins, they share the reading; see Lap.
package metric

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// bounds are the upper ends of the buckets. They are round numbers, so that the
// limits people set (20 ms, 50 ms, 100 ms) fall between two buckets, and whether
// one is exceeded is counted and not interpolated.
var bounds = [...]time.Duration{
	time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Latency counts durations. The zero value is ready; all methods are safe for
// concurrent use.
type Latency struct {
	counts [len(bounds) + 1]atomic.Uint64
	nanos  atomic.Int64
}

// Time is a moment of the monotonic clock.
type Time time.Duration

// epoch has a monotonic reading, so that time.Since reads no wall clock.
var epoch = time.Now()

// Now is the present moment.
func Now() Time { return Time(time.Since(epoch)) }

// Since is the time that passed since t.
func Since(t Time) time.Duration { return time.Duration(Now() - t) }

// Since counts the time from t to now.
func (l *Latency) Since(t Time) { l.Observe(Since(t)) }

// Lap counts the time from t to now, and returns now: when what follows began.
func (l *Latency) Lap(t Time) Time {
	now := Now()
	l.Observe(time.Duration(now - t))
	return now
}

// Observe counts d. A negative d counts as 0.
func (l *Latency) Observe(d time.Duration) {
	d = max(d, 0)
	l.counts[bucket(d)].Add(1)
	l.nanos.Add(int64(d))
}

// bucket is the number of the first bucket whose bound is not below d.
func bucket(d time.Duration) int {
	i := int(firstBound[bits.Len64(uint64(d))])
	for i < len(bounds) && bounds[i] < d {
		i++
	}
	return i
}

// firstBound is, for durations of so many bits, the first bucket any may be in.
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

// Read returns what was counted so far.
func (l *Latency) Read() Histogram {
	h := Histogram{Sum: time.Duration(l.nanos.Load()), Counts: make([]uint64, len(l.counts))}
	for i := range l.counts {
		h.Counts[i] = l.counts[i].Load()
	}
	return h
}

// Bounds are the upper ends of the buckets of every Histogram, ascending, each
// included in its bucket.
func Bounds() []time.Duration { return append([]time.Duration(nil), bounds[:]...) }

// Histogram says how often calls took how long. Counts only grow.
type Histogram struct {
	// Counts has one number for each bucket: how many calls took longer than the
	// bound before it and not longer than its own. The last bucket has no bound.
	// Nil if nothing is measured.
	Counts []uint64
	// Sum is the time of all calls together.
	Sum time.Duration
}

// Count is the number of calls.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile is the upper bound of the bucket in which the q-th part of the calls
// ends, 0 < q <= 1; 0 if there were none. Beyond the last bound it is the last
// bound.
func (h Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	var n uint64
	for i, c := range h.Counts {
		n += c
		if float64(n) >= q*float64(total) {
			return bounds[min(i, len(bounds)-1)]
		}
	}
	return bounds[len(bounds)-1]
}
