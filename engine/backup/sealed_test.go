package backup

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
)

// TestSealedBackup: an encrypted store is backed up and restored encrypted, and
// neither goes without its keys.
func TestSealedBackup(t *testing.T) {
	keys, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{3}, seal.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	o := engine.Options{FS: mem, ManualWork: true, Keys: keys}
	e, err := engine.Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := engine.NewValue(bytes.Repeat([]byte("MARKER "), 30))
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		t.Helper()
		err := e.Commit(t.Context(), []string{"MARKER"}, func(tx *engine.Tx) error {
			return tx.Put("MARKER", key, 0, []engine.SlotIn{{Name: "MARKER", Value: &v}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("one")
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("two")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(t.Context(), "store", "backup", Options{Engine: engine.Options{FS: mem}}); !errors.Is(err, fault.ErrKey) {
		t.Errorf("without keys: %v", err)
	}
	if _, err := Make(t.Context(), "store", "backup", Options{Engine: o}); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), "backup", "refused", Options{Engine: engine.Options{FS: mem}}); !errors.Is(err, fault.ErrKey) {
		t.Errorf("restored without keys: %v", err)
	}
	if _, err := Restore(t.Context(), "backup", "again", Options{Engine: o}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"backup", "again"} {
		names, err := mem.List(dir)
		if err != nil || len(names) < 3 {
			t.Fatalf("%s: %v, %v", dir, names, err)
		}
		for _, n := range names {
			f, err := mem.Open(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			size, err := f.Size()
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, size)
			_, _ = f.ReadAt(b, 0)
			if err := f.Close(); err != nil || bytes.Contains(b, []byte("MARKER")) {
				t.Errorf("%s/%s has a marker in clear, or %v", dir, n, err)
			}
		}
	}
	if e, err = engine.Open("again", o); err != nil {
		t.Fatal(err)
	}
	th, err := e.Partition("MARKER")
	if err != nil || th == nil {
		t.Fatalf("%v, %v", th, err)
	}
	n := 0
	th.Entries(0, func(it *index.Entry) {
		n++
		if b, err := e.ReadValue(t.Context(), th.Family, it.Slots.At(0).Ref); err != nil || len(b) != 210 {
			t.Errorf("%s: %d bytes, %v", it.Key, len(b), err)
		}
	})
	if n != 2 {
		t.Errorf("%d entries", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
