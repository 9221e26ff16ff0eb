package wal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

func (w *world) mark(t *testing.T) Mark {
	t.Helper()
	m, err := ReadMark(w.fs, w.dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The mark follows every sync, whoever asked for it, and stands before the caller
// hears of it.
func TestMarkFollowsSyncs(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncNever} {
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		l := w.open(t, func(o *Options) { o.Mode, o.Origin = mode, 77 })
		if m := w.mark(t); m != (Mark{}) {
			t.Fatalf("before the first record: %+v", m)
		}
		for i := 1; i <= 40; i++ {
			mustCommit(t, l, i, 4000) // over several files
			if mode == SyncNever {
				if m := w.mark(t); m.LSN == base.LSN(i) {
					t.Fatalf("record %d is marked and was not synced", i)
				}
				if err := l.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			at := l.Position()
			want := Mark{Origin: 77, File: at.File, Salt: l.mu.cur.salt, End: at.Offset, LSN: base.LSN(i)}
			if m := w.mark(t); m != want {
				t.Fatalf("mark %+v, want %+v", m, want)
			}
		}
		halfClose(l)
		// The next life goes on in the other slot.
		l, _, _, err := w.reopen(func(o *Options) { o.Origin = 77 })
		if err != nil {
			t.Fatal(err)
		}
		if m := w.mark(t); m.LSN != 40 {
			t.Fatalf("opening moved the mark: %+v", m)
		}
		mustCommit(t, l, 41, 10)
		slots, err := DecodeMark(readFile(t, w.fs, filepath.Join(w.dir, MarkName)))
		if err != nil || slots[0].Seq+slots[1].Seq != 40+41 {
			t.Fatalf("slots %+v, %v", slots, err)
		}
		mustClose(t, l)
	}
}

// A deferred record is not durable when its caller hears, and the mark says so.
func TestMarkIsNoPromiseOfDeferred(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	mustCommit(t, l, 1, 100)
	r := &Record{Deferred: true, Prepare: func(base.LSN) ([][]byte, error) { return [][]byte{payload(2, 100)}, nil }}
	if err := l.Commit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if m := w.mark(t); m.LSN != 1 {
		t.Fatalf("mark %+v", m)
	}
	mustClose(t, l)
	if m := w.mark(t); m.LSN != 2 {
		t.Fatalf("mark %+v after Close", m)
	}
}

// After a failed sync the mark stays where it was.
func TestMarkStopsAtAFailedSync(t *testing.T) {
	h := &hookFS{FS: vfs.NewMem(vfs.MemOptions{})}
	w := newWorld(h)
	l := w.open(t)
	mustCommit(t, l, 1, 100)
	h.set(failOn("syncdata", syscall.EIO))
	if err := commit(l, payload(2, 100)); !errors.Is(err, fault.ErrPoisoned) {
		t.Fatal(err)
	}
	h.set(nil)
	_ = l.Close()
	if m := w.mark(t); m.LSN != 1 {
		t.Fatalf("mark %+v", m)
	}
}

// A mark that cannot be written costs nothing but itself, and is told once.
func TestMarkThatFails(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpCreate, faultfs.OpOpenReadWrite, faultfs.OpWriteAt} {
		inj := faultfs.NewInjector(faultfs.Rule{Op: op, PathGlob: MarkName, N: 1, Sticky: true, Err: syscall.ENOSPC})
		w := newWorld(faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj))
		var heard []error
		l := w.open(t, func(o *Options) { o.Events.MarkFailed = func(err error) { heard = append(heard, err) } })
		for i := 1; i <= 3; i++ {
			mustCommit(t, l, i, 100)
		}
		if len(heard) != 1 || !errors.Is(heard[0], syscall.ENOSPC) || inj.Count() != 1 {
			t.Fatalf("%v: told %v, %d faults", op, heard, inj.Count())
		}
		halfClose(l)
		inj.Set()
		l, _, got, err := w.reopen()
		if err != nil || len(got) != 3 {
			t.Fatalf("%v: %d records, %v", op, len(got), err)
		}
		mustCommit(t, l, 4, 100)
		if m := w.mark(t); m.LSN != 4 {
			t.Fatalf("%v: the next life has the mark %+v", op, m)
		}
		mustClose(t, l)
	}
}

// Whatever becomes of the mark, it never takes a record away nor makes damage of a
// log that is whole: it is a lower bound. A cut log is missed as long as one slot
// that covers the cut is left.
func TestMarkTamperedWith(t *testing.T) {
	w, image, at := logImage(t, false)
	mark := readFile(t, w.fs, filepath.Join(w.dir, MarkName))
	edits := map[string]func(b []byte) []byte{
		"nothing":     func(b []byte) []byte { return b },
		"empty":       func([]byte) []byte { return nil },
		"cut":         func(b []byte) []byte { return b[:100] },
		"zero":        func(b []byte) []byte { clear(b); return b },
		"slot 1 zero": func(b []byte) []byte { clear(b[:MarkSlotSize]); return b },
		"slot 2 zero": func(b []byte) []byte { clear(b[MarkSlotSize:]); return b },
		"swapped":     func(b []byte) []byte { return append(bytes.Clone(b[MarkSlotSize:]), b[:MarkSlotSize]...) },
		"of another store": func(b []byte) []byte {
			s := MarkSlot{Mark: Mark{Origin: 5, File: 1, Salt: 9, End: 1 << 20, LSN: 4000}, Seq: 9}
			e := s.encode()
			copy(b, e[:])
			return b
		},
	}
	for i := range 64 * 8 {
		for _, slot := range []int{0, MarkSlotSize} {
			edits[fmt.Sprintf("bit %d of slot at %d", i, slot)] = func(b []byte) []byte {
				b[slot+i/8] ^= 1 << (i % 8)
				return b
			}
		}
	}
	for name, edit := range edits {
		writeFile(t, w.fs, filepath.Join(w.dir, MarkName), edit(bytes.Clone(mark)))
		writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), image)
		o := w.recoverOptions()
		o.Origin = 1 // the file header has none: an old build made it
		o.Mark.Origin += o.Origin
		if name == "of another store" {
			o.Mark.Origin = 5
		}
		if got, _, err := readLog(o); err != nil || len(got) != 100 {
			t.Fatalf("%s: %d records, %v", name, len(got), err)
		}
		writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), image[:at(98)])
		_, _, err := readLog(o)
		if covered := o.Mark.LSN >= 99 && o.Mark.Origin == 1; covered != errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("%s: mark %+v, log cut behind record 97: %v", name, o.Mark, err)
		}
	}
}

// The mark counts where its file is not among those of the log: it was flushed, and
// all records of it are elsewhere, or the owner of the log has forgotten it.
func TestMarkOfAFileNotThere(t *testing.T) {
	w, _, _ := logImage(t, false)
	o := w.recoverOptions()
	o.Files = []base.FileNum{}
	o.FromLSN = 101
	if r, err := Recover(o, nil); err != nil || r.LastLSN != 100 {
		t.Fatalf("flushed: %+v, %v", r, err)
	}
	o.FromLSN = 100
	var c *fault.CorruptionError
	if _, err := Recover(o, nil); !errors.As(err, &c) || c.File != base.LogFile.Name(1) {
		t.Fatalf("forgotten: %v", err)
	}
}

// A log file of another log, with the number and the links of this one's, is told
// by the salt: that of the manifest, or that of the mark.
func TestForeignFile(t *testing.T) {
	w, _, _ := logImage(t, false)
	own := readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)))
	other := newWorld(vfs.NewMem(vfs.MemOptions{}))
	other.salt() // and the next is another
	l := other.open(t, func(o *Options) { o.FileSize = 1 << 20 })
	for i := 1; i <= 100; i++ {
		mustCommit(t, l, i, 300)
	}
	foreign := readFile(t, other.fs, filepath.Join(other.dir, base.LogFile.Name(1)))
	halfClose(l)
	o := w.recoverOptions()
	salt := o.Mark.Salt
	for _, tc := range []struct {
		file  []byte
		mark  Mark
		salts map[base.FileNum]uint64
		ok    bool
	}{
		{own, Mark{}, nil, true},
		{own, o.Mark, nil, true},
		{own, o.Mark, map[base.FileNum]uint64{1: salt}, true},
		{own, other.recoverOptions().Mark, map[base.FileNum]uint64{1: salt}, true}, // the mark is foreign
		{foreign, Mark{}, nil, true},                                               // nobody knows better
		{foreign, o.Mark, nil, false},
		{foreign, Mark{}, map[base.FileNum]uint64{1: salt}, false},
		{foreign, Mark{}, map[base.FileNum]uint64{1: 0, 2: salt}, true},
	} {
		writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), tc.file)
		o.Mark, o.Salts = tc.mark, tc.salts
		_, _, err := readLog(o)
		var c *fault.CorruptionError
		if tc.ok != (err == nil) || !tc.ok && (!errors.As(err, &c) || c.File != base.LogFile.Name(1)) {
			t.Errorf("%+v %v: %v", tc.mark, tc.salts, err)
		}
	}
}

// The blind spot, stated as a test: after an unclean end that took the mark as
// well, damage confined to bytes that no surviving frame promises looks like a
// torn tail. The caller who knows better says so by DurableLSN.
func TestBlindSpot(t *testing.T) {
	w, image, at := logImage(t, false)
	clear(image[at(100):])
	writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), image)
	o := w.recoverOptions()
	if _, _, err := readLog(o); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("a log that ends before its mark: %v", err)
	}
	o.Mark = Mark{}
	got, r, err := readLog(o)
	if err != nil || len(got) != 99 || r.Torn.Bytes != 0 {
		t.Fatalf("%d records, %+v, %v", len(got), r, err)
	}
	o.DurableLSN = 100
	if _, _, err = readLog(o); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("a log that ends before what is known durable: %v", err)
	}
}
