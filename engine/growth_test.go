package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// A long life of putting and deleting must not fill memory with what was
// deleted: segments remember it.
func TestDeletionsDoNotPileUp(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1e9, 0)
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true, DeletedMemory: time.Minute, Clock: func() time.Time { return now }}
	e := mustOpen(t, o)
	const rounds, each = 20, 100
	for r := range rounds {
		for i := range each {
			mustPut(t, e, "t", fmt.Sprintf("k%d.%d", r, i), "value")
			id := fmt.Sprintf("gone%d.%d", r, i)
			mustPut(t, e, id, "k", "value")
			must(t, e.Commit(ctx, []string{id}, func(tx *Tx) error { return tx.Drop(id, []byte("data")) }))
		}
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error {
			for i := range each - 1 {
				if err := tx.Delete("t", fmt.Sprintf("k%d.%d", r, i)); err != nil {
					return err
				}
			}
			return nil
		}))
		must(t, e.Flush(ctx))
		now = now.Add(time.Hour)
	}
	check := func(what string) {
		t.Helper()
		th, err := e.Partition("t")
		must(t, err)
		live, all := 0, 0
		th.Ascend("", func(*index.Entry) bool { live++; return true })
		th.Entries(0, func(*index.Entry) { all++ })
		if live != rounds {
			t.Errorf("%s: %d entries, want %d", what, live, rounds)
		}
		if all > live+3*each {
			t.Errorf("%s: %d entries and deletions in memory for %d entries", what, all, live)
		}
	}
	check("at the end")
	v := e.viewOfTombstones(t)
	if n := len(v); n > 3*each {
		t.Errorf("%d deleted threads are remembered, beyond their time", n)
	}
	must(t, e.Close())
	for _, img := range e.state().ImageNums() { // rebuild from segments
		must(t, mem.Remove(e.Files.path(base.ImageFile, img)))
	}
	e = mustOpen(t, o)
	check("rebuilt")
	must(t, e.Close())
}

// viewOfTombstones are the deleted partitions in memory.
func (e *Engine) viewOfTombstones(t *testing.T) []index.Tombstone {
	t.Helper()
	return e.Index.ViewTombstones().Tombstones()
}
