package vfs

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestYield: with one processor, a goroutine that waits has its turn.
func TestYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turn atomic.Bool
	go turn.Store(true)
	for range 100 { // the runtime has goroutines of its own
		if Yield(); turn.Load() {
			return
		}
	}
	t.Error("a hundred turns were given away, and nobody had one")
}
