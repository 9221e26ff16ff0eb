package ops

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
)

// TestMain makes the compressors before any test does: they are the process's, hold
// channels, and a channel made in a bubble of testing/synctest must not leave it.
func TestMain(m *testing.M) {
	if err := warm(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func warm() error {
	mem := vfs.NewMem(vfs.MemOptions{})
	long := saver.ValueOf(strings.Repeat("value ", 1000))
	for n := 1; n <= 3; n++ {
		d, err := saver.OpenSimulated("store", saver.Options{ManualWork: true}, saver.Simulation{FS: mem})
		if err != nil {
			return err
		}
		if err := errors.Join(put(d, "t", n, long), d.Compact(ctx), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
