package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

func mustOpen(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustPut(t *testing.T, e *Engine, id, key, value string) {
	t.Helper()
	v, err := NewValue([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	err = e.Commit(context.Background(), []string{id}, func(tx *Tx) error {
		return tx.Put(id, key, index.FlagHead, []SlotIn{{Name: "v", Value: &v}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read is the value of an entry's first slot.
func read(e *Engine, id, key string) (string, error) {
	th, err := e.Partition(id)
	if err != nil {
		return "", err
	}
	it := th.Get(key)
	if it == nil {
		return "", fmt.Errorf("thread %s has no entry %s", id, key)
	}
	b, err := e.ReadValue(context.Background(), th.Family, it.Slots.At(0).Ref)
	return string(b), err
}

// spoil overwrites the last bytes of the only file with a suffix.
func spoil(t *testing.T, fsys vfs.FS, suffix string) {
	t.Helper()
	names, err := fsys.List("store")
	must(t, err)
	for _, n := range names {
		if !strings.HasSuffix(n, suffix) {
			continue
		}
		f, err := fsys.OpenReadWrite(filepath.Join("store", n))
		must(t, err)
		size, err := f.Size()
		must(t, err)
		_, err = f.WriteAt([]byte("damage"), size-10)
		must(t, err)
		must(t, f.Close())
		return
	}
	t.Fatalf("no file %s in %v", suffix, names)
}

// Damage costs a reader what it costs the writer: of a segment its values, of
// an image nothing.
func TestDamagedFilesWhenReadOnly(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		for _, suffix := range []string{".seg", ".img"} {
			mem := vfs.NewMem(vfs.MemOptions{})
			e := mustOpen(t, Options{FS: mem, ManualWork: true})
			mustPut(t, e, "t", "k", "in a segment")
			must(t, e.Flush(context.Background()))
			mustPut(t, e, "u", "k", "in the log")
			must(t, e.Close())
			// Only one image, so that the one spoilt is the one read.
			e = mustOpen(t, Options{FS: mem, ManualWork: true})
			e.images.mu.Lock()
			e.images.setBad()
			must(t, e.images.Write(false))
			e.images.mu.Unlock()
			must(t, e.Close())
			spoil(t, mem, suffix)

			e, err := Open("store", Options{FS: mem, ManualWork: true, ReadOnly: readOnly})
			if err != nil {
				t.Errorf("damage in %s, read-only %v: %v", suffix, readOnly, err)
				continue
			}
			if rebuilt := e.Report().IndexRebuilt; rebuilt != (suffix == ".img") {
				t.Errorf("damage in %s, read-only %v: index rebuilt %v", suffix, readOnly, rebuilt)
			}
			if v, err := read(e, "u", "k"); v != "in the log" {
				t.Errorf("damage in %s, read-only %v: log value %q, %v", suffix, readOnly, v, err)
			}
			v, err := read(e, "t", "k")
			if suffix == ".seg" && !errors.Is(err, fault.ErrCorrupt) || suffix == ".img" && v != "in a segment" {
				t.Errorf("damage in %s, read-only %v: segment value %q, %v", suffix, readOnly, v, err)
			}
			must(t, e.Close())
		}
	}
}
