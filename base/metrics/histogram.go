package metrics

import "time"

// bounds are the upper bounds of the buckets. They include the limits that people set (20 ms,
// 50 ms, 100 ms), so that calls above a limit are counted and not interpolated.
var bounds = [...]time.Duration{
	time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Buckets is the number of buckets of every Histogram: the last has no bound.
const Buckets = len(bounds) + 1

// LatencyBounds are the upper bounds of the buckets of every Histogram, ascending. Each bound
// is included in its bucket.
func LatencyBounds() []time.Duration { return append([]time.Duration(nil), bounds[:]...) }

// Histogram says how often calls took how long. Counts only grow.
type Histogram struct {
	// Counts has the number of calls in each bucket: those that took longer than the
	// previous bound and not longer than its own. The last bucket has no bound. It is nil
	// if nothing is measured.
	Counts []uint64
	// Sum is the total time of all calls.
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

// Quantile is the upper bound of the bucket that contains the q-quantile, 0 < q <= 1. It is 0
// if there were no calls. In the last bucket it is the last bound.
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
