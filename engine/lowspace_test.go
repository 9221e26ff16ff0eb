package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

// TestLowSpaceFlushes: where space is low the log is flushed when it holds half of what is kept
// back, but not for each commit where that is nothing.
func TestLowSpaceFlushes(t *testing.T) {
	for _, reserve := range []int64{-1, 1, 4 << 20} {
		o := quietOptions(vfs.NewMem(vfs.MemOptions{Capacity: 64 << 20}))
		o.Reserve, o.LowSpace, o.NoPatches = reserve, 1<<30, true
		e := mustOpen(t, o)
		e.lowSpace.Store(true)
		mustPut(t, e, "t", "k", "v")
		if e.flusher.logDue() {
			t.Errorf("reserve %d: one value is flushed", reserve)
		}
		for i := 0; !e.flusher.logDue(); i++ {
			if i == 50 {
				t.Errorf("reserve %d: 5 MB are not flushed", reserve)
				break
			}
			mustPut(t, e, "t", versionKey(i), strings.Repeat("v", 100_000))
		}
		must(t, e.Close())
	}
}

// TestReclaimIsTriedAgain: where the flush that is to give room back fails, it is tried again when
// a compaction has made some, and only then.
func TestReclaimIsTriedAgain(t *testing.T) {
	inj := faultfs.NewInjector()
	e := mustOpen(t, quietOptions(faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)))
	for i := range e.Opts.CompactFanout {
		mustPut(t, e, fmt.Sprint("t", i), "k", "v")
		must(t, e.Flush(t.Context()))
	}
	mustPut(t, e, "t", "k", "v")
	inj.Set(faultfs.Rule{Op: faultfs.OpCreate, Sticky: true, Err: syscall.ENOSPC})
	e.reclaim.Store(true)
	if e.workOnce(t.Context()) == nil {
		t.Fatal("a flush without room succeeds")
	}
	inj.Set()
	for _, wakes := range []int{1, 0} { // nothing is left to merge at the second time
		must(t, e.compactDue(t.Context()))
		if len(e.wake) != wakes {
			t.Errorf("the worker is woken %d times, want %d", len(e.wake), wakes)
		}
		if wakes == 1 {
			<-e.wake
		}
	}
	must(t, e.workOnce(t.Context()))
	if n := len(e.state().Segments); n != 2 || e.reclaim.Load() {
		t.Errorf("%d segments, want those of the compaction and of the flush", n)
	}
	must(t, e.Close())
}
