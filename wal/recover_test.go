package wal

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// A reader beside a writer on the system's disk sees a prefix that holds at
// least what was committed before it looked, and never an error.
func TestReadLiveLog(t *testing.T) {
	w := newWorld(vfs.OS{})
	w.dir = t.TempDir()
	l := w.open(t, func(o *Options) { o.Mode, o.Inline = SyncNever, false })
	var wg sync.WaitGroup
	count := envInt("LIVE_RECORDS", 3000)
	wg.Go(func() {
		for i := 1; i <= count; i++ {
			if err := commit(l, payload(i, 100+i%50)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	reads := 0
	for ; l.LastLSN() < base.LSN(count) && !t.Failed(); reads++ {
		before := l.LastLSN()
		o := w.recoverOptions()
		o.ReadOnly = true
		got, r, err := readLog(o)
		if err != nil {
			t.Fatalf("reading a live log: %v", err)
		}
		if base.LSN(len(got)) < before || r.Torn.Bytes != 0 {
			t.Fatalf("%d records, %d were committed before; %+v", len(got), before, r.Torn)
		}
		// Go on from where this read ended.
		o.From = r.End
		if r.End.File != 0 {
			tail, r2, err := readLog(o)
			if err != nil || r2.LastLSN != r.LastLSN+base.LSN(len(tail)) {
				t.Fatalf("reading on: %d records up to %d after %d, %v", len(tail), r2.LastLSN, r.LastLSN, err)
			}
		}
	}
	wg.Wait()
	mustClose(t, l)
	t.Logf("%d reads of a log of %d files while it was written", reads, len(w.manifest()))
	got, _, err := readLog(w.recoverOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range got {
		if !bytes.Equal(b, payload(i+1, 100+(i+1)%50)) {
			t.Fatalf("record %d has wrong bytes", i+1)
		}
	}
}

// staleReads shows one read of frames as they were a moment ago: the view of a
// reader that looks while the writer completes a frame.
type staleReads struct {
	vfs.FS
	stale []byte
	once  sync.Once
}

type staleFile struct {
	vfs.File
	fs *staleReads
}

func (f *staleReads) Open(name string) (vfs.File, error) {
	h, err := f.FS.Open(name)
	return staleFile{h, f}, err
}

func (f staleFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if off > 0 {
		f.fs.once.Do(func() { copy(b[:n], f.fs.stale[off:]) })
	}
	return n, err
}

func TestReaderLooksAgain(t *testing.T) {
	w, image, at := logImage(t, false)
	writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), image)
	stale := bytes.Clone(image)
	clear(stale[at(50)+8 : at(51)]) // 50 half written, what follows already there
	s := &staleReads{FS: w.fs, stale: stale}
	o := w.recoverOptions()
	o.FS, o.ReadOnly = s, true
	got, _, err := readLog(o)
	if err != nil {
		t.Fatal(err)
	}
	checkPayloads(t, got, 100, 400)
	s.once.Do(func() { t.Fatal("the stale bytes were not read") })
}

func TestFromLSN(t *testing.T) {
	w, _ := smallLog(t, true)
	for from := base.LSN(0); from <= 10; from++ {
		o := w.recoverOptions()
		o.FromLSN = from
		got, r, err := readLog(o)
		if err != nil || r.LastLSN != 9 || len(r.Files) != 3 {
			t.Fatalf("from %d: %+v, %v", from, r, err)
		}
		if want := 10 - max(int(from), 1); len(got) != want {
			t.Fatalf("from %d: %d records, want %d", from, len(got), want)
		}
	}
	// What a flush leaves: the first file gone, and forgotten by the manifest.
	o := w.recoverOptions()
	o.Files = o.Files[1:]
	o.FromLSN = 4
	if got, _, err := readLog(o); err != nil || len(got) != 6 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	o.FromLSN = 3
	if _, _, err := readLog(o); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("the log begins after what is wanted: %v", err)
	}
	o.FromLSN, o.Files = 10, []base.FileNum{}
	if got, r, err := readLog(o); err != nil || len(got) != 0 || r.LastLSN != 9 || !r.Clean {
		t.Fatalf("no files: %+v, %v", r, err)
	}
	o.DurableLSN = 10
	if _, _, err := readLog(o); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("no files, but a record known durable: %v", err)
	}
}

// Each place the log reports can be read from, and the chain is still checked.
func TestFromPlace(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	places := []Position{l.Position()}
	for i := 1; i <= 12; i++ {
		mustCommit(t, l, i, 20*i)
		if i%4 == 0 {
			if err := l.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		places = append(places, l.Position())
	}
	mustClose(t, l)
	for i, p := range places {
		o := w.recoverOptions()
		o.From = p
		got, r, err := readLog(o)
		if err != nil || len(got) != 12-i || r.LastLSN != 12 {
			t.Fatalf("from %+v: %d records, %v", p, len(got), err)
		}
		for j, b := range got {
			if !bytes.Equal(b, payload(i+j+1, 20*(i+j+1))) {
				t.Fatalf("from %+v: record %d has wrong bytes", p, i+j+1)
			}
		}
		if p.File == 1 && p.NextLSN < 5 {
			o.From.Chain++
			if _, _, err := readLog(o); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("from %+v with another chain: %v", p, err)
			}
		}
		o.From = p
		o.From.Offset += 1 << 20
		if _, _, err := readLog(o); p.File != 0 && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("from a place behind the end: %v", err)
		}
	}
}

func TestMissingFileMatchesNotExist(t *testing.T) {
	w, _ := smallLog(t, true)
	if err := w.fs.Remove(filepath.Join(w.dir, base.LogFile.Name(2))); err != nil {
		t.Fatal(err)
	}
	o := w.recoverOptions()
	o.ReadOnly = true
	// A reader in another process retries on this; a store calls it damage.
	if _, _, err := readLog(o); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, fault.ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestVisitError(t *testing.T) {
	w, _ := smallLog(t, true)
	enough := errors.New("enough")
	n := 0
	_, err := Recover(w.recoverOptions(), func(Entry) error {
		if n++; n == 4 {
			return enough
		}
		return nil
	})
	if err != enough || n != 4 {
		t.Fatalf("%d visits, %v", n, err)
	}
}

// Recover changes nothing on disk, whatever state the log is in.
func TestRecoverWritesNothing(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w, _ := smallLog(t, clean)
		before := directory(t, w.fs, w.dir)
		h := &hookFS{FS: w.fs}
		o := w.recoverOptions()
		o.FS = h
		for _, o.Files = range [][]base.FileNum{w.manifest(), nil} {
			if _, _, err := readLog(o); err != nil {
				t.Fatal(err)
			}
		}
		if len(h.kinds()) != 0 {
			t.Fatalf("Recover did %v", h.kinds())
		}
		after := directory(t, w.fs, w.dir)
		for name, b := range before {
			if !bytes.Equal(b, after[name]) {
				t.Fatalf("%s changed", name)
			}
		}
	}
}

// CopyEnd reports the new place of each record it copies, large ones too.
func TestCopyEndMoves(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.Mode, o.FileSize = SyncNever, 8<<20 })
	sizes := []int{10, 1200 << 10, 0, 300, 700 << 10, 64}
	for i, n := range sizes {
		mustCommit(t, l, i+1, n)
	}
	halfClose(l)
	_, r, err := readLog(w.recoverOptions())
	if err != nil || r.Unpromised.Records != int64(len(sizes)) || r.Unpromised.FirstLSN != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	var moved []Entry
	start, fi, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, Moved: func(_ int64, e Entry) error {
		moved = append(moved, e)
		return nil
	}}, r)
	if err != nil {
		t.Fatal(err)
	}
	if start.NextLSN != base.LSN(len(sizes)+1) || start.File != fi.Num || fi.BaseLSN != 1 || fi.Prev.Offset != fileHeaderSize {
		t.Fatalf("%+v, %+v", start, fi)
	}
	file := readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(fi.Num)))
	for i, e := range moved {
		if e.LSN != base.LSN(i+1) || !bytes.Equal(file[e.Offset:][:sizes[i]], payload(i+1, sizes[i])) {
			t.Fatalf("record %d is not at %d", i+1, e.Offset)
		}
	}
	_ = w.created(*fi)
	if got, r, err := readLog(w.recoverOptions()); err != nil || len(got) != len(sizes) || !r.Clean {
		t.Fatalf("%d records, %+v, %v", len(got), r, err)
	}
}

// A copy that somebody cuts in place while it is made is not published.
func TestCopyEndCut(t *testing.T) {
	w, h := hooked(t)
	l := w.open(t)
	mustCommit(t, l, 1, 1000)
	halfClose(l)
	o := w.recoverOptions()
	o.Mark = Mark{}
	_, r, err := readLog(o)
	if err != nil || r.Unpromised.Records == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.set(func(op fsOp) error {
		if op.kind == "sync" {
			w.elsewhere(t, filepath.Base(op.name), cut(500))
		}
		return nil
	})
	if _, _, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum}, r); err == nil || !strings.Contains(err.Error(), "in place") {
		t.Errorf("the copy: %v", err)
	}
	h.set(nil)
	if names, err := w.fs.List(w.dir); err != nil || len(names) != 2 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// A failed CopyEnd or Publish leaves the log as it was.
func TestCopyEndFails(t *testing.T) {
	for _, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		h := &hookFS{FS: vfs.NewMem(vfs.MemOptions{})}
		w := newWorld(h)
		l := w.open(t)
		mustCommit(t, l, 1, 100)
		halfClose(l)
		fail := errors.New("no luck")
		h.set(failOn(kind, fail))
		if _, _, _, err := w.reopen(); !errors.Is(err, fail) {
			t.Fatalf("%s: %v", kind, err)
		}
		h.set(nil)
		l, _, got, err := w.reopen()
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %d records, %v", kind, len(got), err)
		}
		mustClose(t, l)
		if names, _ := w.fs.List(w.dir); !slices.Equal(names, []string{"000001.log", base.LogFile.Name(w.num), MarkName}) {
			t.Fatalf("%s: left behind: %v", kind, names)
		}
	}
}

// A file without any promise has more places than are remembered; the cut is
// then lower than need be, never higher.
func TestManyUnpromised(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.Mode, o.FileSize = SyncNever, 4<<20 })
	const count = 3 * maxBoundaries
	for i := 1; i <= count; i++ {
		if err := commit(l, []byte{byte(i), byte(i >> 8)}); err != nil {
			t.Fatal(err)
		}
		if i == count/2+1 {
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	halfClose(l)
	l, r, got, err := w.reopen()
	if err != nil || len(got) != count {
		t.Fatalf("%d records, %v", len(got), err)
	}
	if n := r.Unpromised.Records; n < count/2-1 || n > count/2+8 {
		t.Fatalf("%d records above the promise, about %d are", n, count/2-1)
	}
	halfClose(l)
	if got, r, err = readLog(w.recoverOptions()); err != nil || len(got) != count || !r.Clean {
		t.Fatalf("%d records, %+v, %v", len(got), r, err)
	}
}
