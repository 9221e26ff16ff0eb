package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// A flush reads each value once. It leaves in the cache what those who read keep there, and
// puts nothing of its own beside it.
func TestFlushLeavesTheCacheAlone(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, PatchMin: 64})
	defer e.Close()
	text := strings.Repeat("a text that grows, ", 20)
	for i := range 40 {
		small, err := NewValue(fmt.Appendf(nil, "small %d", i))
		must(t, err)
		text += fmt.Sprint("line ", i)
		long, err := e.NewRevision(nil, Series{Partition: "t", Name: "long"}, []byte(text))
		must(t, err)
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error {
			return tx.Put("t", fmt.Sprintf("k%03d", i), 0, []SlotIn{{Name: "small", Value: &small}, {Name: "long", Value: &long}})
		}))
	}
	if e.Metrics().Patches == 0 {
		t.Fatal("no value is a patch: nothing is tested")
	}
	must(t, e.Flush(ctx))
	if n := e.cache.bytes(); n != 0 {
		t.Errorf("the flush left %d bytes in the cache", n)
	}
}
