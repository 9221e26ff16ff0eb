package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/snapshot"
)

// TestEraseLeavesNothingInLists: an image with so many threads that it has lists of
// frames names some of them there, and in its footer. Erase leaves those names neither
// here nor there.
func TestEraseLeavesNothingInLists(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	v := &victim{}
	marker := func(i int) []byte { return fmt.Appendf(nil, "MARK-%03d-OF-ONE", i) }
	id := func(i int) string { return string(marker(i)) + strings.Repeat("x", 1000) }
	const n = 240
	for i := range n {
		v.put(t, s, id(i), 1, nil, []byte("value"))
	}
	must(t, s.Flush(t.Context()), s.Inside().Engine.WriteImage(t.Context()))
	var victims []int
	lists, footers := 0, 0
	for i := range n {
		in := map[string]bool{}
		eachImageFrame(t, mem, func(fr snapshot.ImageFrame) { in[fr.Type] = in[fr.Type] || bytes.Contains(fr.Raw, marker(i)) })
		if in["thread list"] {
			lists++
			if in["footer"] {
				footers++
			}
			victims = append(victims, i)
		}
	}
	if lists < 5 || footers == 0 || footers == lists {
		t.Fatalf("%d threads are named in lists, %d in footers: the test needs both", lists, footers)
	}
	victims = victims[:4]
	for _, i := range victims {
		must(t, s.Erase(t.Context(), id(i)))
	}
	check := func() {
		t.Helper()
		after := scanStore(t, mem, "store", nil)
		for _, i := range victims {
			if places := after.with(marker(i)); len(places) > 0 {
				t.Errorf("thread %d is named in %v", i, places)
			}
		}
		if len(after.with(marker(n-1))) == 0 {
			t.Error("the scan does not find those that stay")
		}
	}
	check()
	must(t, s.Close())
	check()
	s = openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	for i := range n {
		_, err := s.GetTuple(t.Context(), saver.Config{ThreadID: id(i)})
		if gone := slices.Contains(victims, i); gone != errors.Is(err, saver.ErrNotFound) || !gone && err != nil {
			t.Errorf("thread %d, erased %t: %.100v", i, gone, err)
		}
	}
	must(t, s.Flush(t.Context()), s.Inside().Engine.WriteImage(t.Context()), s.Compact(t.Context()), s.Close())
	check()
}

// eachImageFrame calls fn for the frames of all images of a store.
func eachImageFrame(t *testing.T, mem *vfs.Mem, fn func(snapshot.ImageFrame)) {
	t.Helper()
	names, err := mem.List("store")
	must(t, err)
	for _, name := range names {
		if _, ok := base.ImageFile.Parse(name); !ok {
			continue
		}
		f, err := mem.Open("store/" + name)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		im, err := snapshot.OpenImage(f, name, size)
		must(t, err, im.Inspect(func(fr snapshot.ImageFrame) error { fn(fr); return fr.Err }), f.Close())
	}
}
