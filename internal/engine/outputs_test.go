package engine

import (
	"slices"
	"testing"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/internal/vfs"
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
		e.DirectoryLimit = 2000
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
	images := imageNums(e.State().Images)
	must(t, e.Close())
	for _, img := range images {
		must(t, mem.Remove(e.Files.Path(files.Image, img)))
	}
	e = open()
	if !e.Report().IndexRebuilt {
		t.Error("the index was not made anew")
	}
	check()
	e.DirectoryLimit = storage.MaxDirectory
	must(t, e.Compact(t.Context()))
	if s := e.Stats(); s.Segments != 1 {
		t.Errorf("compacted into %d segments", s.Segments)
	}
	check()
	must(t, e.Close())
}

// Every item, and every value of the plan once, is in one of the parts.
func TestDivide(t *testing.T) {
	page := &index.Page{Partitions: []index.PagePartition{{ID: "a"}, {ID: "b"}}}
	plan := valuePlan{newest: map[string]index.Ref{}}
	want := map[index.Ref]bool{}
	for i := range 200 {
		ref := index.Ref{LSN: 7, Ord: uint16(i)}
		it := &index.Item{Key: versionKey(i), LSN: 7, Slots: []index.Slot{{Name: "v", Ref: ref}, {Name: "w", Ref: index.Ref{LSN: 7, Ord: uint16(i / 2)}}}}
		page.Partitions[i%2].Items = append(page.Partitions[i%2].Items, it)
		want[ref] = true
		if i%10 == 0 {
			plan.heads = append(plan.heads, ref)
			plan.newest["v"] = ref
		} else {
			plan.history = append(plan.history, oldValue{"v", ref, false})
		}
	}
	extra := index.Ref{LSN: 1}
	plan.history, want[extra] = append(plan.history, oldValue{ref: extra}), true
	parts := divide(plan, page, 3000)
	items := 0
	for _, p := range parts {
		for _, pt := range p.page.Partitions {
			items += len(pt.Items)
		}
		for _, r := range slices.Concat(p.plan.heads, refsOf(p.plan.history)) {
			if !want[r] {
				t.Errorf("value %v is in two parts, or in none before", r)
			}
			delete(want, r)
		}
		for _, r := range p.plan.newest {
			if !slices.Contains(p.plan.heads, r) {
				t.Errorf("the newest value %v is in another part", r)
			}
		}
	}
	if len(parts) < 5 || items != 200 || len(want) > 0 {
		t.Errorf("%d parts with %d items, %d values are left out", len(parts), items, len(want))
	}
	if whole := divide(plan, page, 1<<20); len(whole) != 1 || whole[0].page != page {
		t.Error("a small family is divided")
	}
}

func refsOf(old []oldValue) []index.Ref {
	var out []index.Ref
	for _, o := range old {
		out = append(out, o.ref)
	}
	return out
}
