package wal

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
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

// File numbers grow along the log, though a spare file comes late: the committer had made
// the next file itself, and that was sealed before it needed another.
func TestLateSpare(t *testing.T) {
	w, h := hooked(t)
	l := w.open(t, func(o *Options) { o.Inline = false })
	mustCommit(t, l, 0, 10)
	asked, late := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	h.set(func(op fsOp) error {
		if op.kind == "create" && held.CompareAndSwap(false, true) {
			close(asked)
			<-late
		}
		return nil
	})
	n := 1
	for ; l.Position().Offset <= MinFileSize/2; n++ {
		mustCommit(t, l, n, 1<<10)
	}
	<-asked // the first file is full enough for a spare
	for len(w.manifest()) < 2 {
		mustCommit(t, l, n, 1<<10)
		n++
	}
	close(late)
	for made := false; !made; runtime.Gosched() {
		l.prealloc.mu.Lock()
		made = l.prealloc.mu.spare != nil
		l.prealloc.mu.Unlock()
	}
	if err := l.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, l, n, 10)
	if files := w.manifest(); !slices.IsSorted(files) {
		t.Errorf("the log consists of the files %v, in this order", files)
	}
	halfClose(l)
	o := w.recoverOptions()
	o.Files = nil
	if got, _, err := readLog(o); err != nil || len(got) != n+1 {
		t.Errorf("recovery without a manifest finds %d of %d records: %v", len(got), n+1, err)
	}
}
