package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// closedStore is a store of n partitions that was closed, with one full image.
func closedStore(t *testing.T, n int) (*vfs.Mem, Options) {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true}
	e := mustOpen(t, o)
	putMany(t, e, n, 1)
	must(t, e.Flush(t.Context()))
	e.images.mu.Lock()
	must(t, e.images.Write(true))
	e.images.mu.Unlock()
	must(t, e.Close())
	return mem, o
}

func tableBytes(e *Engine) int64 {
	_, tables, _ := e.Index.Memory()
	return tables
}

// TestOpenReadsNoTable: what Open keeps in memory of partitions nobody has asked for is a
// key for each frame, and a look adds the frames it needs.
func TestOpenReadsNoTable(t *testing.T) {
	const n = 6000
	_, o := closedStore(t, n)
	e := mustOpen(t, o)
	opened := tableBytes(e)
	if opened > n || e.Stats().Threads != n {
		t.Errorf("%d threads, and %d bytes of tables in memory after open", e.Stats().Threads, opened)
	}
	if _, err := read(e, residentID(n/2), fmt.Sprintf("c\x00%08x-%04x-6000-8000-%012x", 1, n/2, n/2)); err != nil {
		t.Fatal(err)
	}
	if got := tableBytes(e) - opened; got <= 0 || got > 64<<10 {
		t.Errorf("a look at one thread took %d bytes of tables", got)
	}
	mustPut(t, e, "new", "k", "v")
	readMany(t, e, n, 1, 1)
	all := tableBytes(e)
	if all < 50*n {
		t.Errorf("%d bytes of tables in memory after all were looked at", all)
	}
	// A process that dies leaves a store whose tables are read at open, and checked.
	must(t, e.log.Sync(context.Background()))
	o.FS = vfs.NewMemFrom(o.FS.(*vfs.Mem).Image(), vfs.MemOptions{})
	killed := mustOpen(t, o)
	if got := tableBytes(killed); got < 50*n {
		t.Errorf("%d bytes of tables after a kill", got)
	}
	mustAll(t, killed.Close(), e.Close())
}

// countedFS counts the reads of images, and what they read.
type countedFS struct {
	vfs.FS
	reads, bytes *int
}

func (f countedFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if _, ok := base.ImageFile.Parse(filepath.Base(name)); ok && err == nil {
		file = countedFile{file, f}
	}
	return file, err
}

type countedFile struct {
	vfs.File
	fs countedFS
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	*f.fs.reads++
	*f.fs.bytes += len(b)
	return f.File.ReadAt(b, off)
}

// TestOpenReadsFootersAlone: whatever the number of partitions, Open reads header, tail and
// footer of an image and keeps what a few frames take; the first look at a partition reads
// the list that leads to its frame, the frame, and the same for its family.
func TestOpenReadsFootersAlone(t *testing.T) {
	for _, n := range []int{300, 3_000, 20_000} {
		mem, o := closedStore(t, n)
		reads, size := 0, 0
		o.FS = countedFS{mem, &reads, &size}
		e := mustOpen(t, o)
		images := len(e.state().Images)
		opened := tableBytes(e)
		t.Logf("%d threads: %d reads of %d bytes, %d bytes in memory", n, reads, size, opened)
		if images != 1 || reads > 3 || size > 4<<10 || opened > 2<<10 {
			t.Errorf("%d threads: Open read %d bytes of %d images in %d reads, and keeps %d", n, size, images, reads, opened)
		}
		reads = 0
		if th, err := e.Index.Partition(residentID(n / 2)); err != nil || th == nil {
			t.Fatal(th, err)
		}
		if want := 1 + min(n/3000, 1); reads != want {
			t.Errorf("%d threads: a look took %d reads, want %d", n, reads, want)
		}
		if _, err := e.Index.Partition(residentID(n/2) + "x"); err != nil || reads > 2 {
			t.Errorf("%d threads: a look beside took more reads, %d in all; %v", n, reads, err)
		}
		reads = 0
		if _, err := e.Partition(residentID(n / 2)); err != nil || reads > 4 {
			t.Errorf("%d threads: loading a thread took %d reads; %v", n, reads, err)
		}
		must(t, e.Close())
	}
}

// TestDamagedList: a damaged list costs those below it an error until the store is opened
// again, which finds it forgotten, and then nothing.
func TestDamagedList(t *testing.T) {
	const n = 3000
	mem, o := closedStore(t, n)
	e := mustOpen(t, o)
	images := e.state().Images
	h, err := e.Files.Acquire(images[len(images)-1].Num)
	must(t, err)
	name, at := h.Kind.Name(h.Num), int64(0)
	must(t, h.Image.Inspect(func(fr snapshot.ImageFrame) error {
		if fr.Type == "thread list" {
			at = fr.Offset + fr.Size/2
		}
		return nil
	}))
	e.Files.Release(h)
	must(t, e.Close())
	if at == 0 {
		t.Fatal("the test needs a list")
	}
	flip(t, mem, name, at)
	if damaged, _, err := VerifyStore(t.Context(), o); err != nil || !damaged {
		t.Errorf("verify: damaged %v, %v", damaged, err)
	}
	e = mustOpen(t, o)
	if rep := e.Report(); rep.IndexRebuilt || !rep.CleanClose {
		t.Fatalf("the test needs an open that does not see the damage: %+v", rep)
	}
	var damage *fault.CorruptionError
	for _, id := range []string{residentID(0), residentID(n - 1), residentID(7) + "x"} {
		err := e.Commit(t.Context(), nil, func(tx *Tx) error { return tx.Put(id, "k", 0, nil) })
		if _, rerr := e.Partition(id); !errors.As(err, &damage) || !errors.As(rerr, &damage) || damage.File != name {
			t.Errorf("thread %q: commit %v, look %v", id, err, rerr)
		}
	}
	if e.Metrics().CorruptionsFound == 0 || e.Health().Status != metrics.StatusDegraded {
		t.Errorf("%d corruptions, health %v", e.Metrics().CorruptionsFound, e.Health().Status)
	}
	must(t, e.Close())
	e = mustOpen(t, o)
	if !e.Report().IndexRebuilt {
		t.Error("the index was not made anew")
	}
	readMany(t, e, n, 1, 1)
	must(t, e.Close())
	if damaged, _, err := VerifyStore(t.Context(), o); err != nil || damaged {
		t.Errorf("verify at last: damaged %v, %v", damaged, err)
	}
	// After a kill a damaged list is found at once, and made good.
	mem, o = closedStore(t, n)
	e = mustOpen(t, o)
	mustPut(t, e, "new", "k", "v")
	must(t, e.log.Sync(context.Background()))
	killed := vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
	must(t, e.Close())
	flip(t, killed, name, at)
	o.FS = killed
	e = mustOpen(t, o)
	if !e.Report().IndexRebuilt {
		t.Error("after a kill the index was not made anew")
	}
	readMany(t, e, n, 1, 1)
	if got, err := read(e, "new", "k"); err != nil || got != "v" {
		t.Errorf("what was put is %q, %v", got, err)
	}
	must(t, e.Close())
}

// frameOf is the place in its file of the frame of partitions that may have an id.
func frameOf(t *testing.T, e *Engine, id string) (file string, fr snapshot.ImageFrame) {
	t.Helper()
	images := e.state().Images
	h, err := e.Files.Acquire(images[len(images)-1].Num)
	must(t, err)
	defer e.Files.Release(h)
	must(t, h.Image.Inspect(func(f snapshot.ImageFrame) error {
		table, err := index.TableOf([]index.Chunk{{Data: f.Raw, N: int(f.Count)}}, nil)
		if f.Type == "threads" && err == nil {
			must(t, table.Partitions(func(r index.Row) bool {
				if r.ID == id {
					fr = f
				}
				return true
			}))
		}
		return nil
	}))
	if fr.Size == 0 {
		t.Fatalf("no frame has %q", id)
	}
	return h.Kind.Name(h.Num), fr
}

func flip(t *testing.T, mem *vfs.Mem, name string, off int64) {
	t.Helper()
	f, err := mem.OpenReadWrite(filepath.Join("store", name))
	must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	must(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], off)
	must(t, err)
	must(t, f.Close())
}

// damagedStore is a closed store in whose table of partitions one frame is damaged, which
// has the partition id.
func damagedStore(t *testing.T, n int, id string) (*vfs.Mem, Options) {
	t.Helper()
	mem, o := closedStore(t, n)
	e := mustOpen(t, o)
	name, fr := frameOf(t, e, id)
	must(t, e.Close())
	flip(t, mem, name, fr.Offset+fr.Size/2)
	return mem, o
}

// TestDamagedTable: damage to a frame of the table costs those who ask for a partition
// that may be in it an error, until the store is opened again; nobody is told that
// such a partition does not exist, nothing that was acknowledged is lost, and verify
// names the damage.
func TestDamagedTable(t *testing.T) {
	const n = 3000
	lost := residentID(1500)
	for _, kill := range []bool{false, true} {
		_, o := damagedStore(t, n, lost)
		if damaged, _, err := VerifyStore(t.Context(), o); err != nil || !damaged {
			t.Errorf("verify: damaged %v, %v", damaged, err)
		}
		e := mustOpen(t, o)
		if rep := e.Report(); rep.IndexRebuilt || !rep.CleanClose {
			t.Fatalf("the test needs an open that does not see the damage: %+v", rep)
		}
		costs := 0
		for i := range n {
			th, err := e.Partition(residentID(i))
			if errors.Is(err, fault.ErrCorrupt) {
				costs++
				continue
			}
			if err != nil || th == nil {
				t.Fatalf("thread %d: %v, %v", i, th, err)
			}
			mustPut(t, e, residentID(i), "k", "after")
		}
		if costs == 0 || costs > n/5 {
			t.Errorf("the damage costs %d of %d threads", costs, n)
		}
		for _, id := range []string{lost, lost + "x"} {
			err := e.Commit(t.Context(), nil, func(tx *Tx) error { return tx.Put(id, "k", 0, nil) })
			if _, rerr := e.Partition(id); !errors.Is(err, fault.ErrCorrupt) || !errors.Is(rerr, fault.ErrCorrupt) {
				t.Errorf("thread %q: commit %v, look %v", id, err, rerr)
			}
		}
		if e.Metrics().CorruptionsFound == 0 || e.Health().Status != metrics.StatusDegraded {
			t.Errorf("%d corruptions, health %v", e.Metrics().CorruptionsFound, e.Health().Status)
		}
		if err := e.Flush(t.Context()); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a flush says %v", err)
		}
		reopen := o
		if kill {
			must(t, e.log.Sync(context.Background()))
			reopen.FS = vfs.NewMemFrom(o.FS.(*vfs.Mem).Image(), vfs.MemOptions{})
		}
		must(t, e.Close())
		e = mustOpen(t, reopen)
		if !e.Report().IndexRebuilt {
			t.Errorf("killed %t: the index was not made anew", kill)
		}
		after := 0
		for i := range n {
			th, err := e.Partition(residentID(i))
			if err != nil || th == nil {
				t.Fatalf("thread %d after all: %v, %v", i, th, err)
			}
			if th.Get("k") != nil {
				after++
			}
		}
		if after != n-costs {
			t.Errorf("%d threads were put while the table was damaged, %d have it", n-costs, after)
		}
		must(t, e.Close())
		if damaged, _, err := VerifyStore(t.Context(), reopen); err != nil || damaged {
			t.Errorf("verify at last: damaged %v, %v", damaged, err)
		}
	}
}

// TestDamageFoundByClose: work that is the first to meet a damaged frame fails without
// a trace, commits go on, and Close leaves a store whose next Open is whole.
func TestDamageFoundByClose(t *testing.T) {
	const n = 1500
	for _, scan := range []bool{false, true} {
		_, o := damagedStore(t, n, residentID(700))
		e := mustOpen(t, o)
		mustPut(t, e, "~", "k", "v")
		if scan {
			if err := e.Flush(t.Context()); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("a flush that needs all rows says %v", err)
			}
			v, err := e.View()
			must(t, err)
			seen := 0
			if err := v.Ascend("", func(*index.Partition) bool { seen++; return true }); !errors.Is(err, fault.ErrCorrupt) || seen >= n {
				t.Errorf("a scan saw %d of %d threads and says %v", seen, n, err)
			}
			v.Release()
		} else {
			e.images.mu.Lock()
			e.images.setBad() // the image at close is a full one, which needs all rows
			e.images.mu.Unlock()
		}
		mustPut(t, e, "~", "l", "w")
		must(t, e.Close())
		e = mustOpen(t, o)
		readMany(t, e, n, 1, 1)
		for key, want := range map[string]string{"k": "v", "l": "w"} {
			if got, err := read(e, "~", key); err != nil || got != want {
				t.Errorf("%s is %q, %v", key, got, err)
			}
		}
		must(t, e.Close())
	}
}

// TestViewKeepsTables: a view whose tables lie in an image reads them after a full
// image has replaced that, and lookups go on beside.
func TestViewKeepsTables(t *testing.T) {
	const n = 3000
	_, o := closedStore(t, n)
	e := mustOpen(t, o)
	v, err := e.View()
	must(t, err)
	mustPut(t, e, residentID(5), "k", "new")
	must(t, fullImage(e))
	seen := 0
	must(t, v.Ascend("", func(th *index.Partition) bool { seen++; return th.ID != "" }))
	th, err := v.Partition(residentID(5))
	if seen != n || err != nil || th == nil || th.Get("k") != nil {
		t.Errorf("the view sees %d of %d threads, %v, %v", seen, n, th, err)
	}
	v.Release()
	must(t, e.Close())

	e = mustOpen(t, o)
	var wg sync.WaitGroup
	wg.Go(func() { // full images, one after the other, take the files of the tables away
		for i := range 3 {
			mustPut(t, e, residentID(i), "k", fmt.Sprint(i))
			if err := fullImage(e); err != nil {
				t.Error(err)
			}
		}
	})
	for k := range 2 {
		wg.Go(func() {
			for i := k; i < n; i += 7 {
				if th, err := e.Partition(residentID(i)); err != nil || th == nil {
					t.Errorf("thread %d: %v, %v", i, th, err)
				}
			}
		})
	}
	wg.Wait()
	must(t, e.Close())
}

func fullImage(e *Engine) error {
	e.images.mu.Lock()
	defer e.images.mu.Unlock()
	return e.images.Write(true)
}
