package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// checkPages checks that images know of no record that a flush has moved into segments, and of
// no place in a log file that is gone.
func checkPages(e *Engine, v *View) error {
	st := e.state()
	logs := map[base.FileNum]bool{}
	for _, l := range st.Logs {
		logs[l.Num] = true
	}
	var wrong error
	err := v.Index.Families(func(id uint64, parts []index.Part) bool {
		for _, part := range parts {
			if !e.Files.isImage(part.File) {
				continue
			}
			var page *index.Page
			if page, wrong = e.readPart(id, part); wrong != nil {
				return false
			}
			for _, pt := range page.Partitions {
				for _, it := range pt.Entries {
					if it.LSN < st.FloorLSN && pt.Birth < st.FloorLSN {
						wrong = fmt.Errorf("family %d: image %d has entry %s of record %d, the floor is %d", id, part.File, it.Key, it.LSN, st.FloorLSN)
					}
				}
			}
			for _, p := range page.Values {
				if p.Loc.InLog() && !logs[p.Loc.File] {
					wrong = fmt.Errorf("family %d: image %d has the place of %v in log file %d, which is gone", id, part.File, p.Ref, p.Loc.File)
				}
			}
		}
		return wrong == nil
	})
	if err != nil {
		return err
	}
	return wrong
}

// An image that is due is written beside a flush: what is committed meanwhile does not wait for
// the end of it. The flush then takes out of the image what it has moved, also where a copy was
// made of it meanwhile.
func TestImageBesideAFlush(t *testing.T) {
	b := &besideFS{FS: vfs.NewMem(vfs.MemOptions{})}
	o := Options{FS: b, ManualWork: true, ImageBytes: 1, Hot: lastHot, MemoryBudget: -1}
	e := mustOpen(t, o)
	mustPut(t, e, "z", "first", "of the stack of images")
	must(t, e.WriteImage(t.Context()))
	want := map[string]string{}
	put := func(id, key, value string) {
		mustPut(t, e, id, key, value)
		want[id+"/"+key] = value
	}
	put("m", "k", strings.Repeat("before the seal ", 100))
	put("n", "k", strings.Repeat("another family ", 100))
	before := e.imagesWritten.Load()
	b.beside = func() {
		b.beside = nil
		must(t, e.Commit(context.Background(), []string{"m", "a"}, func(tx *Tx) error { return tx.Copy("m", "a") }))
		want["a/k"] = want["m/k"]
		put("m", "l", strings.Repeat("behind the seal ", 100))
	}
	must(t, e.Flush(t.Context()))
	if n := e.imagesWritten.Load() - before; n != 1 || b.beside != nil {
		t.Errorf("%d images beside the flush, want 1", n)
	}
	for range 2 {
		v, err := e.View()
		must(t, err)
		if err := checkPages(e, v); err != nil {
			t.Error(err)
		}
		v.Release()
		for at, value := range want {
			id, key, _ := strings.Cut(at, "/")
			if got, err := read(e, id, key); err != nil || got != value {
				t.Errorf("%s: %q, %v", at, got, err)
			}
		}
		must(t, e.Close())
		e = mustOpen(t, o)
	}
	mustPut(t, e, "m", "m", "with nothing behind it")
	before = e.imagesWritten.Load()
	must(t, e.Flush(t.Context()))
	if n := e.imagesWritten.Load() - before; n != 0 {
		t.Errorf("%d images beside a flush with no commits", n)
	}
	must(t, e.Close())
}

// A flush goes on without the image that cannot be written beside it.
func TestImageBesideFails(t *testing.T) {
	b := &besideFS{FS: vfs.NewMem(vfs.MemOptions{})}
	fails := errors.New("no image can be written")
	full := &noImageFS{FS: b}
	o := Options{FS: full, ManualWork: true, ImageBytes: 1, Hot: lastHot}
	e := mustOpen(t, o)
	mustPut(t, e, "z", "first", "of the stack of images")
	must(t, e.WriteImage(t.Context()))
	mustPut(t, e, "m", "k", "before the seal")
	mustPut(t, e, "n", "k", "another family")
	b.beside = func() {
		b.beside = nil
		mustPut(t, e, "m", "l", "behind the seal")
		full.err = fails
	}
	must(t, e.Flush(t.Context()))
	if full.tries != 1 {
		t.Errorf("%d images were tried, want 1", full.tries)
	}
	for range 2 {
		for at, value := range map[string]string{"z/first": "of the stack of images", "m/k": "before the seal", "n/k": "another family", "m/l": "behind the seal"} {
			id, key, _ := strings.Cut(at, "/")
			if got, err := read(e, id, key); err != nil || got != value {
				t.Errorf("%s: %q, %v", at, got, err)
			}
		}
		must(t, e.Close())
		e = mustOpen(t, o)
	}
	must(t, e.Close())
}

// noImageFS fails to create one image after err is set.
type noImageFS struct {
	vfs.FS
	err   error
	tries int
}

func (f *noImageFS) Create(name string) (vfs.File, error) {
	if err := f.err; err != nil && strings.HasSuffix(name, ".img") {
		f.err = nil
		f.tries++
		return nil, err
	}
	return f.FS.Create(name)
}
