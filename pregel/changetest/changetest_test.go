package changetest_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/pregel/changetest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

var update = flag.Bool("update", false, "rewrite testdata")

const golden = "testdata/preflights.golden"

func TestChangesInMemory(t *testing.T) {
	s := memory.New(memory.Options{})
	changetest.Run(t, func(*testing.T) saver.Saver { return s }, golden, *update)
}

func TestChangesOnDisk(t *testing.T) {
	dir := t.TempDir()
	var s *disk.Saver
	shut := func() {
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(shut)
	changetest.Run(t, func(t *testing.T) saver.Saver {
		shut()
		var err error
		if s, err = disk.Open(dir, disk.Options{Sync: disk.SyncNever}); err != nil {
			t.Fatal(err)
		}
		return s
	}, golden, false)
}

// A preflight works on a store that another process writes, and on a backup, and says the same.
func TestPreflightOfCopies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	writer, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	changetest.Old(t, writer, "")
	backup, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	if _, err := admin.BackupOpen(t.Context(), writer, backup, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(t.Context(), backup, restored, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	want := changetest.Preflight(t, writer)
	for _, from := range []string{dir, restored} {
		s, err := disk.Open(from, disk.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := changetest.Preflight(t, s); got != want {
			t.Errorf("in %s:\n%s\nwant\n%s", from, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
