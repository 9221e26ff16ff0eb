package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// Each test here is a loss that the crash, fault and model tests found.

func quietOptions(fsys vfs.FS) Options {
	return Options{FS: fsys, ManualWork: true, Inline: true, LogFileSize: 64 << 10, CacheBytes: -1}
}

func mustAll(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func putOne(e *Engine, id, key, value string) error {
	v, err := NewValue([]byte(value))
	if err != nil {
		return err
	}
	return e.Commit(context.Background(), []string{id}, func(tx *Tx) error {
		return tx.Put(id, key, index.FlagHead, []SlotIn{{Name: "s", Value: &v}})
	})
}

// valueOf reads the value of an entry; "" if there is no such entry.
func valueOf(e *Engine, id, key string) (string, error) {
	t, err := e.Partition(id)
	if err != nil || t == nil {
		return "", err
	}
	it := t.Get(key)
	if it == nil {
		return "", nil
	}
	b, err := e.ReadValue(context.Background(), t.Family, it.Slots.At(0).Ref)
	return string(b), err
}

func wantValue(t *testing.T, e *Engine, id, key, want string) {
	t.Helper()
	got, err := valueOf(e, id, key)
	if err != nil || got != want {
		t.Fatalf("%s/%s is %q, want %q: %v", id, key, got, want, err)
	}
}

// A partition that begins while a flush is under way is in no segment yet when the
// flush ends. It must be in that of the next.
func TestThreadBegunBesideFlush(t *testing.T) {
	for _, copied := range []bool{false, true} {
		t.Run(fmt.Sprint("copied ", copied), func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{})
			b := &besideFS{FS: mem}
			e := mustOpen(t, quietOptions(b))
			mustAll(t, putOne(e, "old", "k", "1"))
			var err error
			b.beside = sync.OnceFunc(func() {
				if !copied {
					err = putOne(e, "new", "k", "1")
					return
				}
				err = e.Commit(t.Context(), []string{"old", "new"}, func(tx *Tx) error { return tx.Copy("old", "new") })
			})
			mustAll(t, e.Flush(t.Context()), err)
			mustAll(t, e.Flush(t.Context()), e.Close())
			e = mustOpen(t, quietOptions(mem))
			wantValue(t, e, "new", "k", "1")
			mustAll(t, e.Close())
		})
	}
}

// A value whose partition was copied and deleted, all in the part of the log that a
// crash leaves unpromised, is found at its new place through the copy.
func TestCopyOutlivesRelocation(t *testing.T) {
	fs := crashfs.New()
	o := quietOptions(fs)
	o.Sync = wal.SyncNever
	e := mustOpen(t, o)
	mustAll(t, putOne(e, "src", "k", "value"))
	mustAll(t, e.Commit(t.Context(), []string{"src", "dst"}, func(tx *Tx) error { return tx.Copy("src", "dst") }))
	mustAll(t, e.Commit(t.Context(), []string{"src"}, func(tx *Tx) error { return tx.Drop("src", nil) }))
	fs.Kill() // what was written is in the page cache still
	e2 := mustOpen(t, o)
	if e2.Report().Rewritten != 3 {
		t.Fatalf("%d records copied, want 3", e2.Report().Rewritten)
	}
	mustAll(t, e2.WriteImage(t.Context()))
	for s := range fs.States(fs.Len(), crashfs.Options{}) { // the first: what was not synced is lost
		o.FS = s.FS()
		e := mustOpen(t, o)
		wantValue(t, e, "dst", "k", "value")
		mustAll(t, e.Close())
		break
	}
	mustAll(t, e2.Close())
	_ = e.Close() // of the process that was killed
}

// Images that the manifest has no room for are as if never written: what they
// held goes into the next one.
func TestImageRefusedForSpace(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	inj := faultfs.NewInjector(faultfs.Rule{Op: faultfs.OpCreate, PathGlob: "MANIFEST-*.tmp", N: 2, Sticky: true, Err: syscall.ENOSPC})
	e := mustOpen(t, quietOptions(faultfs.New(mem, inj)))
	refused := 0
	for i := 0; refused < 3; i++ {
		if i == 1000 {
			t.Fatal("the manifest never needed a new file")
		}
		mustAll(t, putOne(e, fmt.Sprint("t", i), "k", fmt.Sprint(i)))
		if err := e.WriteImage(t.Context()); err != nil {
			if !errors.Is(err, fault.ErrDiskFull) {
				t.Fatal(err)
			}
			refused++
		}
	}
	inj.Set()
	mustAll(t, putOne(e, "last", "k", "v"), e.WriteImage(t.Context()))
	n := e.Index.Len()
	img := mem.Image() // a crash here: nothing is replayed but what is after the image
	mustAll(t, e.Close())
	e = mustOpen(t, quietOptions(vfs.NewMemFrom(img, vfs.MemOptions{})))
	if e.Index.Len() != n {
		t.Fatalf("%d threads, want %d", e.Index.Len(), n)
	}
	for i := range n - 1 {
		wantValue(t, e, fmt.Sprint("t", i), "k", fmt.Sprint(i))
	}
	if len(e.Report().RemovedFiles) > 0 {
		t.Errorf("refused images were left behind: %v", e.Report().RemovedFiles)
	}
	mustAll(t, e.Close())
}

// Two Closes at once close once, and both wait for the end.
func TestCloseTwiceAtOnce(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	o := quietOptions(mem)
	o.ManualWork, o.Inline, o.FlushBytes, o.ImageBytes = false, false, 1, 1
	e := mustOpen(t, o)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { // some of these come too late, and are told
			for n := range 20 {
				if err := putOne(e, fmt.Sprint("t", i), fmt.Sprint(n), "v"); err != nil && !errors.Is(err, fault.ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if err := putOne(e, "late", "k", "v"); !errors.Is(err, fault.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
	wg.Wait()
	e = mustOpen(t, o)
	if r := e.Report(); !r.CleanClose || r.Replayed > 0 {
		t.Errorf("after Close: %+v", r)
	}
	mustAll(t, e.Close())
}

// What was forgotten by a copy stays forgotten, and what is remembered of deleted
// partitions is, when the index is rebuilt from compacted segments.
func TestMemoriesWithoutImage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, quietOptions(mem))
	drop := func(id string) {
		t.Helper()
		mustAll(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Drop(id, []byte("memory of "+id)) }))
	}
	for _, id := range []string{"src", "dst", "gone"} {
		mustAll(t, putOne(e, id, "k", id))
	}
	mustAll(t, e.Flush(t.Context()))
	drop("dst")
	drop("gone")
	mustAll(t, e.Flush(t.Context()))
	mustAll(t, e.Commit(t.Context(), []string{"src", "dst"}, func(tx *Tx) error { return tx.Copy("src", "dst") }))
	mustAll(t, e.Compact(t.Context()), e.Compact(t.Context()), e.Close())
	for _, im := range e.manifest.State().Images {
		mustAll(t, mem.Remove("store/"+base.ImageFile.Name(im.Num)))
	}
	e = mustOpen(t, quietOptions(mem))
	if !e.Report().IndexRebuilt {
		t.Fatal("the index was not rebuilt")
	}
	wantValue(t, e, "dst", "k", "src")
	mustAll(t, e.Commit(t.Context(), nil, func(tx *Tx) error {
		if m, ok := tx.Tombstone("gone"); !ok || string(m.Data) != "memory of gone" {
			t.Errorf("gone is remembered as %q", m.Data)
		}
		if m, ok := tx.Tombstone("dst"); ok {
			t.Errorf("dst is remembered as %q, though it is a copy now", m.Data)
		}
		return nil
	}))
	mustAll(t, e.Close())
}

// A compaction of some segments keeps their tombstones: older segments hold what
// these delete, and a rebuild of the index would bring it back.
func TestTombstonesOutliveCompactionOfSome(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, quietOptions(mem))
	mustAll(t, putOne(e, "gone", "k", "1"), putOne(e, "kept", "k", "1"), e.Flush(t.Context()))
	mustAll(t, e.Commit(t.Context(), []string{"gone"}, func(tx *Tx) error { return tx.Drop("gone", nil) }))
	mustAll(t, putOne(e, "kept", "l", "2"), e.Flush(t.Context()))
	segs := e.manifest.State().Segments
	if len(segs) != 2 {
		t.Fatalf("%d segments", len(segs))
	}
	e.compactor.mu.Lock()
	err := e.compactor.run(t.Context(), compactionTask{inputs: segs[1:]})
	e.compactor.mu.Unlock()
	mustAll(t, err, e.Close())
	for _, im := range e.manifest.State().Images {
		mustAll(t, mem.Remove("store/"+base.ImageFile.Name(im.Num)))
	}
	e = mustOpen(t, quietOptions(mem))
	if !e.Report().IndexRebuilt {
		t.Fatal("the index was not rebuilt")
	}
	wantValue(t, e, "gone", "k", "")
	wantValue(t, e, "kept", "k", "1")
	wantValue(t, e, "kept", "l", "2")
	mustAll(t, e.Close())
}
