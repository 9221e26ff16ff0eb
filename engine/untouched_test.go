package engine

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// Who opens a closed store and only reads leaves it as it was, its lock aside.
func TestReadingWritesNothing(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true}
	e := mustOpen(t, o)
	putMany(t, e, 500, 1)
	mustAll(t, e.Flush(t.Context()))
	putMany(t, e, 300, 1)
	mustAll(t, e.Close())
	before := filesOf(t, mem)
	for range 3 {
		e = mustOpen(t, o)
		readMany(t, e, 500, 7, 1)
		if !e.Report().CleanClose || e.Report().Replayed != 0 {
			t.Fatalf("%+v", e.Report())
		}
		mustAll(t, e.Close())
		if after := filesOf(t, mem); !maps.Equal(after, before) {
			t.Fatalf("files changed: %v, were %v", fileSizes(after), fileSizes(before))
		}
	}
	// What is written next is not lost, nor what was there.
	e = mustOpen(t, o)
	putMany(t, e, 100, 2)
	mustAll(t, e.Close())
	e = mustOpen(t, o)
	defer func() { mustAll(t, e.Close()) }()
	readMany(t, e, 100, 3, 2)
	th, err := e.Partition(residentID(200))
	if err != nil || th == nil {
		t.Fatal(th, err)
	}
}

func fileSizes(files map[string]string) string {
	out := ""
	for n, b := range files {
		out += fmt.Sprintf(" %s:%d", n, len(b))
	}
	return out
}
