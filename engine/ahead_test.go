package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// logReadsFS counts the reads of log files.
type logReadsFS struct {
	vfs.FS
	n *int
}

func (f logReadsFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err == nil && strings.HasSuffix(filepath.Base(name), ".log") {
		file = logReadsFile{file, f.n}
	}
	return file, err
}

type logReadsFile struct {
	vfs.File
	n *int
}

func (f logReadsFile) ReadAt(b []byte, off int64) (int, error) {
	*f.n++
	return f.File.ReadAt(b, off)
}

// aheadStep puts a small value, one of 3 KB, and one that resembles the last.
func aheadStep(e *Engine, id string, i int) error {
	small, err1 := NewValue(fmt.Appendf(nil, "small %d", i))
	random, err2 := NewValue([]byte(noise(i, 3<<10)))
	like, err3 := e.NewRevision(nil, Series{Partition: id, Name: "like"}, fmt.Appendf(nil, "%s of %s %06d", strings.Repeat("much alike, ", 100), id, i))
	err := e.Commit(context.Background(), []string{id}, func(tx *Tx) error {
		return tx.Put(id, versionKey(i), index.FlagHead, []SlotIn{{Name: "small", Value: &small}, {Name: "random", Value: &random}, {Name: "like", Value: &like}})
	})
	return errors.Join(err1, err2, err3, err)
}

// wantAhead reads back what aheadStep put.
func wantAhead(t *testing.T, e *Engine, id string, i int) {
	t.Helper()
	th, err := e.Partition(id)
	must(t, err)
	want := []string{fmt.Sprintf("small %d", i), noise(i, 3<<10), fmt.Sprintf("%s of %s %06d", strings.Repeat("much alike, ", 100), id, i)}
	for n, s := range th.Get(versionKey(i)).Slots.All() {
		if b, err := e.ReadValue(t.Context(), th.Family, s.Ref); err != nil || string(b) != want[n] {
			t.Errorf("%s, step %d, value %d: %d bytes, %v", id, i, n, len(b), err)
		}
	}
}

// A flush reads the values of a commit with one call to the system, and fewer where commits of
// a thread follow each other: in pieces of 64 KiB, up to 1 MiB of a thread. What lies beyond
// is read value by value.
func TestFlushReadsTheLogInPieces(t *testing.T) {
	reads := 0
	o := Options{FS: logReadsFS{vfs.NewMem(vfs.MemOptions{}), &reads}, ManualWork: true, CacheBytes: -1, Hot: lastHot}
	e := mustOpen(t, o)
	const turns, alone, long = 30, 40, 400
	for i := range turns {
		must(t, aheadStep(e, "a", i))
		must(t, aheadStep(e, "b", i))
	}
	for i := range alone {
		must(t, aheadStep(e, "c", i))
	}
	for i := range long {
		must(t, aheadStep(e, "d", i))
	}
	mustPut(t, e, "e", "k", noise(1, 100<<10))
	reads = 0
	must(t, e.Flush(t.Context()))
	const step = 3<<10 + 200 // of the log; the first takes 1 KB more
	most := 2*turns + 2*alone*step>>16 + (1<<20)>>16 + 3*(long-(1<<20)/(2*step)) + 1
	t.Logf("%d reads of %d steps", reads, 2*turns+alone+long)
	if reads > most {
		t.Errorf("%d reads of the log, wanted at most %d", reads, most)
	}
	for range 2 {
		for i := range turns {
			wantAhead(t, e, "a", i)
			wantAhead(t, e, "b", i)
		}
		for i := range alone {
			wantAhead(t, e, "c", i)
		}
		for i := range long {
			wantAhead(t, e, "d", i)
		}
		if got, err := read(e, "e", "k"); err != nil || got != noise(1, 100<<10) {
			t.Errorf("a large value: %d bytes, %v", len(got), err)
		}
		must(t, e.Close())
		e = mustOpen(t, o)
	}
	must(t, e.Close())
}

// What is damaged in the log is found by the flush that reads it with other values, and said
// as if it had been read alone: a value, a patch, and what a patch is against.
func TestFlushReadsDamageAhead(t *testing.T) {
	for _, hit := range []struct{ step, slot int }{{5, 0}, {5, 1}, {5, 2}, {0, 2}} {
		dir := t.TempDir()
		e, err := Open(dir, Options{ManualWork: true, CacheBytes: -1, Hot: lastHot})
		must(t, err)
		for i := range 10 {
			must(t, aheadStep(e, "t", i))
		}
		th, err := e.Partition("t")
		must(t, err)
		loc, ok := th.Family.Loc(th.Get(versionKey(hit.step)).Slots.At(hit.slot).Ref)
		if want := hit.slot == 2 && hit.step > 0; !ok || loc.Patched() != want {
			t.Fatalf("value %d of step %d lies at %+v", hit.slot, hit.step, loc)
		}
		name := e.Files.path(base.LogFile, loc.File)
		b, err := os.ReadFile(name)
		must(t, err)
		at := loc.Off + uint64(loc.Len) - 1
		f, err := os.OpenFile(name, os.O_RDWR, 0) // not os.WriteFile, which cuts it first
		must(t, err)
		_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
		must(t, errors.Join(err, f.Close()))
		err = e.Flush(t.Context())
		var damage *fault.CorruptionError
		if !errors.As(err, &damage) || damage.File != base.LogFile.Name(loc.File) || damage.Offset != int64(loc.Off) {
			t.Errorf("value %d of step %d is damaged: %v", hit.slot, hit.step, err)
		}
		_ = e.Close()
	}
}
