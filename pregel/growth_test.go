package pregel_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// forgets is a saver that keeps nothing: what grows beside it is the engine's.
type forgets struct{ *memory.Saver }

func (forgets) PutRequest(_ context.Context, req saver.PutRequest) (saver.Config, error) {
	return req.Config.At(req.Checkpoint.ID), nil
}

func (forgets) PutWrites(context.Context, saver.Config, []saver.Write, string, string) error {
	return nil
}

// residentBytes is the memory the kernel gave the process; 0 where it does not say.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// Neither goroutines nor memory grow with the number of supersteps.
// STELE_PREGEL_STEPS runs more of them, such as 100000.
func TestLongRunDoesNotGrow(t *testing.T) {
	steps := 10_000
	if n, err := strconv.Atoi(os.Getenv("STELE_PREGEL_STEPS")); err == nil && n > 0 {
		steps = n
	}
	const bound = 512 << 10 // bytes; less than what 70 bytes a superstep come to
	for name, d := range map[string]pregel.Durability{"no thread": "", "async": pregel.Async, "sync": pregel.Sync, "exit": pregel.Exit} {
		o, at := pregel.Options{}, pregel.Address{}
		if d != "" {
			at = pregel.Thread("t")
			o.Saver = forgets{memory.New(memory.Options{})}
		}
		type size struct {
			heap, resident int64
			goroutines     int
		}
		var early, late size
		measure := func(s *size) {
			var ms runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&ms)
			s.heap, s.resident, s.goroutines = int64(ms.HeapAlloc), residentBytes(), runtime.NumGoroutine()
		}
		n := 0
		g := loopGraph(t, o, steps, func() {
			switch n++; n {
			case steps / 4:
				measure(&early)
			case steps:
				measure(&late)
			}
		})
		if _, err := g.Invoke(ctx, at, 0, pregel.RunOptions{Durability: d, RecursionLimit: steps + 1}); err != nil || n != steps {
			t.Fatalf("%s: %d supersteps, %v", name, n, err)
		}
		t.Logf("%s: after %d and %d supersteps: heap %d and %d KB, resident %d and %d KB, goroutines %d and %d", name, steps/4, steps,
			early.heap>>10, late.heap>>10, early.resident>>10, late.resident>>10, early.goroutines, late.goroutines)
		if late.heap-early.heap > bound {
			t.Errorf("%s: the heap grew by %d bytes", name, late.heap-early.heap)
		}
		// Saves under way have goroutines of their own, of a bounded number.
		if late.goroutines > early.goroutines+40 {
			t.Errorf("%s: goroutines grew from %d to %d", name, early.goroutines, late.goroutines)
		}
	}
}
