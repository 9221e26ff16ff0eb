package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// TestPinned: it shows what it was given, goes on showing it when the names are
// gone, and lets nobody write.
func TestPinned(t *testing.T) {
	mem := NewMem(MemOptions{})
	dir := filepath.Join("a", "b")
	if err := mem.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	kept, other := filepath.Join(dir, "kept"), filepath.Join(dir, "other")
	for _, name := range []string{kept, other} {
		f, err := mem.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("content"), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m := NewCaptured(dir)
	if err := m.Keep(mem, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(mem, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("keep what is not there: %v", err)
	}
	m.KeepBytes("made", []byte("up"))
	if err := mem.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if names, err := m.List(dir); err != nil || !slices.Equal(names, []string{"kept", "made"}) {
		t.Errorf("list: %v, %v", names, err)
	}
	for name, want := range map[string]string{"kept": "content", "made": "up"} {
		for range 2 { // closing one handle leaves the file to the next
			f, err := m.Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			size, err := f.Size()
			b := make([]byte, size)
			if _, rerr := f.ReadAt(b, 0); err != nil || rerr != nil || string(b) != want {
				t.Errorf("%s reads %q, %v, %v", name, b, err, rerr)
			}
			_, werr := f.WriteAt([]byte("x"), 0)
			for what, err := range map[string]error{"write": werr, "truncate": f.Truncate(0), "sync": f.Sync(), "sync data": f.SyncData()} {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s of %s: %v", what, name, err)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := m.Open(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a file that is not part of it: %v", err)
	}
	if _, err := m.Open(filepath.Join("a", "kept")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in another directory: %v", err)
	}
	_, cerr := m.Create(kept)
	_, oerr := m.OpenReadWrite(kept)
	_, lerr := m.Lock(kept, "")
	for what, err := range map[string]error{"create": cerr, "open": oerr, "lock": lerr, "rename": m.Rename(kept, other),
		"remove": m.Remove(kept), "mkdir": m.MkdirAll(dir), "sync": m.SyncDir(dir)} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(m.Release(), m.Release()); err != nil {
		t.Error(err)
	}
	if m.Has("kept") {
		t.Error("a released moment has files")
	}
}
