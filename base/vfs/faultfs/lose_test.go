package faultfs

import (
	"errors"
	"syscall"
	"testing"
)

// TestLoseData plays the fsync failure of common file systems: the data stays
// readable, the next sync succeeds, and the data is gone all the same.
func TestLoseData(t *testing.T) {
	const page = 4 << 10
	fsys, mem := newFS(t)
	f := must(fsys.Create("db/f"))
	pages := func(letters string) {
		t.Helper()
		for i, c := range []byte(letters) {
			if c != '-' {
				must(f.WriteAt([]byte{c}, int64(i)*page))
			}
		}
	}
	want := func(letters string) {
		t.Helper()
		got := ""
		for off := int64(0); off < must(f.Size()); off += page {
			b := make([]byte, 1)
			must(f.ReadAt(b, off))
			if b[0] == 0 {
				b[0] = '.'
			}
			got += string(b)
		}
		if got != letters {
			t.Errorf("pages are %q, want %q", got, letters)
		}
	}
	drop := func(pages int) {
		t.Helper()
		if n, err := fsys.DropLost(); err != nil || n != pages {
			t.Errorf("dropped %d pages (%v), want %d", n, err, pages)
		}
	}
	fail := func(op Op, sync func() error) {
		t.Helper()
		fsys.Injector().Set(Rule{Op: op, LoseData: true})
		if err := sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the sync returned %v", err)
		}
	}

	pages("abc")
	check(t, f.Sync())
	drop(0) // nothing was lost yet
	pages("-xyz")
	fail(OpSync, f.Sync)
	want("axyz")       // the cache still has it
	check(t, f.Sync()) // and the next sync knows of no dirty page
	pages("--1")       // written again: dirty again
	check(t, f.SyncData())
	drop(2)
	want("ab1.") // the size went through the journal, the data did not
	drop(0)

	// What is on the disk is what the last good sync wrote, however many bad
	// ones came after it.
	pages("p")
	fail(OpSyncData, f.SyncData)
	pages("q")
	fail(OpSync, f.Sync)
	drop(1)
	want("ab1.")

	// Truncation and renaming in between.
	pages("rstu")
	fail(OpSync, f.Sync)
	check(t, f.Truncate(2*page))
	check(t, f.Truncate(4*page))
	check(t, fsys.Rename("db/f", "db/g"))
	drop(2)
	want("ab..")

	must(f.WriteAt([]byte("0123456789"), 2*page))
	check(t, f.Sync())
	must(f.WriteAt([]byte("X"), 2*page))
	fail(OpSync, f.Sync)
	check(t, f.Truncate(2*page+5)) // within the lost page
	check(t, f.Truncate(4*page))
	drop(1)
	b := make([]byte, 10)
	must(f.ReadAt(b, 2*page))
	if string(b) != "01234\x00\x00\x00\x00\x00" {
		t.Errorf("what was cut off came back from the disk: %q", b)
	}
	check(t, f.Truncate(2*page))
	check(t, f.Truncate(4*page))

	// A fault without LoseData leaves the pages dirty: a later sync helps.
	pages("v")
	fsys.Injector().Set(Rule{Op: OpSync})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the sync returned %v", err)
	}
	check(t, f.Sync())
	drop(0)
	want("vb..")

	// Removed files are beyond loss, and a file of the same name is another.
	pages("w")
	fail(OpSync, f.Sync)
	check(t, fsys.Remove("db/g"))
	check(t, f.Close())
	g := must(fsys.Create("db/g"))
	must(g.WriteAt([]byte("new"), 0))
	drop(0)
	if got := readFile(t, mem, "db/g"); got != "new" {
		t.Errorf("the new file holds %q", got)
	}
}

// TestLoseDataBehindOtherHandle: pages belong to the file, not to the handle.
func TestLoseDataBehindOtherHandle(t *testing.T) {
	fsys, _ := newFS(t)
	f := must(fsys.Create("db/f"))
	must(f.WriteAt([]byte("abc"), 0))
	check(t, f.Close())
	r := must(fsys.Open("db/f"))
	fsys.Injector().Set(Rule{Op: OpSyncData, LoseData: true})
	if err := r.SyncData(); err == nil {
		t.Fatal("no fault")
	}
	n, err := fsys.DropLost()
	if err != nil || n != 1 || readFile(t, fsys, "db/f") != "\x00\x00\x00" {
		t.Errorf("dropped %d (%v), left %q", n, err, readFile(t, fsys, "db/f"))
	}
}
