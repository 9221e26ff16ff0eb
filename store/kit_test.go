package store_test

import (
	"testing"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
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
func onDisk(t testing.TB, o store.Options, dir string, so saver.Options) *store.Local {
	t.Helper()
	so.Clock = o.Clock
	var d *saver.Disk
	var err error
	if dir == "" {
		d, err = saver.OpenSimulated("store", so, saver.Simulation{FS: vfs.NewMem(vfs.MemOptions{})})
	} else {
		d, err = saver.Open(dir, so)
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
		return onDisk(t, o, t.TempDir(), saver.Options{Sync: saver.SyncNever})
	})
}

func TestSimulatedDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o store.Options) store.Store {
		return onDisk(t, o, "", saver.Options{LogFileSize: 64 << 10})
	})
}
