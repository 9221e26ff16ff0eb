package soak

import (
	"math"
	"time"
)

// step is by how much a duration of latencies may be off: 3 %.
const step = 1.03

// latencies counts durations in steps, so that a long day takes no more memory than a
// short one. The zero value is empty.
type latencies struct {
	n     int
	count [1024]uint32
}

func (l *latencies) add(d time.Duration) {
	i := int(math.Log(float64(max(d, 1))) / math.Log(step))
	l.count[min(i, len(l.count)-1)]++
	l.n++
}

// quantile is the duration that a share q of them does not exceed; 0 if there are none.
func (l *latencies) quantile(q float64) time.Duration {
	left := int(math.Ceil(q * float64(l.n)))
	for i, c := range l.count {
		if left -= int(c); left <= 0 && l.n > 0 {
			return time.Duration(math.Pow(step, float64(i+1)))
		}
	}
	return 0
}
