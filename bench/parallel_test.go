package bench

import (
	"sync"
	"sync/atomic"
	"testing"
)

// inParallel calls fn b.N times altogether from so many goroutines, each with a
// number of its own, and times that.
func inParallel(b *testing.B, goroutines int, fn func(goroutine int) error) {
	b.Helper()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := fn(g); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}
