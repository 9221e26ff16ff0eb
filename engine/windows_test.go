package engine

import (
	"context"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// Where an open file cannot be removed, a reader keeps what the writer has
// replaced. That must not keep the next writer out; the one after the reader is
// gone removes it.
func TestReaderHoldsLeftoversOnWindows(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
	o := Options{FS: mem, ManualWork: true}
	w := mustOpen(t, o)
	mustPut(t, w, "t", "k", "one")
	must(t, w.Flush(ctx))
	r := mustOpen(t, Options{FS: mem, ReadOnly: true})
	mustPut(t, w, "t", "k", "two")
	must(t, w.Compact(ctx))
	must(t, w.Close())

	w, err := Open("store", o)
	if err != nil {
		t.Fatalf("a reader holds replaced files: %v", err)
	}
	if v, err := read(w, "t", "k"); v != "two" {
		t.Errorf("the writer reads %q, %v", v, err)
	}
	if v, err := read(r, "t", "k"); v != "one" {
		t.Errorf("the reader reads %q, %v", v, err)
	}
	must(t, w.Close())
	must(t, r.Close())
	w = mustOpen(t, o)
	if len(w.Report().RemovedFiles) == 0 {
		t.Error("what the reader held was never removed")
	}
	must(t, w.Close())
}
