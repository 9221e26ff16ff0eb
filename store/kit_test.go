package store_test

import (
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o store.Options) store.Store {
		s, err := store.NewMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

// onDisk opens a store in a directory, or in a file system in memory.
func onDisk(t testing.TB, o store.Options, dir string, so disk.Options) *store.Local {
	t.Helper()
	so.Clock = o.Clock
	var d *disk.Saver
	var err error
	if dir == "" {
		d, err = disk.Open("store", so.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
	} else {
		d, err = disk.Open(dir, so)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.On(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o store.Options) store.Store {
		return onDisk(t, o, t.TempDir(), disk.Options{Sync: disk.SyncNever})
	})
}

func TestSimulatedDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o store.Options) store.Store {
		return onDisk(t, o, "", disk.Options{LogFileSize: 64 << 10})
	})
}
