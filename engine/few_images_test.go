package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// Images that come without a flush, those of a Close among them, are full ones only where the
// chain has become long. With a flush they are so earlier.
func TestFewFullImages(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true}
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
		chain := e.manifest.State().Images
		return len(chain), chain[len(chain)-1].Full
	}
	for n := 0; n < 22; n, _ = images() {
		put()
		must(t, e.WriteImage(ctx))
	}
	for want := 23; want <= 24; want++ { // each is a life of its own
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
	for want := 2; want <= 6; want++ {
		put()
		must(t, e.WriteImage(ctx))
		if n, full := images(); n != want || full {
			t.Errorf("a chain of %d images without a flush, its last full: %t; want %d, and no full one", n, full, want)
		}
	}
	put()
	must(t, e.Flush(ctx))
	if n, full := images(); n != 1 || !full {
		t.Errorf("a chain of %d images after a flush, its last full: %t", n, full)
	}
	must(t, e.Close())
}
