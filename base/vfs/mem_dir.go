package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs/internal/sparse"
)

// memDir is a directory of a Mem, independent of its path. Mem.mu guards it.
type memDir struct {
	path  string // clean
	gone  bool   // removed, with everything in it
	holds int    // how many hold it
}

// memView is a Mem through a directory that is held open, or as a whole.
type memView struct {
	m *Mem
	// The rest is for a directory that is held.
	d      *memDir
	dir    string // the path it was held by, clean
	closed bool   // guarded by Mem.mu
}

var _ Dir = (*memView)(nil)

// Hold opens a directory; see Holder.
func (m *Mem) Hold(dir string) (Dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := filepath.Clean(dir)
	if m.files[path] != nil {
		return nil, pathError("hold", dir, syscall.ENOTDIR)
	}
	if !m.isDirLocked(path) {
		return nil, pathError("hold", dir, fs.ErrNotExist)
	}
	d := m.dirLocked(path)
	d.holds++
	return &memView{m: m, d: d, dir: path}, nil
}

// RenameDir moves a directory with all that is in it, as another process might. newname
// must be free. With Windows rules a directory that is held, or that has an open file in
// it, is refused with ErrInUse.
func (m *Mem) RenameDir(oldname, newname string) error {
	from, to := filepath.Clean(oldname), filepath.Clean(newname)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.pinnedLocked("rename", from); err != nil {
		return err
	}
	if m.files[to] != nil || m.isDirLocked(to) || !m.isDirLocked(filepath.Dir(to)) || below(from, to) {
		return pathError("rename", newname, fs.ErrExist)
	}
	for path, d := range m.dirs {
		if below(from, path) {
			delete(m.dirs, path)
			d.path = to + path[len(from):]
			m.dirs[d.path] = d
		}
	}
	for path, n := range m.files {
		if below(from, path) {
			delete(m.files, path)
			m.files[to+path[len(from):]] = n
		}
	}
	return nil
}

// RemoveAll removes a directory with all that is in it, as another process might. Open
// files stay usable. With Windows rules a directory that is held, or that has an open file
// in it, is refused with ErrInUse.
func (m *Mem) RemoveAll(dir string) error {
	at := filepath.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.pinnedLocked("remove", at); err != nil {
		return err
	}
	for path, n := range m.files {
		if below(at, path) {
			delete(m.files, path)
			n.linked = false
			m.reapLocked(n)
		}
	}
	for path, d := range m.dirs {
		if below(at, path) {
			delete(m.dirs, path)
			d.gone = true
		}
	}
	return nil
}

// pinnedLocked refuses a directory that does not exist and, with Windows rules, one that
// is in use.
func (m *Mem) pinnedLocked(op, path string) error {
	if m.dirs[path] == nil {
		return pathError(op, path, fs.ErrNotExist)
	}
	if !m.windows {
		return nil
	}
	for p, d := range m.dirs {
		if below(path, p) && d.holds > 0 {
			return pathError(op, path, ErrInUse)
		}
	}
	for p, n := range m.files {
		if below(path, p) && n.opens > 0 {
			return pathError(op, path, ErrInUse)
		}
	}
	return nil
}

// below reports whether path is dir or lies below it.
func below(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]))
}

// dirLocked returns a directory that exists. Roots are never moved, so they need no
// identity.
func (m *Mem) dirLocked(path string) *memDir {
	if d := m.dirs[path]; d != nil {
		return d
	}
	return &memDir{path: path}
}

// isDirLocked: a path that is its own parent is a root.
func (m *Mem) isDirLocked(path string) bool {
	return m.dirs[path] != nil || filepath.Dir(path) == path
}

func (m *Mem) lookupLocked(path string) (*memNode, error) {
	if n := m.files[path]; n != nil {
		return n, nil
	}
	if m.isDirLocked(path) {
		return nil, &fault.NotRegularError{File: path, Kind: "directory"}
	}
	return nil, fs.ErrNotExist
}

// usableLocked is the error for a directory that was closed or removed.
func (v *memView) usableLocked() error {
	switch {
	case v.d == nil:
		return nil
	case v.closed:
		return fs.ErrClosed
	case v.d.gone:
		return fs.ErrNotExist
	}
	return nil
}

// fileLocked is the path that a file has now.
func (v *memView) fileLocked(op, name string) (string, error) {
	if v.d == nil {
		return filepath.Clean(name), nil
	}
	base, err := within(v.dir, op, name)
	if err == nil {
		if err = v.usableLocked(); err != nil {
			err = pathError(op, name, err)
		}
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(v.d.path, base), nil
}

// inLocked is the path that a directory has now.
func (v *memView) inLocked(op, dir string) (string, error) {
	if v.d == nil {
		return filepath.Clean(dir), nil
	}
	err := sameAs(v.dir, op, dir)
	if err == nil {
		if err = v.usableLocked(); err != nil {
			err = pathError(op, dir, err)
		}
	}
	return v.d.path, err
}

// Create makes a new file; see FS.Create.
func (v *memView) Create(name string) (File, error) {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	path, err := v.fileLocked("create", name)
	if err != nil {
		return nil, err
	}
	if m.files[path] != nil || m.isDirLocked(path) {
		return nil, pathError("create", name, fs.ErrExist)
	}
	n, err := m.createLocked(path)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return m.openLocked(n, path, name, true), nil
}

func (m *Mem) createLocked(path string) (*memNode, error) {
	if !m.isDirLocked(filepath.Dir(path)) {
		return nil, fs.ErrNotExist
	}
	n := &memNode{linked: true, data: new(sparse.Data)}
	m.files[path] = n
	return n, nil
}

// OpenReadWrite opens an existing file; see FS.OpenReadWrite.
func (v *memView) OpenReadWrite(name string) (File, error) { return v.open(name, true) }

// Open opens an existing file for reading; see FS.Open.
func (v *memView) Open(name string) (File, error) { return v.open(name, false) }

func (v *memView) open(name string, write bool) (File, error) {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	path, err := v.fileLocked("open", name)
	if err != nil {
		return nil, err
	}
	n, err := m.lookupLocked(path)
	if errors.Is(err, fault.ErrNotRegular) {
		return nil, err
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return m.openLocked(n, path, name, write), nil
}

// openLocked makes a handle on the file at path. name is for its errors.
func (m *Mem) openLocked(n *memNode, path, name string, write bool) *memFile {
	n.opens++
	return &memFile{m: m, n: n, dir: m.dirLocked(filepath.Dir(path)), base: filepath.Base(path), name: name, write: write}
}

// Rename replaces newname by oldname; see FS.Rename.
func (v *memView) Rename(oldname, newname string) error {
	if err := sameDir(oldname, newname); err != nil {
		return err
	}
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	from, err := v.fileLocked("rename", oldname)
	if err != nil {
		return err
	}
	to := filepath.Join(filepath.Dir(from), filepath.Base(newname))
	n, err := m.lookupLocked(from)
	if err != nil {
		return fail(err)
	}
	if m.isDirLocked(to) {
		return fail(syscall.EISDIR)
	}
	old := m.files[to]
	if m.windows && (n.opens > 0 || old != nil && old.opens > 0) {
		return fail(ErrInUse)
	}
	if old == n {
		return nil
	}
	delete(m.files, from)
	m.files[to] = n
	if old != nil {
		old.linked = false
		m.reapLocked(old)
	}
	return nil
}

// Remove deletes a file; see FS.Remove.
func (v *memView) Remove(name string) error {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	path, err := v.fileLocked("remove", name)
	if err != nil {
		return err
	}
	n, err := m.lookupLocked(path)
	if err != nil {
		return pathError("remove", name, err)
	}
	if m.windows && n.opens > 0 {
		return pathError("remove", name, ErrInUse)
	}
	delete(m.files, path)
	n.linked = false
	m.reapLocked(n)
	return nil
}

// List returns the sorted names in dir; see FS.List.
func (v *memView) List(dir string) ([]string, error) {
	m := v.m
	m.mu.RLock()
	defer m.mu.RUnlock()
	path, err := v.inLocked("list", dir)
	if err != nil {
		return nil, err
	}
	if !m.isDirLocked(path) {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	names := []string{}
	for f := range m.files {
		if filepath.Dir(f) == path {
			names = append(names, filepath.Base(f))
		}
	}
	for d := range m.dirs {
		if filepath.Dir(d) == path {
			names = append(names, filepath.Base(d))
		}
	}
	slices.Sort(names)
	return names, nil
}

// MkdirAll has nothing to do: the directory is there.
func (v *memView) MkdirAll(dir string) error { return sameAs(v.dir, "mkdir", dir) }

// SyncDir does nothing but check that dir exists.
func (v *memView) SyncDir(dir string) error {
	m := v.m
	m.mu.RLock()
	defer m.mu.RUnlock()
	path, err := v.inLocked("sync", dir)
	if err == nil && !m.windows && !m.isDirLocked(path) {
		err = pathError("sync", dir, fs.ErrNotExist)
	}
	return err
}

// Lock takes the lock; see FS.Lock.
func (v *memView) Lock(name, text string) (Lock, error) {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	path, err := v.fileLocked("lock", name)
	if err != nil {
		return nil, err
	}
	n, err := m.lookupLocked(path)
	if errors.Is(err, fs.ErrNotExist) {
		n, err = m.createLocked(path)
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	if n.locked {
		return nil, pathError("lock", name, ErrLockHeld)
	}
	n.locked = true
	f := m.openLocked(n, path, name, true)
	f.lock = true
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(text), 0) // a courtesy: a full disk does not fail the lock
	return memLock{f}, nil
}

// FreeSpace returns the rest of the capacity, math.MaxInt64 without one.
func (v *memView) FreeSpace(dir string) (int64, error) {
	m := v.m
	m.mu.RLock()
	path, err := v.inLocked("free space", dir)
	ok := m.isDirLocked(path)
	m.mu.RUnlock()
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, pathError("free space", dir, fs.ErrNotExist)
	}
	m.space.Lock()
	defer m.space.Unlock()
	if m.space.capacity < 0 {
		return math.MaxInt64, nil
	}
	return max(0, m.space.capacity-m.space.used) * sparse.PageSize, nil
}

// Hold implements Dir.
func (v *memView) Hold(dir string) (Dir, error) {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := v.inLocked("hold", dir); err != nil {
		return nil, err
	}
	v.d.holds++
	return &memView{m: m, d: v.d, dir: v.dir}, nil
}

// InPlace implements Dir.
func (v *memView) InPlace() error {
	m := v.m
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch there := m.dirs[v.dir]; {
	case there == v.d, filepath.Dir(v.dir) == v.dir:
		return nil
	case there == nil:
		return pathError("find directory", v.dir, fmt.Errorf("%w: nothing is there", ErrDetached))
	}
	return pathError("find directory", v.dir, fmt.Errorf("%w: another directory is there", ErrDetached))
}

// Close implements Dir.
func (v *memView) Close() error {
	m := v.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.closed {
		return pathError("close", v.dir, fs.ErrClosed)
	}
	v.closed = true
	v.d.holds--
	return nil
}
