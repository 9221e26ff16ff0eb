package engine

import (
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// A family too large for one directory is divided over segments, by flush and by
// compaction, and nothing of it is lost: not to readers, not after opening the store
// again, and not when the index is made anew from the segments.
func TestLargeFamilyIsDivided(t *testing.T) {
	const n = 120
	mem := vfs.NewMem(vfs.MemOptions{})
	o := quietOptions(mem)
	o.Hot = lastHot
	open := func() *Engine {
		e := mustOpen(t, o)
		e.directoryLimit = 2000
		return e
	}
	e := open()
	var all []int
	check := func() {
		t.Helper()
		wantChat(t, e, "t", all...)
		wantChat(t, e, "copy", all[:n/2]...)
	}
	for i := 10; i < 10+n; i++ {
		putVersion(t, e, "t", versionKey(i), chat(i))
		if all = append(all, i); len(all) == n/2 {
			must(t, e.Commit(t.Context(), []string{"t", "copy"}, func(tx *Tx) error { return tx.Copy("t", "copy") }))
			must(t, e.Flush(t.Context()))
			check()
		}
	}
	must(t, e.Flush(t.Context()))
	if s := e.Stats(); s.Segments < 6 {
		t.Errorf("%d segments after two flushes", s.Segments)
	}
	check()
	must(t, e.Compact(t.Context()))
	if s := e.Stats(); s.Segments < 6 || e.Metrics().SegmentPatches == 0 {
		t.Errorf("compacted into %d segments, %d patches", s.Segments, e.Metrics().SegmentPatches)
	}
	check()
	must(t, e.Close())
	e = open()
	check()
	images := e.state().ImageNums()
	must(t, e.Close())
	for _, img := range images {
		must(t, mem.Remove(e.Files.path(base.ImageFile, img)))
	}
	e = open()
	if !e.Report().IndexRebuilt {
		t.Error("the index was not made anew")
	}
	check()
	e.directoryLimit = maxDirectory
	must(t, e.Compact(t.Context()))
	if s := e.Stats(); s.Segments != 1 {
		t.Errorf("compacted into %d segments", s.Segments)
	}
	check()
	must(t, e.Close())
}
