package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// Compaction moves what its rate allows, and does not make up in one burst for a time in
// which it moved nothing.
func TestLimiterAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slice = 256 << 10
		limit := newThrottle(Options{FlushBytes: 1, CompactFanout: 1, CompactRate: 64 << 20}).limiter(t.Context())
		moved := func(n int) time.Duration {
			start := time.Now()
			for range n {
				limit(slice)
			}
			return time.Since(start)
		}
		const second = 64 << 20 / slice
		if took := moved(second); took < time.Second-2*maxCredit || took > time.Second {
			t.Errorf("what the rate allows for a second took %v", took)
		}
		time.Sleep(time.Minute)
		if took := moved(second); took < time.Second-2*maxCredit || took > time.Second {
			t.Errorf("after a pause, what the rate allows for a second took %v", took)
		}
	})
}
