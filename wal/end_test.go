package wal

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// unpromised is a killed log without promises, of records of all sizes.
func unpromised(t *testing.T, sizes []int) *world {
	t.Helper()
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.Mode, o.FileSize = SyncNever, 8<<20 })
	for i, n := range sizes {
		mustCommit(t, l, i+1, n)
	}
	halfClose(l)
	return w
}

// TestEnded: it is told of a log that was read to its end, not of a damaged one, and its
// error is that of Recover.
func TestEnded(t *testing.T) {
	w, _ := smallLog(t, true)
	fail := errors.New("no luck")
	o := w.recoverOptions()
	o.Ended = func(Recovery) error { return fail }
	if _, err := Recover(o, func(Entry) error { return nil }); err != fail {
		t.Fatal(err)
	}
	var told []Recovery
	o.Ended = func(r Recovery) error { told = append(told, r); return nil }
	if r, err := Recover(o, nil); err != nil || len(told) != 1 || !reflect.DeepEqual(told[0], r) {
		t.Fatalf("told that it ended with %+v, got %+v, %v", told, r, err)
	}
	o.DurableLSN = 1 << 40
	o.Ended = func(Recovery) error { t.Error("told of the end of a damaged log"); return nil }
	if _, err := Recover(o, func(Entry) error { return nil }); err == nil {
		t.Fatal("a log that ends too early")
	}
}

// TestEndCopy: a copy is not part of the log before Publish, one that a crash left is
// written over, and Discard leaves nothing.
func TestEndCopy(t *testing.T) {
	sizes := []int{10, 100 << 10, 0, 300 << 10, 64}
	w := unpromised(t, sizes)
	_, r, err := readLog(w.recoverOptions())
	if err != nil {
		t.Fatal(err)
	}
	before, err := w.fs.List(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	o := CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, TempNum: r.End.File}
	var c *EndCopy
	for range 2 { // the first is what a crash left
		if c, err = CopyEnd(o, r); err != nil {
			t.Fatal(err)
		}
		if n, ok := base.LogTempFile.Parse(c.TempName()); !ok || n != r.End.File {
			t.Fatalf("copy called %q", c.TempName())
		}
		if got, _, err := readLog(w.recoverOptions()); err != nil || len(got) != len(sizes) {
			t.Fatalf("beside a copy: %d records, %v", len(got), err)
		}
	}
	c.Discard()
	if after, err := w.fs.List(w.dir); err != nil || !slices.Equal(after, before) {
		t.Fatalf("discarded: %v, was %v, %v", after, before, err)
	}
	if _, _, err := c.Publish(); !errors.Is(err, errPublished) {
		t.Fatalf("published a copy that is gone: %v", err)
	}
	o.TempNum = 0 // its own
	if c, err = CopyEnd(o, r); err != nil {
		t.Fatal(err)
	}
	start, fi, err := c.Publish()
	if err != nil || start.File != fi.Num {
		t.Fatalf("%+v, %+v, %v", start, fi, err)
	}
	c.Discard() // of no effect any more
	if _, _, err := c.Publish(); !errors.Is(err, errPublished) {
		t.Fatalf("published twice: %v", err)
	}
	_ = w.created(*fi)
	got, _, err := readLog(w.recoverOptions())
	if err != nil || len(got) != len(sizes) {
		t.Fatalf("published: %d records, %v", len(got), err)
	}
	if _, err := w.fs.Open(filepath.Join(w.dir, base.LogFile.Name(fi.Num))); err != nil {
		t.Fatal(err)
	}
}
