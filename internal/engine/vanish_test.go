package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/internal/vfs"
)

// readHookFS calls a function before each read of a segment.
type readHookFS struct {
	vfs.FS
	hook func()
}

func (r *readHookFS) Open(name string) (vfs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".seg") {
		return f, err
	}
	return &readHookFile{f, r}, nil
}

type readHookFile struct {
	vfs.File
	fs *readHookFS
}

func (f *readHookFile) ReadAt(b []byte, off int64) (int, error) {
	if hook := f.fs.hook; hook != nil {
		f.fs.hook = nil
		hook()
	}
	return f.File.ReadAt(b, off)
}

// A cold thread that is deleted, and whose segments are compacted away, while a
// reader is loading it, is not there: that is no error.
func TestThreadVanishesWhileLoading(t *testing.T) {
	ctx := context.Background()
	hooked := &readHookFS{FS: vfs.NewMem(vfs.MemOptions{})}
	e := mustOpen(t, Options{FS: hooked, ManualWork: true})
	for i := range 2 { // two pages, in two segments
		mustPut(t, e, "t", fmt.Sprint("k", i), "value")
		must(t, e.Flush(ctx))
	}
	must(t, e.Close())

	e = mustOpen(t, Options{FS: hooked, ManualWork: true})
	for _, s := range e.state().Segments { // opening is not loading
		h, err := e.files.acquire(s.Num)
		must(t, err)
		e.files.release(h)
	}
	vanished := false
	hooked.hook = func() {
		vanished = true
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
		mustPut(t, e, "u", "k", "value")
		must(t, e.Compact(ctx))
	}
	th, err := e.Thread("t")
	if !vanished {
		t.Fatal("the thread was loaded without reading a segment")
	}
	if th != nil || err != nil {
		t.Errorf("a thread that was deleted while it was loaded: %v, %v", th, err)
	}
	must(t, e.Close())
}
