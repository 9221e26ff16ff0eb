package wal

import (
	"testing"

	"github.com/stele-go/stele/internal/vfs"
)

// Zeros are written ahead of small batches, which they make faster, and not of
// large ones, which they would make twice as much to write.
func TestZerosAheadOfSmallBatches(t *testing.T) {
	for _, x := range []struct {
		size, n int
		zeros   bool
	}{{1 << 10, 200, true}, {256 << 10, 20, false}} {
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		l := w.open(t, func(o *Options) { o.FileSize = 64 << 20 })
		mustCommit(t, l, 0, x.size)
		begun := l.Metrics().Preallocated // of the file when it was made
		for i := range x.n {
			mustCommit(t, l, i, x.size)
		}
		if zeros := l.Metrics().Preallocated > begun; zeros != x.zeros {
			t.Errorf("batches of %d bytes: zeros were written ahead: %v", x.size, zeros)
		}
		mustClose(t, l)
	}
}
