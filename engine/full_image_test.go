package engine

import (
	"context"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// A full image makes the page of a family anew if all of it is in memory. Else it keeps what
// earlier images have: of a copy that did not change since, and of a partition that was not
// read since Open.
func TestFullImageKeepsAll(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true}
	e := mustOpen(t, o)
	kill := func() {
		t.Helper()
		mem = vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
		o.FS = mem
		e = mustOpen(t, o)
	}
	want := map[[2]string]string{}
	put := func(id, key string) {
		t.Helper()
		mustPut(t, e, id, key, "value of "+id+" "+key)
		want[[2]string{id, key}] = "value of " + id + " " + key
	}
	check := func(what string) {
		t.Helper()
		for at, value := range want {
			if got, err := read(e, at[0], at[1]); err != nil || got != value {
				t.Errorf("%s: %v is %q, %v", what, at, got, err)
			}
		}
	}
	put("a", "1")
	must(t, e.Commit(context.Background(), []string{"a", "copy"}, func(tx *Tx) error { return tx.Copy("a", "copy") }))
	want[[2]string{"copy", "1"}] = want[[2]string{"a", "1"}]
	put("copy", "2")
	put("b", "1")
	must(t, e.WriteImage(t.Context()))
	put("a", "3")
	put("b", "2")
	must(t, e.images.Write(true))
	b, err := e.Index.Partition("b")
	must(t, err)
	if parts, err := e.Index.Parts(b.Family.ID); err != nil || len(parts) != 1 {
		t.Errorf("the family in memory has %d pages, %v; want 1", len(parts), err)
	}
	kill()
	check("after a full image")

	must(t, e.Flush(t.Context()))
	put("b", "3")
	must(t, e.WriteImage(t.Context()))
	kill()
	put("b", "4")
	kill() // what was put is replayed onto a partition whose entries are on disk
	if b, err = e.Index.Partition("b"); err != nil || !b.Cold() {
		t.Fatalf("the partition is in memory: %v, %v", b, err)
	}
	must(t, e.images.Write(true))
	kill()
	check("after a full image of cold partitions")
	must(t, e.Close())
}
