package wal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/internal/vfs"
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

// manySizes is more than the reader may be ahead, with payloads that are copied and
// some that are not.
func manySizes() []int {
	sizes := []int{10, aheadBytes, aheadBytes + 1, 0, 3 * aheadBytes, 64}
	for i := range 3 * aheadBatches {
		sizes = append(sizes, aheadBytes/2+i, i)
	}
	return sizes
}

// TestAhead: what is visited, and what Recover returns, is the same whether the log is
// read ahead or not; and the payloads stay as they are during their visit.
func TestAhead(t *testing.T) {
	sizes := manySizes()
	w := unpromised(t, sizes)
	var want Recovery
	for _, ahead := range []bool{false, true} {
		o := w.recoverOptions()
		o.Ahead = ahead
		var ended []Recovery
		o.Ended = func(r Recovery) error { ended = append(ended, r); return nil }
		n := 0
		r, err := Recover(o, func(e Entry) error {
			if !bytes.Equal(e.Payload, payload(n+1, sizes[n])) {
				return fmt.Errorf("record %d is not what it was", n+1)
			}
			n++
			return nil
		})
		if err != nil || n != len(sizes) {
			t.Fatalf("ahead %v: %d visits, %v", ahead, n, err)
		}
		if len(ended) != 1 || !reflect.DeepEqual(ended[0], r) {
			t.Fatalf("ahead %v: told that it ended with %+v, got %+v", ahead, ended, r)
		}
		if !ahead {
			want = r
		} else if !reflect.DeepEqual(r, want) {
			t.Fatalf("read ahead: %+v, else %+v", r, want)
		}
	}
}

// TestAheadVisitFails: the error of a visit ends Recover wherever the reader is, nothing
// is visited after it, and no goroutine stays behind.
func TestAheadVisitFails(t *testing.T) {
	sizes := manySizes()
	w := unpromised(t, sizes)
	enough := errors.New("enough")
	for fail := 1; fail <= len(sizes); fail++ {
		o := w.recoverOptions()
		o.Ahead = true
		o.Ended = func(Recovery) error { return errors.New("of no interest") }
		n := 0
		_, err := Recover(o, func(Entry) error {
			if n++; n == fail {
				return enough
			}
			return nil
		})
		if err != enough || n != fail {
			t.Fatalf("%d visits, want %d; %v", n, fail, err)
		}
	}
}

// TestAheadVisitPanics: a panic of a visit reaches the caller, and no goroutine stays
// behind.
func TestAheadVisitPanics(t *testing.T) {
	sizes := manySizes()
	w := unpromised(t, sizes)
	for fail := 1; fail <= len(sizes); fail += 5 {
		o := w.recoverOptions()
		o.Ahead = true
		n := 0
		func() {
			defer func() {
				if p := recover(); p != "enough" || n != fail {
					t.Fatalf("%d visits, want %d; %v", n, fail, p)
				}
			}()
			_, _ = Recover(o, func(Entry) error {
				if n++; n == fail {
					panic("enough")
				}
				return nil
			})
		}()
	}
}

// TestAheadIsBounded: the reader is no further ahead than it says, however small the
// records, and goes on when they are visited.
func TestAheadIsBounded(t *testing.T) {
	for _, size := range []int{0, 100, 30 << 10} {
		const most = (aheadBatches + 1) * aheadBytes
		n := 2 * most / (size + 64)
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		l := w.open(t, func(o *Options) { o.Mode, o.FileSize = SyncNever, 64<<20 })
		for i := range n {
			mustCommit(t, l, i+1, size)
		}
		halfClose(l)
		o := w.recoverOptions()
		o.Ahead = true
		read := make(chan struct{})
		var ended atomic.Bool
		o.Ended = func(Recovery) error { ended.Store(true); close(read); return nil }
		visits := 0
		_, err := Recover(o, func(Entry) error {
			if visits++; visits == 1 {
				select {
				case <-read:
					t.Errorf("size %d: all %d records were read beside the first visit", size, n)
				case <-time.After(20 * time.Millisecond):
				}
			}
			return nil
		})
		if err != nil || visits != n || !ended.Load() {
			t.Fatalf("size %d: %d visits of %d, %v", size, visits, n, err)
		}
	}
}

// TestEnded: it is told of a log that was read to its end, not of a damaged one, and its
// error is that of Recover.
func TestEnded(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		w, _ := smallLog(t, true)
		fail := errors.New("no luck")
		o := w.recoverOptions()
		o.Ahead = ahead
		o.Ended = func(Recovery) error { return fail }
		if _, err := Recover(o, func(Entry) error { return nil }); err != fail {
			t.Fatalf("ahead %v: %v", ahead, err)
		}
		o.DurableLSN = 1 << 40
		o.Ended = func(Recovery) error { t.Error("told of the end of a damaged log"); return nil }
		if _, err := Recover(o, func(Entry) error { return nil }); err == nil {
			t.Fatalf("ahead %v: a log that ends too early", ahead)
		}
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
	o := RewriteOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, TempNum: r.End.File}
	var c *EndCopy
	for range 2 { // the first is what a crash left
		if c, err = CopyEnd(o, r); err != nil {
			t.Fatal(err)
		}
		if n, ok := ParseTempName(c.TempName()); !ok || n != r.End.File {
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
	if _, err := w.fs.Open(filepath.Join(w.dir, FileName(fi.Num))); err != nil {
		t.Fatal(err)
	}
}
