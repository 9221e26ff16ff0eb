// Package faultfs is a file system whose operations fail, fall short or wait on
// purpose, at a place that the test chooses. Only tests import it.
//
// A test counts the operations of a run without faults and then repeats the run
// once for each of them, failing the first, the second, and so on:
//
//	for n := 1; ; n++ {
//		inj := faultfs.NewInjector(faultfs.Rule{Op: faultfs.OpAnyWrite, N: n})
//		err := run(faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj))
//		if inj.Count() == 0 {
//			break // there is no n-th write
//		}
//		if err == nil {
//			t.Errorf("swallowed %v", inj.Last())
//		}
//	}
//
// It is for this repository, and makes no promise to others.
package faultfs

import (
	"path/filepath"
	"sync"

	"github.com/stele-go/stele/base/vfs"
)

// FS passes operations on to another file system unless a rule of its injector
// says otherwise. It is as safe for concurrent use as the file system inside.
type FS struct {
	inner vfs.FS
	inj   *Injector
	*caches
}

// caches are what the files hold that no sync has covered, by path. A directory that is
// held shares them with its file system.
type caches struct {
	mu    sync.Mutex // guards files; taken before the lock of a cache
	files map[string]*cache
}

var (
	_ vfs.FS     = (*FS)(nil)
	_ vfs.Holder = (*FS)(nil)
	_ vfs.Dir    = (*dir)(nil)
)

// New wraps inner. Without rules the two behave alike.
func New(inner vfs.FS, inj *Injector) *FS {
	return &FS{inner: inner, inj: inj, caches: &caches{files: map[string]*cache{}}}
}

// Injector returns the injector given to New.
func (f *FS) Injector() *Injector { return f.inj }

// do carries out an operation that has no result but its error.
func (f *FS) do(op Op, call func() error, names ...string) error {
	v := f.inj.judge(op, names...)
	if v == nil {
		return call()
	}
	if v.rule.After {
		if err := call(); err != nil {
			return err
		}
	}
	return v.fault
}

// Create makes a new file; see vfs.FS.Create.
func (f *FS) Create(name string) (vfs.File, error) {
	return f.open(OpCreate, name, f.inner.Create)
}

// OpenReadWrite opens an existing file; see vfs.FS.OpenReadWrite.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	return f.open(OpOpenReadWrite, name, f.inner.OpenReadWrite)
}

// Open opens an existing file for reading; see vfs.FS.Open.
func (f *FS) Open(name string) (vfs.File, error) {
	return f.open(OpOpen, name, f.inner.Open)
}

func (f *FS) open(op Op, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	var h vfs.File
	err := f.do(op, func() (err error) {
		h, err = open(name)
		return err
	}, name)
	if err != nil {
		if h != nil {
			_ = h.Close() // the caller never hears of it
		}
		return nil, err
	}
	return &file{fs: f, inner: h, name: name, cache: f.cacheOf(name, op == OpCreate)}, nil
}

// Rename replaces newname by oldname; see vfs.FS.Rename.
func (f *FS) Rename(oldname, newname string) error {
	return f.do(OpRename, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.inner.Rename(oldname, newname); err != nil {
			return err
		}
		from, to := filepath.Clean(oldname), filepath.Clean(newname)
		if from == to {
			return nil
		}
		delete(f.files, to)
		if c := f.files[from]; c != nil {
			f.files[to] = c
			delete(f.files, from)
		}
		return nil
	}, oldname, newname)
}

// Remove deletes a file; see vfs.FS.Remove.
func (f *FS) Remove(name string) error {
	return f.do(OpRemove, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.inner.Remove(name); err != nil {
			return err
		}
		delete(f.files, filepath.Clean(name))
		return nil
	}, name)
}

// List returns the sorted names in dir; see vfs.FS.List.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(OpList, func() (err error) {
		names, err = f.inner.List(dir)
		return err
	}, dir)
	if err != nil {
		return nil, err
	}
	return names, nil
}

// MkdirAll creates a directory and its parents; see vfs.FS.MkdirAll.
func (f *FS) MkdirAll(dir string) error {
	return f.do(OpMkdirAll, func() error { return f.inner.MkdirAll(dir) }, dir)
}

// SyncDir makes names in dir durable; see vfs.FS.SyncDir.
func (f *FS) SyncDir(dir string) error {
	return f.do(OpSyncDir, func() error { return f.inner.SyncDir(dir) }, dir)
}

// Lock takes the lock; see vfs.FS.Lock.
func (f *FS) Lock(name, text string) (vfs.Lock, error) {
	var l vfs.Lock
	err := f.do(OpLock, func() (err error) {
		l, err = f.inner.Lock(name, text)
		return err
	}, name)
	if err != nil {
		if l != nil {
			_ = l.Close() // the caller never hears of it
		}
		return nil, err
	}
	return &lock{fs: f, inner: l, name: name}, nil
}

// Hold holds a directory; see vfs.Hold.
func (f *FS) Hold(name string) (vfs.Dir, error) {
	var d vfs.Dir
	err := f.do(OpHold, func() (err error) {
		d, err = vfs.Hold(f.inner, name)
		return err
	}, name)
	if err != nil {
		if d != nil {
			_ = d.Close() // the caller never hears of it
		}
		return nil, err
	}
	return &dir{FS: &FS{inner: d, inj: f.inj, caches: f.caches}, held: d, name: name}, nil
}

// dir is a directory that is held.
type dir struct {
	*FS
	held vfs.Dir
	name string
}

// InPlace implements vfs.Dir.
func (d *dir) InPlace() error { return d.do(OpInPlace, d.held.InPlace, d.name) }

// Close lets the directory go even if it reports a fault, as close(2) does.
func (d *dir) Close() error {
	v := d.inj.judge(OpClose, d.name)
	if err := d.held.Close(); err != nil || v == nil {
		return err
	}
	return v.fault
}

// FreeSpace is the room left; see vfs.FS.FreeSpace.
func (f *FS) FreeSpace(dir string) (n int64, err error) {
	err = f.do(OpFreeSpace, func() (err error) {
		n, err = f.inner.FreeSpace(dir)
		return err
	}, dir)
	if err != nil {
		return 0, err
	}
	return n, nil
}

type lock struct {
	fs    *FS
	inner vfs.Lock
	name  string
}

// Attached implements vfs.Lock.
func (l *lock) Attached() error { return l.fs.do(OpAttached, l.inner.Attached, l.name) }

// Close releases the lock even if it reports a fault, as close(2) does.
func (l *lock) Close() error {
	v := l.fs.inj.judge(OpUnlock, l.name)
	if err := l.inner.Close(); err != nil || v == nil {
		return err
	}
	return v.fault
}

type file struct {
	fs    *FS
	inner vfs.File
	name  string
	cache *cache
}

func (f *file) do(op Op, call func() error) error { return f.fs.do(op, call, f.name) }

// Attached implements vfs.File.
func (f *file) Attached() (size int64, err error) {
	err = f.do(OpAttached, func() error {
		size, err = f.inner.Attached()
		return err
	})
	return size, err
}

// NextData implements vfs.DataSeeker. It is part of a read, and has no kind of its own.
func (f *file) NextData(off int64) (int64, error) {
	size, err := f.inner.Size()
	if err != nil {
		return 0, err
	}
	return vfs.NextData(f.inner, off, size)
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	v := f.fs.inj.judgeRange(OpReadAt, off, off+int64(len(p)), f.name)
	if v == nil {
		return f.inner.ReadAt(p, off)
	}
	n := 0
	if v.rule.Short {
		var err error
		if n, err = f.inner.ReadAt(p[:len(p)/2], off); err != nil {
			return n, err
		}
	}
	return n, v.fault
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	v := f.fs.inj.judge(OpWriteAt, f.name)
	if v == nil {
		return f.cache.writeAt(f.inner, p, off)
	}
	switch {
	case v.rule.After:
	case v.rule.Short:
		p = p[:len(p)/2]
	default:
		return 0, v.fault
	}
	n, err := f.cache.writeAt(f.inner, p, off)
	if err == nil {
		err = v.fault
	}
	return n, err
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.sync(OpSync, f.inner.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.sync(OpSyncData, f.inner.SyncData) }

func (f *file) sync(op Op, call func() error) error {
	v := f.fs.inj.judge(op, f.name)
	if v != nil && !v.rule.After {
		if v.rule.LoseData {
			f.cache.lose()
		}
		return v.fault
	}
	if err := f.cache.sync(call); err != nil || v == nil {
		return err
	}
	return v.fault
}

// Truncate implements vfs.File.
func (f *file) Truncate(size int64) error {
	return f.do(OpTruncate, func() error { return f.cache.truncate(f.inner, size) })
}

// Size implements vfs.File.
func (f *file) Size() (n int64, err error) {
	err = f.do(OpSize, func() (err error) {
		n, err = f.inner.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Close closes the file even if it reports a fault, as close(2) does.
func (f *file) Close() error {
	v := f.fs.inj.judge(OpClose, f.name)
	if err := f.inner.Close(); err != nil || v == nil {
		return err
	}
	return v.fault
}
