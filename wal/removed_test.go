package wal

import (
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base"
)

// TestLateSyncOfARemovedFile: a sync that waited for another of the same bytes promises
// nothing new. Once they are durable, the file may be flushed and removed before the
// late one has its turn: the log is in order, and goes on.
func TestLateSyncOfARemovedFile(t *testing.T) {
	w, _ := hooked(t)
	l := w.open(t, func(o *Options) { o.Mode, o.Inline = SyncNever, false })
	mustCommit(t, l, 1, 10)
	f, pos := l.hold() // as the late one does before it waits
	if f.synced.Load() >= pos.Offset {
		t.Fatal("there is nothing to sync")
	}
	if err := l.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, l, 2, 10)
	if err := w.fs.Remove(filepath.Join(w.dir, base.LogFile.Name(f.info.Num))); err != nil {
		t.Fatal(err)
	}
	if err := l.syncFile(f, pos.Offset, pos.NextLSN-1); err != nil {
		t.Fatalf("a late sync: %v", err)
	}
	f.busy.Done()
	mustCommit(t, l, 3, 10)
	mustClose(t, l)
}
