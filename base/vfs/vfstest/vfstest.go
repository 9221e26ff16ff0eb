// Package vfstest checks that a file system keeps the contract of vfs.FS. The
// same table runs on the operating system, in memory and through every wrapper,
// so that tests on a simulated disk mean something for a real one. Only tests
// import it.
//
// It is for this repository, and makes no promise to others.
package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// Options says which of the permitted behaviours a file system has.
type Options struct {
	// New returns an empty file system and an existing directory in it.
	New func(t *testing.T) (vfs.FS, string)
	// WindowsRules: open files cannot be removed or renamed.
	WindowsRules bool
}

// Run runs every conformance test as a subtest, each on a fresh file system.
func Run(t *testing.T, o Options) {
	for _, c := range []struct {
		name string
		test func(*env)
	}{
		{"Create", testCreate},
		{"ReadWrite", testReadWrite},
		{"Bounds", testBounds},
		{"Truncate", testTruncate},
		{"SparseWrite", testSparseWrite},
		{"ReadOnly", testReadOnly},
		{"Closed", testClosed},
		{"TwoHandles", testTwoHandles},
		{"Rename", testRename},
		{"Remove", testRemove},
		{"OpenFileRules", testOpenFileRules},
		{"Directories", testDirectories},
		{"NotExist", testNotExist},
		{"Lock", testLock},
		{"Syncs", testSyncs},
		{"Hold", testHold},
		{"Attached", testAttached},
		{"DirectoryAsFile", testDirectoryAsFile},
		{"Holes", testHoles},
		{"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, dir := o.New(t)
			c.test(&env{T: t, fs: fsys, dir: dir, windows: o.WindowsRules})
		})
	}
}

type env struct {
	*testing.T
	fs      vfs.FS
	dir     string
	windows bool
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

func (e *env) wantErr(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error is %v, want %v", err, want)
	}
}

func (e *env) create(name, content string) vfs.File {
	e.Helper()
	f, err := e.fs.Create(e.path(name))
	e.must(err)
	n, err := f.WriteAt([]byte(content), 0)
	e.must(err)
	if n != len(content) {
		e.Fatalf("wrote %d bytes of %d", n, len(content))
	}
	return f
}

func (e *env) write(name, content string) {
	e.Helper()
	e.must(e.create(name, content).Close())
}

func (e *env) contents(f vfs.File) string {
	e.Helper()
	size, err := f.Size()
	e.must(err)
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		e.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	return string(b)
}

func (e *env) read(name string) string {
	e.Helper()
	f, err := e.fs.Open(e.path(name))
	e.must(err)
	defer func() { e.must(f.Close()) }()
	return e.contents(f)
}

func (e *env) wantRead(name, want string) {
	e.Helper()
	if got := e.read(name); got != want {
		e.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func (e *env) wantNames(want ...string) {
	e.Helper()
	got, err := e.fs.List(e.dir)
	e.must(err)
	if !slices.Equal(got, want) {
		e.Fatalf("names are %q, want %q", got, want)
	}
}

func testCreate(e *env) {
	e.wantNames()
	e.write("b", "bb")
	e.write("a", "")
	e.wantNames("a", "b")
	_, err := e.fs.Create(e.path("b"))
	e.wantErr(err, fs.ErrExist)
	e.wantRead("b", "bb")
	_, err = e.fs.Create(e.path("no/such"))
	e.wantErr(err, fs.ErrNotExist)
	_, err = e.fs.Create(e.dir)
	e.wantErr(err, fs.ErrExist)
}

func testReadWrite(e *env) {
	f := e.create("f", "hello, world")
	_, err := f.WriteAt([]byte("HELLO"), 0)
	e.must(err)
	if got := e.contents(f); got != "HELLO, world" {
		e.Fatalf("got %q", got)
	}
	e.must(f.Close())
	f, err = e.fs.OpenReadWrite(e.path("f"))
	e.must(err)
	_, err = f.WriteAt([]byte("!"), 12) // not an append: the offset counts
	e.must(err)
	_, err = f.WriteAt([]byte("-"), 5)
	e.must(err)
	e.must(f.Close())
	e.wantRead("f", "HELLO- world!")
}

func testBounds(e *env) {
	f := e.create("f", "12345")
	b := make([]byte, 4)
	n, err := f.ReadAt(b, 3)
	if n != 2 || err != io.EOF || string(b[:n]) != "45" {
		e.Fatalf("read over the end: %d, %v, %q", n, err, b[:n])
	}
	if n, err = f.ReadAt(b, 5); n != 0 || err != io.EOF {
		e.Fatalf("read at the end: %d, %v", n, err)
	}
	if n, err = f.ReadAt(b, 1<<40); n != 0 || err != io.EOF {
		e.Fatalf("read far behind the end: %d, %v", n, err)
	}
	if n, err = f.ReadAt(nil, 99); n != 0 || err != nil {
		e.Fatalf("empty read: %d, %v", n, err)
	}
	if n, err = f.WriteAt(nil, 99); n != 0 || err != nil {
		e.Fatalf("empty write: %d, %v", n, err)
	}
	if _, err = f.ReadAt(b, -1); err == nil || err == io.EOF {
		e.Fatalf("read at -1: %v", err)
	}
	if _, err = f.WriteAt(b, -1); err == nil {
		e.Fatal("write at -1 succeeded")
	}
	if err = f.Truncate(-1); err == nil {
		e.Fatal("truncate to -1 succeeded")
	}
	if got := e.contents(f); got != "12345" {
		e.Fatalf("contents changed to %q", got)
	}
	e.must(f.Close())
}

func testTruncate(e *env) {
	f := e.create("f", "0123456789")
	e.must(f.Truncate(4))
	if got := e.contents(f); got != "0123" {
		e.Fatalf("cut to %q", got)
	}
	e.must(f.Truncate(8))
	if got := e.contents(f); got != "0123\x00\x00\x00\x00" {
		e.Fatalf("grown to %q: old bytes must not come back", got)
	}
	e.must(f.Truncate(0))
	if got := e.contents(f); got != "" {
		e.Fatalf("emptied to %q", got)
	}
	e.must(f.Close())
}

func testSparseWrite(e *env) {
	f := e.create("f", "x")
	const off = 64<<20 - 3
	_, err := f.WriteAt([]byte("abc"), off)
	e.must(err)
	size, err := f.Size()
	e.must(err)
	if size != 64<<20 {
		e.Fatalf("size %d", size)
	}
	b := make([]byte, 10_000)
	_, err = f.ReadAt(b, off-9_997)
	e.must(err)
	if !bytes.Equal(b[:9_997], make([]byte, 9_997)) || string(b[9_997:]) != "abc" {
		e.Fatal("the hole is not zeros followed by the data")
	}
	e.must(f.Close())
}

func testReadOnly(e *env) {
	e.write("f", "abc")
	f, err := e.fs.Open(e.path("f"))
	e.must(err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		e.Fatal("wrote through a read-only handle")
	}
	if err := f.Truncate(1); err == nil {
		e.Fatal("truncated through a read-only handle")
	}
	e.must(f.Close())
	e.wantRead("f", "abc")
}

func testClosed(e *env) {
	f := e.create("f", "abc")
	e.must(f.Close())
	_, err := f.ReadAt(make([]byte, 1), 0)
	e.wantErr(err, fs.ErrClosed)
	_, err = f.WriteAt([]byte("x"), 0)
	e.wantErr(err, fs.ErrClosed)
	_, err = f.Size()
	e.wantErr(err, fs.ErrClosed)
	e.wantErr(f.Truncate(0), fs.ErrClosed)
	e.wantErr(f.Sync(), fs.ErrClosed)
	e.wantErr(f.SyncData(), fs.ErrClosed)
	e.wantErr(f.Close(), fs.ErrClosed)
	e.wantRead("f", "abc")
}

func testTwoHandles(e *env) {
	w := e.create("f", "old")
	r, err := e.fs.Open(e.path("f"))
	e.must(err)
	_, err = w.WriteAt([]byte("newer"), 0)
	e.must(err)
	if got := e.contents(r); got != "newer" {
		e.Fatalf("second handle reads %q before any sync", got)
	}
	e.must(w.Close())
	e.must(r.Close())
}

func testRename(e *env) {
	e.write("a", "A")
	e.write("b", "B")
	e.must(e.fs.Rename(e.path("a"), e.path("c")))
	e.wantNames("b", "c")
	e.must(e.fs.Rename(e.path("b"), e.path("c")))
	e.wantNames("c")
	e.wantRead("c", "B")
	e.must(e.fs.Rename(e.path("c"), e.path("c")))
	e.wantRead("c", "B")
	e.wantErr(e.fs.Rename(e.path("gone"), e.path("d")), fs.ErrNotExist)
	e.must(e.fs.MkdirAll(e.path("sub")))
	e.wantErr(e.fs.Rename(e.path("c"), e.path("sub/c")), syscall.EXDEV)
	if err := e.fs.Rename(e.path("c"), e.path("sub")); err == nil {
		e.Fatal("a file replaced a directory")
	}
	e.wantNames("c", "sub")
}

func testRemove(e *env) {
	e.write("a", "A")
	e.must(e.fs.Remove(e.path("a")))
	e.wantNames()
	e.wantErr(e.fs.Remove(e.path("a")), fs.ErrNotExist)
	e.write("a", "") // the name is free again, and the file a new one
	e.wantRead("a", "")
	e.must(e.fs.MkdirAll(e.path("sub")))
	if err := e.fs.Remove(e.path("sub")); err == nil {
		e.Fatal("removed a directory")
	}
}

func testOpenFileRules(e *env) {
	f := e.create("f", "F")
	e.write("g", "G")
	if e.windows {
		e.wantErr(e.fs.Remove(e.path("f")), vfs.ErrInUse)
		e.wantErr(e.fs.Rename(e.path("f"), e.path("h")), vfs.ErrInUse)
		e.wantErr(e.fs.Rename(e.path("g"), e.path("f")), vfs.ErrInUse)
		e.wantRead("f", "F")
		e.wantRead("g", "G")
		e.must(f.Close())
		e.must(e.fs.Rename(e.path("g"), e.path("f")))
		e.wantRead("f", "G")
		e.must(e.fs.Remove(e.path("f")))
		e.wantNames()
		return
	}
	e.must(e.fs.Rename(e.path("g"), e.path("f")))
	e.must(e.fs.Remove(e.path("f")))
	e.wantNames()
	_, err := f.WriteAt([]byte("!"), 1)
	e.must(err)
	e.must(f.Sync())
	if got := e.contents(f); got != "F!" {
		e.Fatalf("the nameless file reads %q", got)
	}
	e.must(f.Close())
}

func testDirectories(e *env) {
	e.must(e.fs.MkdirAll(e.path("a/b/c")))
	e.must(e.fs.MkdirAll(e.path("a/b")))
	e.write("a/b/f", "F")
	e.write("a.txt", "")
	names, err := e.fs.List(e.path("a/b"))
	e.must(err)
	if !slices.Equal(names, []string{"c", "f"}) {
		e.Fatalf("a/b holds %q", names)
	}
	e.wantNames("a", "a.txt")
	if err := e.fs.MkdirAll(e.path("a.txt")); err == nil {
		e.Fatal("made a directory over a file")
	}
	if err := e.fs.MkdirAll(e.path("a.txt/sub")); err == nil {
		e.Fatal("made a directory below a file")
	}
	n, err := e.fs.FreeSpace(e.dir)
	e.must(err)
	if n <= 0 {
		e.Fatalf("free space %d", n)
	}
}

func testNotExist(e *env) {
	_, err := e.fs.Open(e.path("f"))
	e.wantErr(err, fs.ErrNotExist)
	_, err = e.fs.OpenReadWrite(e.path("f"))
	e.wantErr(err, fs.ErrNotExist)
	_, err = e.fs.List(e.path("f"))
	e.wantErr(err, fs.ErrNotExist)
	_, err = e.fs.FreeSpace(e.path("f"))
	e.wantErr(err, fs.ErrNotExist)
	_, err = e.fs.Lock(e.path("no/such"), "")
	e.wantErr(err, fs.ErrNotExist)
	if !e.windows {
		e.wantErr(e.fs.SyncDir(e.path("f")), fs.ErrNotExist)
	}
}

func testLock(e *env) {
	l, err := e.fs.Lock(e.path("LOCK"), "held by a longer text")
	e.must(err)
	e.wantRead("LOCK", "held by a longer text")
	for range 2 { // a refused attempt must not drop the lock
		_, err = e.fs.Lock(e.path("LOCK"), "other")
		e.wantErr(err, vfs.ErrLockHeld)
	}
	e.wantRead("LOCK", "held by a longer text")
	other, err := e.fs.Lock(e.path("LOCK2"), "")
	e.must(err)
	e.must(l.Close())
	e.wantErr(l.Close(), fs.ErrClosed)
	l, err = e.fs.Lock(e.path("LOCK"), "held again")
	e.must(err)
	e.wantRead("LOCK", "held again")
	e.must(l.Close())
	e.must(other.Close())
	e.wantNames("LOCK", "LOCK2")
}

func testSyncs(e *env) {
	f := e.create("f", "abc")
	e.must(f.SyncData())
	e.must(f.Sync())
	e.must(e.fs.SyncDir(e.dir))
	e.must(f.Close())
	e.wantRead("f", "abc")
}

// testConcurrent has one writer of a file beside readers, and other goroutines
// that create, rename, list and remove; it is the race detector's to judge.
func testConcurrent(e *env) {
	f := e.create("shared", "")
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	run := func(body func(i int) error) {
		wg.Go(func() {
			for i := range 50 {
				if err := body(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	run(func(i int) error {
		_, err := f.WriteAt(bytes.Repeat([]byte{byte(i)}, 5000), int64(i)*5000)
		return err
	})
	for range 2 {
		run(func(int) error {
			size, err := f.Size()
			if err != nil {
				return err
			}
			b := make([]byte, 100)
			if n, err := f.ReadAt(b, max(0, size-100)); err != nil && err != io.EOF {
				return fmt.Errorf("read %d: %w", n, err)
			}
			return nil
		})
	}
	for g := range 2 {
		run(func(i int) error {
			name := e.path(fmt.Sprintf("g%d-%d", g, i))
			h, err := e.fs.Create(name)
			if err != nil {
				return err
			}
			if err := h.Close(); err != nil {
				return err
			}
			if err := e.fs.Rename(name, name+"r"); err != nil {
				return err
			}
			if _, err := e.fs.List(e.dir); err != nil {
				return err
			}
			return e.fs.Remove(name + "r")
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		e.Error(err)
	}
	e.must(f.Close())
	e.wantNames("shared")
}
