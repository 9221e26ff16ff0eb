package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
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

// A cold partition that is deleted, and whose segments are compacted away, while a
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
		h, err := e.Files.Acquire(s.Num)
		must(t, err)
		e.Files.Release(h)
	}
	vanished := false
	hooked.hook = func() {
		vanished = true
		must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
		mustPut(t, e, "u", "k", "value")
		must(t, e.Compact(ctx))
	}
	th, err := e.Partition("t")
	if !vanished {
		t.Fatal("the thread was loaded without reading a segment")
	}
	if th != nil || err != nil {
		t.Errorf("a thread that was deleted while it was loaded: %v, %v", th, err)
	}
	must(t, e.Close())
}

// Two views of a partition that is deleted share what is known of its family. What the
// older one was told by its pages lies in a log file that goes with it, and the newer
// one must not count on that.
func TestOlderViewGoesFirst(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	mustPut(t, e, "t", "k", "value")
	must(t, e.Close()) // with an image, whose page names the log
	e = mustOpen(t, Options{FS: e.Around(), ManualWork: true, MemoryBudget: -1, CacheBytes: -1})
	older, err := e.View()
	must(t, err)
	must(t, e.Flush(ctx))
	newer, err := e.View()
	must(t, err)
	must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
	must(t, e.Compact(ctx))

	var held []*index.Partition
	for _, v := range []*View{older, newer} {
		th, err := v.Partition("t")
		must(t, err)
		held = append(held, th)
		got, err := e.ReadValue(ctx, th.Family, th.Get("k").Slots.At(0).Ref)
		if err != nil || string(got) != "value" {
			t.Errorf("the view reads %q, %v", got, err)
		}
		v.Release()
	}
	if held[0].Family != held[1].Family {
		t.Error("the views do not share the family: the test shows nothing")
	}
	must(t, e.Close())
}
