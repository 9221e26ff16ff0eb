package engine

import (
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// A full image copies few pages of a partition that is not in memory as they are, and makes
// one of many.
func TestFullImageCopiesFewPages(t *testing.T) {
	for before, after := range map[int]int{2: 2, 4: 4, 5: 1} {
		mem := vfs.NewMem(vfs.MemOptions{})
		o := Options{FS: mem, ManualWork: true}
		e := mustOpen(t, o)
		kill := func() {
			t.Helper()
			mem = vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
			o.FS = mem
			e = mustOpen(t, o)
		}
		for i := range before {
			mustPut(t, e, "a", fmt.Sprint(i), fmt.Sprint("value ", i))
			must(t, e.WriteImage(t.Context()))
		}
		kill()
		must(t, e.images.Write(true))
		kill()
		p, err := e.Index.Partition("a")
		must(t, err)
		parts, err := e.Index.Parts(p.Family.ID)
		must(t, err)
		if len(parts) != after {
			t.Errorf("%d pages became %d, want %d", before, len(parts), after)
		}
		for i := range before {
			if got, err := read(e, "a", fmt.Sprint(i)); err != nil || got != fmt.Sprint("value ", i) {
				t.Errorf("%d pages: entry %d is %q, %v", before, i, got, err)
			}
		}
		must(t, e.Close())
	}
}
