package engine

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"github.com/stele-go/stele/internal/vfs"
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
	files := func() map[string]string {
		names, err := mem.List("store")
		mustAll(t, err)
		out := map[string]string{}
		for _, n := range names {
			if n == lockName {
				continue
			}
			f, err := mem.Open("store/" + n)
			mustAll(t, err)
			size, err := f.Size()
			mustAll(t, err)
			b := make([]byte, size)
			if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
				t.Fatal(err)
			}
			out[n] = string(bytes.Clone(b))
			mustAll(t, f.Close())
		}
		return out
	}
	before := files()
	for range 3 {
		e = mustOpen(t, o)
		readMany(t, e, 500, 7, 1)
		if !e.Report().CleanClose || e.Report().Replayed != 0 {
			t.Fatalf("%+v", e.Report())
		}
		mustAll(t, e.Close())
		if after := files(); !maps.Equal(after, before) {
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
	th, err := e.Thread(residentID(200))
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
