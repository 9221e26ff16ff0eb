package engine

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// A retired file stays for the views that were open, and for whoever holds it.
func TestRetiredFilesStayWhileNeeded(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll("store"); err != nil {
		t.Fatal(err)
	}
	s := newFiles(mem, "store", func(err error) { t.Error(err) })
	for n := range base.FileNum(3) {
		f, err := mem.Create(s.path(base.LogFile, n+1))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s.add(base.LogFile, n+1)
	}
	there := func(n base.FileNum) bool {
		names, err := mem.List("store")
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(names, filepath.Base(s.path(base.LogFile, n)))
	}
	old := s.pin()
	held, err := s.Acquire(2)
	if err != nil {
		t.Fatal(err)
	}
	s.retire(1, 2)
	later := s.pin()
	s.retire(3)
	if !there(1) || !there(2) || !there(3) {
		t.Fatal("a file that an open view may need is gone")
	}
	s.unpin(old)
	if there(1) || !there(2) || !there(3) {
		t.Errorf("after the first view: %t %t %t, want only the one held and the one retired since", there(1), there(2), there(3))
	}
	s.Release(held)
	if there(2) {
		t.Error("a file that nobody holds any more is there")
	}
	if _, err := s.Acquire(2); !errors.Is(err, errFileGone) {
		t.Errorf("acquire a removed file: %v", err)
	}
	s.unpin(later)
	if there(3) {
		t.Error("a file that no view needs is there")
	}
}
