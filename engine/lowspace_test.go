package engine

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
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
