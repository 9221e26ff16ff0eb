package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// Copies cost the log a few bytes each, but the index all their entries. However
// many are made between two images, the store can be saved, flushed and closed.
func TestManyCopiesBetweenImages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true}
	e := mustOpen(t, o)
	const entries, copies = 50, 400
	key := func(i int) string { return noise(i, 1000) } // what a page cannot shorten
	v, err := NewValue([]byte("value"))
	must(t, err)
	for i := range entries {
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error {
			return tx.Put("t", key(i), index.FlagHead, []SlotIn{{Name: "channel", Tag: "1", Value: &v}})
		}))
	}
	for i := range copies {
		id := fmt.Sprintf("copy%03d", i)
		must(t, e.Commit(ctx, []string{"t", id}, func(tx *Tx) error { return tx.Copy("t", id) }))
	}
	th, err := e.Index.Partition("t")
	if err != nil {
		t.Fatal(err)
	}
	page := &index.Page{Partitions: []index.PagePartition{{ID: th.ID, Birth: th.Birth}}}
	th.Entries(0, func(it *index.Entry) { page.Partitions[0].Entries = append(page.Partitions[0].Entries, it) })
	index.SortEntries(page.Partitions[0].Entries)
	if size := copies * len(index.EncodePage(page)); size <= snapshot.MaxPage {
		t.Fatalf("the copies take %d bytes of index, not enough to test with", size)
	}
	check := func(what string) {
		t.Helper()
		for _, id := range []string{fmt.Sprintf("copy%03d", copies-1)} {
			th, err := e.Partition(id)
			must(t, err)
			n := 0
			th.Ascend("", func(*index.Entry) bool { n++; return true })
			if n != entries {
				t.Errorf("%s: %s has %d entries", what, id, n)
			}
			if got, err := read(e, id, key(entries-1)); got != "value" {
				t.Errorf("%s: %s reads %q, %v", what, id, got, err)
			}
		}
	}
	must(t, e.WriteImage(ctx))
	must(t, e.Close())
	e = mustOpen(t, o)
	check("from the image")
	must(t, e.Flush(ctx))
	must(t, e.Close())
	e = mustOpen(t, o)
	check("from a segment")
	must(t, e.Close())
}

// What is committed while an image is written is not in it, and counts for the
// next: else replay could grow beyond Options.ImageBytes.
func TestCommitsBesideAnImageCountForTheNext(t *testing.T) {
	b := &besideFS{FS: vfs.NewMem(vfs.MemOptions{})}
	e := mustOpen(t, Options{FS: b, ManualWork: true})
	mustPut(t, e, "t", "k", "in the image")
	b.beside = func() {
		b.beside = nil
		mustPut(t, e, "t", "l", "beside it")
	}
	must(t, e.WriteImage(context.Background()))
	if b.beside != nil || e.images.unsaved() == 0 {
		t.Errorf("%d bytes count for the next image", e.images.unsaved())
	}
	must(t, e.Close())
}
