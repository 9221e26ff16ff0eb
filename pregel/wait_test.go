package pregel_test

import (
	"testing"

	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

// Threads sleep alike in every saver.
func TestWaits(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		waittest.Test(t, func(*testing.T) saver.Saver { return memory.New(memory.Options{}) })
	})
	t.Run("disk", func(t *testing.T) {
		waittest.Test(t, func(t *testing.T) saver.Saver {
			s, err := disk.Open(t.TempDir(), disk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}
