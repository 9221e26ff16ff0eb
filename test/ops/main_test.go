package ops

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestMain makes what the process compresses with before any test does: it holds
// channels, and a channel made in a bubble of testing/synctest must not leave it.
func TestMain(m *testing.M) {
	if err := warm(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// bubble is synctest.Test, and forgets the compressors that writers made inside and
// put back into their pools: those of a sync.Pool are gone after two collections.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GC()
	defer runtime.GC()
	synctest.Test(t, f)
}

func warm() error {
	mem := vfs.NewMem(vfs.MemOptions{})
	long := saver.ValueOf(strings.Repeat("value ", 1000))
	for n := 1; n <= 3; n++ {
		d, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: mem}})
		if err != nil {
			return err
		}
		if err := errors.Join(put(d, "t", n, long), d.Compact(ctx), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
