package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/internal/vfs"
)

// A Close leaves a full image to the next life of the store, while the chain of images is
// short. It does not let the chain grow without bound.
func TestCloseWritesNoFullImage(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	o := storage.Options{FS: mem, ManualWork: true}
	e := mustOpen(t, o)
	v, err := NewValue([]byte("value"))
	must(t, err)
	put := func() {
		t.Helper()
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error {
			return tx.Put("t", fmt.Sprintf("k%03d", tx.LSN()), 0, []SlotIn{{Name: "v", Value: &v}})
		}))
	}
	images := func() (n int, full bool) {
		chain := e.Manifest.State().Images
		return len(chain), chain[len(chain)-1].Full
	}
	for n := 0; n < 6; n, _ = images() {
		put()
		must(t, e.WriteImage(ctx))
	}
	for want := 7; want <= 12; want++ { // each is a life of its own
		put()
		must(t, e.Close())
		e = mustOpen(t, o)
		if n, full := images(); n != want || full {
			t.Fatalf("a chain of %d images after Close, its last full: %t; want %d, and no full one", n, full, want)
		}
	}
	put()
	must(t, e.Close())
	e = mustOpen(t, o)
	if n, full := images(); n != 1 || !full {
		t.Errorf("a chain of %d images after one more Close, its last full: %t", n, full)
	}
	put()
	for range 6 { // what a worker writes does not wait so long
		put()
		must(t, e.WriteImage(ctx))
	}
	if n, full := images(); n != 1 || !full {
		t.Errorf("a chain of %d images in one life, its last full: %t", n, full)
	}
	must(t, e.Close())
}
