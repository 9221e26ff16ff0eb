package vfstest

import (
	"io/fs"
	"syscall"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// testHold: a directory that is held does what its file system does there, and
// nothing anywhere else.
func testHold(e *env) {
	e.write("a", "A")
	e.must(e.fs.MkdirAll(e.path("sub")))
	_, err := vfs.Hold(e.fs, e.path("gone"))
	e.wantErr(err, fs.ErrNotExist)
	d, err := vfs.Hold(e.fs, e.dir)
	e.must(err)
	held := &env{T: e.T, fs: d, dir: e.dir, windows: e.windows}
	held.wantRead("a", "A")
	held.write("b", "B")
	held.must(d.Rename(e.path("b"), e.path("c")))
	held.wantNames("a", "c", "sub")
	e.wantRead("c", "B")
	held.must(d.Remove(e.path("a")))
	held.must(d.SyncDir(e.dir))
	held.must(d.MkdirAll(e.dir))
	held.must(d.InPlace())
	_, err = d.FreeSpace(e.dir)
	held.must(err)

	for _, name := range []string{"sub/f", "sub", "../f", ".", ".."} {
		if _, err := d.Create(e.path(name)); err == nil {
			e.Errorf("made %s through the directory", name)
		}
	}
	_, err = d.Open("/elsewhere/c")
	e.wantErr(err, fs.ErrInvalid)
	_, err = d.OpenReadWrite(e.path("sub/c"))
	e.wantErr(err, fs.ErrInvalid)
	_, err = d.Lock(e.path("sub/LOCK"), "")
	e.wantErr(err, fs.ErrInvalid)
	_, err = d.List(e.path("sub"))
	e.wantErr(err, fs.ErrInvalid)
	_, err = d.FreeSpace(e.path("sub"))
	e.wantErr(err, fs.ErrInvalid)
	_, err = d.Hold(e.path("sub"))
	e.wantErr(err, fs.ErrInvalid)
	e.wantErr(d.MkdirAll(e.path("new")), fs.ErrInvalid)
	e.wantErr(d.SyncDir(e.path("sub")), fs.ErrInvalid)
	e.wantErr(d.Remove(e.path("sub/c")), fs.ErrInvalid)
	e.wantErr(d.Rename(e.path("sub/c"), e.path("sub/d")), fs.ErrInvalid)
	e.wantErr(d.Rename(e.path("c"), e.path("sub/c")), syscall.EXDEV)
	e.wantNames("c", "sub")

	again, err := d.Hold(e.dir)
	e.must(err)
	e.must(d.Close())
	e.wantRead("c", "B")
	f, err := again.Open(e.path("c")) // it holds on its own
	e.must(err)
	e.attached(f, nil)
	e.must(again.Close())
	e.must(f.Close())
}

// attached checks that f has its name, and what the directory says of its size, or that the
// error is want.
func (e *env) attached(f vfs.File, want error) {
	e.Helper()
	size, err := f.Attached()
	e.wantErr(err, want)
	if want != nil {
		return
	}
	is, err := f.Size()
	e.must(err)
	if size != is {
		e.Fatalf("the directory says %d bytes, the file has %d", size, is)
	}
}

// testAttached: a file knows whether it still has its name, and its size though another
// handle changes it.
func testAttached(e *env) {
	d, err := vfs.Hold(e.fs, e.dir)
	e.must(err)
	for _, fsys := range []vfs.FS{e.fs, d} {
		f, err := fsys.Create(e.path("f"))
		e.must(err)
		l, err := fsys.Lock(e.path("LOCK"), "")
		e.must(err)
		e.attached(f, nil)
		e.must(l.Attached())
		other, err := fsys.OpenReadWrite(e.path("f"))
		e.must(err)
		for _, size := range []int64{5000, 3} {
			e.must(other.Truncate(size))
			e.attached(f, nil)
		}
		e.must(other.Close())
		if e.windows { // what is open keeps its name
			e.must(f.Close())
			e.must(l.Close())
			e.must(e.fs.Remove(e.path("f")))
			continue
		}
		e.must(e.fs.Rename(e.path("f"), e.path("g")))
		e.attached(f, vfs.ErrDetached)
		e.write("f", "")
		e.attached(f, vfs.ErrDetached)
		e.must(e.fs.Rename(e.path("g"), e.path("f")))
		e.attached(f, nil)
		e.must(e.fs.Remove(e.path("LOCK")))
		e.wantErr(l.Attached(), vfs.ErrDetached)
		e.must(l.Close())
		e.must(f.Close())
		e.must(e.fs.Remove(e.path("f")))
	}
	e.must(d.Close())
}

// testDirectoryAsFile: a directory is no file, whatever is to be done with it.
func testDirectoryAsFile(e *env) {
	e.must(e.fs.MkdirAll(e.path("sub")))
	_, err := e.fs.Open(e.path("sub"))
	e.wantErr(err, fault.ErrNotRegular)
	_, err = e.fs.OpenReadWrite(e.path("sub"))
	e.wantErr(err, fault.ErrNotRegular)
	_, err = e.fs.Lock(e.path("sub"), "")
	e.wantErr(err, fault.ErrNotRegular)
}

// testHoles: NextData passes over what was never written, and over no byte that was.
func testHoles(e *env) {
	f := e.create("f", "x")
	const size, at = 32 << 20, 20 << 20
	e.must(f.Truncate(size))
	_, err := f.WriteAt([]byte("y"), at)
	e.must(err)
	for _, off := range []int64{0, 1, 4096, 1 << 20, at - 1, at, at + 1, size - 1} {
		next, err := vfs.NextData(f, off, size)
		e.must(err)
		if next < off || next > size || off <= at && next > at {
			e.Fatalf("from %d the next data is at %d, of %d; a byte was written at %d", off, next, size, at)
		}
	}
	e.must(f.Close())
}
