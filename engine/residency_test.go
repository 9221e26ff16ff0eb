package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// putMany gives each of n partitions one entry, whose key is as long as that of a
// checkpoint.
func putMany(t *testing.T, e *Engine, n, round int) {
	t.Helper()
	const batch = 500
	for from := 0; from < n; from += batch {
		err := e.Commit(context.Background(), nil, func(tx *Tx) error {
			for i := from; i < min(n, from+batch); i++ {
				v, err := NewValue(fmt.Appendf(nil, "value %d of %d", round, i))
				if err != nil {
					return err
				}
				key := fmt.Sprintf("c\x00%08x-%04x-6000-8000-%012x", round, i%0xffff, i)
				if err := tx.Put(residentID(i), key, index.FlagHead, []SlotIn{{Name: "v", Tag: "1", Value: &v}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func residentID(i int) string { return fmt.Sprintf("tenant-%04d/thread-%08d", i%100, i) }

// readMany reads partitions at a stride, and the one value of each.
func readMany(t *testing.T, e *Engine, n, stride, round int) {
	t.Helper()
	for i := 0; i < n; i += stride {
		th, err := e.Partition(residentID(i))
		if err != nil || th == nil {
			t.Fatalf("thread %d: %v, %v", i, th, err)
		}
		it := th.Last("")
		b, err := e.ReadValue(context.Background(), th.Family, it.Slots.At(0).Ref)
		if want := fmt.Sprintf("value %d of %d", round, i); err != nil || string(b) != want {
			t.Fatalf("thread %d has %q, %v; want %q", i, b, err, want)
		}
	}
}

// TestBirthLoadsNothing: a commit knows which record began each partition, as it finds and changes it,
// and loads none for that.
func TestBirthLoadsNothing(t *testing.T) {
	o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
	e, err := Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	putMany(t, e, 3, 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open("store", o); err != nil {
		t.Fatal(err)
	}
	loads := e.loads.Load()
	err = e.Commit(t.Context(), nil, func(tx *Tx) error {
		for id, want := range map[string]base.LSN{residentID(0): 1, residentID(1): 1, residentID(2): 1, "none": 0} {
			if at := tx.Birth(id); at != want {
				t.Errorf("%s was begun by record %d, not %d", id, at, want)
			}
		}
		if n := e.loads.Load() - loads; n != 0 {
			t.Errorf("%d partitions were loaded", n)
		}
		if err := errors.Join(tx.Drop(residentID(0), nil), tx.Drop(residentID(1), nil), tx.Put(residentID(1), "key", 0, nil)); err != nil {
			return err
		}
		if gone, anew := tx.Birth(residentID(0)), tx.Birth(residentID(1)); gone != 0 || anew != tx.LSN() {
			t.Errorf("a dropped partition is of record %d, one begun anew of %d, not %d", gone, anew, tx.LSN())
		}
		return nil
	})
	if err := errors.Join(err, e.Close()); err != nil {
		t.Error(err)
	}
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC() // cleanups of what the first one found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestColdThreadSize holds the memory of a cold partition to 120 bytes and its id, as
// it is after Open and as it is once every partition has been read and evicted.
func TestColdThreadSize(t *testing.T) {
	const most = 120
	n := 40_000 / race.Every
	if more, err := strconv.Atoi(os.Getenv("STELE_COLD_THREADS")); err == nil {
		n = more
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true, MemoryBudget: -1}
	e := mustOpen(t, o)
	putMany(t, e, n, 1)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// What a store takes whatever it holds does not count.
	empty := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, MemoryBudget: -1})
	putMany(t, empty, 1, 1)
	mustAll(t, empty.Flush(t.Context()), empty.Close())
	before := heapNow()
	e = mustOpen(t, o)
	defer func() { _ = e.Close() }()
	check := func(when string) {
		t.Helper()
		each := float64(heapNow()-before)/float64(n) - float64(len(residentID(0)))
		loaded, tables, _ := e.Index.Memory()
		t.Logf("%s: %.1f bytes a thread besides its id; %d bytes in tables, %d of loaded threads", when, each, tables, loaded)
		if each > most {
			t.Errorf("%s: a cold thread takes %.1f bytes and its id, want %d at most", when, each, most)
		}
	}
	check("after open")
	readMany(t, e, n, 50, 1)
	check("after reading")
	if e.Stats().Threads != n {
		t.Errorf("%d threads, want %d", e.Stats().Threads, n)
	}
}

// TestEviction writes and reads far more than the budget holds, across images,
// flushes and compactions, with a view open all along.
func TestEviction(t *testing.T) {
	const n, budget = 4000, 600_000
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, CacheBytes: -1, VersionBytes: -1, MemoryBudget: budget})
	defer func() { _ = e.Close() }()
	within := func(what string) {
		t.Helper()
		if loaded, _, _ := e.Index.Memory(); loaded > budget {
			t.Fatalf("%s: %d bytes of threads are loaded, the budget is %d", what, loaded, budget)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	putMany(t, e, n, 1)
	must(e.WriteImage(t.Context()))
	within("image")
	readMany(t, e, n, 1, 1)
	within("reading")
	v, err := e.View()
	must(err)
	defer v.Release()
	for round := 2; round < 5; round++ {
		putMany(t, e, n/2, round)
		must(e.Flush(t.Context()))
		within("flush")
		must(e.Compact(t.Context()))
		within("compaction")
		readMany(t, e, n/2, 7, round)
		within("reading")
		for i := 0; i < n; i += 9 { // as it was
			th, err := v.Partition(residentID(i))
			must(err)
			it := th.Last("")
			b, err := e.ReadValue(t.Context(), th.Family, it.Slots.At(0).Ref)
			if want := fmt.Sprintf("value 1 of %d", i); err != nil || string(b) != want {
				t.Fatalf("the view shows %q, %v for thread %d; want %q", b, err, i, want)
			}
		}
	}
	if _, _, evicted := e.Index.Memory(); evicted < n/2 {
		t.Errorf("%d threads were evicted, expected many more", evicted)
	}
}
