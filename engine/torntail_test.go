package engine

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// TestTornTailIsRemoved: what a crash has left of a tail that was being saved goes when the store is opened for writing, and a
// tail that is whole stays.
func TestTornTailIsRemoved(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, quietOptions(mem))
	mustAll(t, putOne(e, "t", "k", "v"), e.Close())
	whole := TailName(7)
	for _, name := range []string{whole, whole + tornSuffix} {
		f, err := mem.Create(filepath.Join(e.Dir, name))
		mustAll(t, err, f.Close())
	}
	r := mustOpen(t, Options{FS: mem, ReadOnly: true})
	mustAll(t, r.Close())
	e = mustOpen(t, quietOptions(mem))
	if got := e.Report().RemovedFiles; !slices.Equal(got, []string{whole + tornSuffix}) {
		t.Errorf("removed: %v", got)
	}
	mustAll(t, e.Close())
	names, err := mem.List(e.Dir)
	if mustAll(t, err); !slices.Contains(names, whole) || slices.Contains(names, whole+tornSuffix) {
		t.Errorf("there are %v", names)
	}
}
