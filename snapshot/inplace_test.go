package snapshot

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// syncHook calls a hook before a file is synced.
type syncHook struct {
	vfs.FS
	hook func()
}

type syncHookFile struct {
	vfs.File
	fs *syncHook
}

func (h *syncHook) OpenReadWrite(name string) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name)
	return syncHookFile{f, h}, err
}

func (f syncHookFile) SyncData() error {
	if hook := f.fs.hook; hook != nil {
		f.fs.hook = nil
		hook()
	}
	return f.File.SyncData()
}

// TestManifestChangedInPlace: a manifest that somebody changes in place under its writer is
// replaced by one that has the whole state, at the next edit or by Close.
func TestManifestChangedInPlace(t *testing.T) {
	garbage := bytes.Repeat([]byte{0xa5}, 100)
	for what, change := range map[string]func(f vfs.File, older []byte, size int64) error{
		"emptied":  func(f vfs.File, _ []byte, _ int64) error { return f.Truncate(0) },
		"cut":      func(f vfs.File, _ []byte, size int64) error { return f.Truncate(size - 1) },
		"extended": func(f vfs.File, _ []byte, size int64) error { return f.Truncate(size + 1) },
		"an older copy": func(f vfs.File, older []byte, _ int64) error {
			_, err := f.WriteAt(older, 0)
			return err
		},
		"another header": func(f vfs.File, _ []byte, _ int64) error {
			_, err := f.WriteAt(garbage, 3)
			return err
		},
		"garbage over the state": func(f vfs.File, _ []byte, _ int64) error {
			_, err := f.WriteAt(garbage, headerSize+frameHeaderSize)
			return err
		},
	} {
		for _, when := range []string{"before an edit", "during an edit", "before Close"} {
			if when == "during an edit" && what != "emptied" && what != "cut" && what != "extended" {
				continue // the next edit or Close notices
			}
			h := &syncHook{FS: newMem(t, vfs.MemOptions{})}
			m := mustCreate(t, h)
			older := fileBytes(t, h, ManifestName(1))
			st := applyScript(t, m, 0, 2)
			do := func() {
				name := filepath.Join(testDir, ManifestName(fileOf(m)))
				f, err := h.FS.OpenReadWrite(name)
				if err != nil {
					t.Fatal(err)
				}
				size, err := f.Size()
				if err := errors.Join(err, change(f, older, size), f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if when == "during an edit" {
				h.hook = do
			} else {
				do()
				if _, _, err := Load(h, testDir); what != "an older copy" && !errors.Is(err, fault.ErrCorrupt) {
					t.Fatalf("%s: the change does no harm: %v", what, err)
				}
			}
			if when != "before Close" {
				st = applyScript(t, m, 2, 1)
				if got, _, err := Load(h, testDir); err != nil || !same(got, st) {
					t.Errorf("%s %s: beside the writer: %v", what, when, err)
				}
			}
			if err := m.Close(); err != nil {
				t.Errorf("%s %s: %v", what, when, err)
			}
			if got, rep, err := Load(h, testDir); err != nil || !same(got, st) || !rep.Closed {
				t.Errorf("%s %s: after Close: %v, %+v", what, when, err, rep)
			}
			if names := listNames(t, h); len(names) != 1 {
				t.Errorf("%s %s: files %v", what, when, names)
			}
		}
	}
}

// TestManifestChangedAndFull: an edit that is in a file which somebody extends meanwhile, and for
// which there is no room in a new one, may survive. It is not refused as one that was not
// written: its caller would remove what it names.
func TestManifestChangedAndFull(t *testing.T) {
	mem := newMem(t, vfs.MemOptions{})
	h := &syncHook{FS: mem}
	m := mustCreate(t, h)
	st := applyScript(t, m, 0, 2)
	resize := func(by int64) {
		f, err := mem.OpenReadWrite(filepath.Join(testDir, ManifestName(fileOf(m))))
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err := errors.Join(err, f.Truncate(size+by), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	h.hook = func() { resize(1); mem.SetCapacity(1) }
	_, err := m.Apply(scriptEdit(2, &st))
	if !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("the edit: %v", err)
	}
	mem.SetCapacity(0)
	resize(-1)
	if got, _, err := Load(h, testDir); err != nil || same(got, st) {
		t.Errorf("the edit did not survive: %v", err)
	}
	if err := m.Close(); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
}
