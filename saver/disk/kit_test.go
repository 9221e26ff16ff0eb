package disk_test

import (
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
)

func openFor(t *testing.T, dir string, opts disk.Options, sim disk.Simulation) *disk.Saver {
	t.Helper()
	s, err := disk.Open(dir, opts.In(sim))
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
	t.Parallel()
	savertest.Run(t, func(t *testing.T) saver.Saver {
		return openFor(t, t.TempDir(), disk.Options{}, disk.Simulation{})
	})
}

func TestKitOnSimulatedDisk(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		mem := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
		return openFor(t, "store", disk.Options{LogFileSize: 64 << 10, FlushBytes: 1, ImageBytes: 1, CompactFanout: 2}, disk.Simulation{FS: mem})
	})
}
