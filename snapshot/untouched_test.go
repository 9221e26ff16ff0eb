package snapshot

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// A manifest that was closed is opened without writing: the first edit begins the
// file that continues it, and an Open without edits leaves it as it was. One that was
// not closed is continued at once.
func TestOpenWritesAtTheFirstEdit(t *testing.T) {
	mem := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, mem)
	st := applyScript(t, m, 0, 3)
	if m.Untouched() {
		t.Error("a new manifest is untouched")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	closed := fileBytes(t, mem, ManifestName(1))
	for range 3 {
		m, _ = mustOpen(t, mem)
		if !m.Untouched() || !same(m.State(), st) || m.KeyID() != "" {
			t.Fatalf("opened with another state, or touched: %v", m.Untouched())
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(listNames(t, mem), []string{ManifestName(1)}) || !bytes.Equal(fileBytes(t, mem, ManifestName(1)), closed) {
			t.Fatalf("opening and closing changed %v", listNames(t, mem))
		}
	}
	m, _ = mustOpen(t, mem)
	st = applyScript(t, m, 3, 1)
	if m.Untouched() || !slices.Equal(listNames(t, mem), []string{ManifestName(2)}) {
		t.Fatalf("after an edit: untouched %v, files %v", m.Untouched(), listNames(t, mem))
	}
	// Not closed: what was read may not be on disk.
	m, _ = mustOpen(t, mem)
	if m.Untouched() || !same(m.State(), st) || !slices.Equal(listNames(t, mem), []string{ManifestName(3)}) {
		t.Fatalf("after a crash: untouched %v, files %v", m.Untouched(), listNames(t, mem))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// Beside an older file, which is to be removed.
	writeFile(t, mem, ManifestName(1), closed)
	m, _ = mustOpen(t, mem)
	if m.Untouched() || !slices.Equal(listNames(t, mem), []string{ManifestName(4)}) {
		t.Fatalf("beside an older file: untouched %v, files %v", m.Untouched(), listNames(t, mem))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
