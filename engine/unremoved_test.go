package engine

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

// TestScrubKeepsTheLogToCome: the log's next file is there under its name before the
// manifest knows of it. A Scrub that took it for a leftover would lose every record
// that is acknowledged afterwards.
func TestScrubKeepsTheLogToCome(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true, Inline: true, LogFileSize: 64 << 10}
	e := mustOpen(t, o)
	mustPut(t, e, "t", "before", strings.Repeat("x", 40<<10)) // over half of a log file
	known := map[string]bool{}
	for _, l := range e.manifest.State().Logs {
		known[l.Num.String()+".log"] = true
	}
	ahead := 0
	names, err := mem.List("store")
	must(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, ".log") && !known[n] {
			ahead++
		}
	}
	if ahead != 1 {
		t.Fatalf("%d log files ahead of the manifest, want 1 to test with: %v", ahead, names)
	}
	must(t, e.Scrub(ctx, nil))
	mustPut(t, e, "t", "after", "kept")
	must(t, e.Close())
	e = mustOpen(t, o)
	if got, err := read(e, "t", "after"); got != "kept" {
		t.Errorf("a record acknowledged after Scrub reads %q, %v", got, err)
	}
	must(t, e.Close())
}

// TestFilesThatCannotBeRemoved: a file that nothing needs and that the system does not
// remove is counted, and tried again with the next ones.
func TestFilesThatCannotBeRemoved(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	inj := faultfs.NewInjector()
	o := Options{FS: faultfs.New(mem, inj), ManualWork: true, Inline: true}
	count := func() (n int) {
		names, err := mem.List("store")
		must(t, err)
		for _, name := range names {
			if _, own := FileNumber(name); own {
				n++
			}
		}
		return n
	}
	e := mustOpen(t, o)
	mustPut(t, e, "t", "k", "v")
	inj.Set(faultfs.Rule{Op: faultfs.OpRemove, Sticky: true, Err: syscall.EBUSY})
	must(t, e.Flush(ctx))
	if n := e.Stats().UnremovedFiles; n == 0 {
		t.Fatal("the log that was flushed could not be removed, and is not counted")
	}
	must(t, e.Close())
	left := count()
	e = mustOpen(t, o)
	if n := len(e.Report().LeftFiles); n == 0 || e.Stats().UnremovedFiles != n {
		t.Fatalf("Open left %v, Stats say %d", e.Report().LeftFiles, e.Stats().UnremovedFiles)
	}
	inj.Set()
	mustPut(t, e, "t", "k2", "v2")
	must(t, e.Flush(ctx))
	if n := e.Stats().UnremovedFiles; n != 0 {
		t.Errorf("%d files are not removed when they can be", n)
	}
	must(t, e.Close())
	st := e.state()
	if got, want := count(), len(st.Logs)+len(st.Segments)+len(st.ImageNums()); got != want {
		t.Errorf("%d files, the manifest names %d; there were %d", got, want, left)
	}
}
