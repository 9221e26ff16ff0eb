package disk_test

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// An epoch of a process that is gone is not one of the next process.
func TestEpochsOverRestarts(t *testing.T) {
	dir := t.TempDir()
	last := int64(0)
	for range 3 {
		s, err := disk.Open(dir, disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := s.Own(t.Context(), "t", false)
		if err != nil {
			t.Fatal(err)
		}
		if lease.Epoch() <= last {
			t.Errorf("epoch %d after %d", lease.Epoch(), last)
		}
		late := saver.Config{ThreadID: "t", CheckpointID: "1", Epoch: max(last, 1)}
		if err := s.PutWrites(t.Context(), late, nil, "task", ""); !errors.Is(err, saver.ErrFenced) {
			t.Errorf("writes with the epoch of an earlier process: %v", err)
		}
		last = lease.Epoch()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
