package vfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"runtime"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

const page = 4 << 10

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantFree(t *testing.T, m *vfs.Mem, pages int64) {
	t.Helper()
	if got := must[int64](t)(m.FreeSpace(".")); got != pages*page {
		t.Fatalf("free space is %d bytes, want %d pages", got, pages)
	}
}

func TestMemCapacity(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{Capacity: 4*page + 100})
	f := must[vfs.File](t)(m.Create("f"))
	wantFree(t, m, 4)
	must[int](t)(f.WriteAt(make([]byte, page), 0)) // zeros take room as well
	must[int](t)(f.WriteAt([]byte("x"), 2*page))   // leaves a hole
	wantFree(t, m, 2)
	check(t, f.Truncate(100*page)) // a promise the device need not keep
	wantFree(t, m, 2)

	// Fills the hole and one page more, then is cut short inside the buffer.
	data := bytes.Repeat([]byte("d"), 4*page)
	n, err := f.WriteAt(data, page-10)
	if !errors.Is(err, syscall.ENOSPC) || n != 3*page+10 {
		t.Fatalf("wrote %d bytes, error %v; want %d and ENOSPC", n, err, 3*page+10)
	}
	wantFree(t, m, 0)
	got := make([]byte, 4*page)
	must[int](t)(f.ReadAt(got, page-10))
	if !bytes.Equal(got[:n], data[:n]) || !bytes.Equal(got[n:], make([]byte, len(got)-n)) {
		t.Fatal("not exactly the reported prefix was written")
	}
	must[int](t)(f.WriteAt(data[:2*page], 0)) // overwriting needs no room

	check(t, f.Truncate(page+1))
	wantFree(t, m, 2)
	check(t, m.Remove("f"))
	wantFree(t, m, 2) // the handle still holds it
	check(t, f.Close())
	wantFree(t, m, 4)

	m.SetCapacity(page)
	g := must[vfs.File](t)(m.Create("g"))
	if n, err := g.WriteAt(data, 0); !errors.Is(err, syscall.ENOSPC) || n != page {
		t.Fatalf("wrote %d bytes, error %v after the device shrank", n, err)
	}
	m.SetCapacity(0)
	must[int](t)(g.WriteAt(data, 0))
	if free := must[int64](t)(m.FreeSpace(".")); free != math.MaxInt64 {
		t.Fatalf("free space of an unlimited device is %d", free)
	}
}

// TestMemRenameFreesSpace: the replaced file gives its pages back.
func TestMemRenameFreesSpace(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{Capacity: 4 * page})
	for _, name := range []string{"a", "b"} {
		f := must[vfs.File](t)(m.Create(name))
		must[int](t)(f.WriteAt(bytes.Repeat([]byte(name), 2*page), 0))
		check(t, f.Close())
	}
	wantFree(t, m, 0)
	check(t, m.Rename("a", "b"))
	wantFree(t, m, 2)
}

// TestMemLockOnFullDisk: a store on a full disk can still be opened.
func TestMemLockOnFullDisk(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{Capacity: page})
	f := must[vfs.File](t)(m.Create("f"))
	must[int](t)(f.WriteAt(make([]byte, page), 0))
	l, err := m.Lock("LOCK", "me")
	if err != nil {
		t.Fatalf("lock on a full disk: %v", err)
	}
	check(t, l.Close())
}

func TestMemWindowsSyncNeedsWriteHandle(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
	w := must[vfs.File](t)(m.Create("f"))
	check(t, w.Sync())
	r := must[vfs.File](t)(m.Open("f"))
	if err := r.SyncData(); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("synced through a read-only handle: %v", err)
	}
	l, err := m.Lock("LOCK", "")
	check(t, err)
	if err := m.Remove("LOCK"); !errors.Is(err, vfs.ErrInUse) {
		t.Fatalf("removed a held lock file: %v", err)
	}
	check(t, l.Close())
	check(t, m.Remove("LOCK"))
}

// TestMemImage: an image and what is made from it share nothing that is written.
func TestMemImage(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	check(t, m.MkdirAll("d/e"))
	f := must[vfs.File](t)(m.Create("d/f"))
	old := bytes.Repeat([]byte("o"), 3*page)
	must[int](t)(f.WriteAt(old, 0))
	l, err := m.Lock("LOCK", "")
	check(t, err)
	img := m.Image()
	c := vfs.NewMemFrom(img, vfs.MemOptions{Capacity: 10 * page})
	wantFree(t, c, 7)

	must[int](t)(f.WriteAt([]byte("new"), page))
	check(t, f.Truncate(page+3))
	g := must[vfs.File](t)(c.OpenReadWrite("d/f"))
	must[int](t)(g.WriteAt([]byte("other"), 2*page))
	cl, err := c.Lock("LOCK", "") // locks are not part of an image
	check(t, err)
	check(t, cl.Close())
	check(t, l.Close())

	read := func(m *vfs.Mem) []byte {
		f := must[vfs.File](t)(m.Open("d/f"))
		b := make([]byte, must[int64](t)(f.Size()))
		must[int](t)(f.ReadAt(b, 0))
		return b
	}
	if got := read(m); string(got) != string(old[:page])+"new" {
		t.Fatal("the original is wrong")
	}
	if got := read(c); string(got) != string(old[:2*page])+"other"+string(old[:page-5]) {
		t.Fatal("the copy is wrong")
	}
	if got := read(vfs.NewMemFrom(img, vfs.MemOptions{})); !bytes.Equal(got, old) {
		t.Fatal("the image changed")
	}
	names := must[[]string](t)(c.List("d"))
	if len(names) != 2 || names[0] != "e" || names[1] != "f" {
		t.Fatalf("the copy holds %q", names)
	}
}

// TestMemZerosAreFree: preallocated log files must not eat the test's memory.
func TestMemZerosAreFree(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	f := must[vfs.File](t)(m.Create("f"))
	buf := make([]byte, 256<<10)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for off := int64(0); off < 64<<20; off += int64(len(buf)) {
		must[int](t)(f.WriteAt(buf, off))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Fatalf("64 MiB of zeros took %d bytes", grown)
	}
	if _, err := f.WriteAt([]byte("x"), 1<<60); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a write at a stray offset: %v", err)
	}
	if err := f.Truncate(1 << 60); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a truncate to a stray size: %v", err)
	}
}
