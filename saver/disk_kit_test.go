package saver_test

import (
	"testing"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/savertest"
)

func openFor(t *testing.T, dir string, opts saver.Options, sim saver.Simulation) *saver.Disk {
	t.Helper()
	s, err := saver.OpenSimulated(dir, opts, sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestKitOnDisk(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		return openFor(t, t.TempDir(), saver.Options{}, saver.Simulation{})
	})
}

func TestKitOnSimulatedDisk(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		mem := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
		return openFor(t, "store", saver.Options{LogFileSize: 64 << 10, FlushBytes: 1, ImageBytes: 1, CompactFanout: 2}, saver.Simulation{FS: mem})
	})
}
