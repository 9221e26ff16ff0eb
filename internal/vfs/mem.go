package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/stele-go/stele/internal/vfs/internal/sparse"
)

// MemOptions configure a Mem. The zero value is an unlimited file system with
// POSIX rules.
type MemOptions struct {
	// WindowsRules: a file that is open can be neither removed nor renamed nor
	// replaced (ErrInUse), and a handle from Open cannot sync.
	WindowsRules bool
	// Capacity is the size of the device in bytes; 0 is unlimited. It is
	// handed out in pages of 4 KiB as they are first written: growing a file by
	// Truncate takes none, filling the hole later may get ENOSPC.
	Capacity int64
}

// Mem is a file system in memory. The root directories "/" and "." exist;
// others are made by MkdirAll. Symbolic links, permissions and directory
// removal do not exist. SyncDir and the syncs of files have nothing to do: a
// Mem does not crash (crashfs does).
//
// It is safe for concurrent use. Large files of zeros cost next to nothing; a
// file has at most 16 GiB (syscall.EFBIG).
type Mem struct {
	windows bool

	// mu guards the tree, and nlink, opens and locked of every node. It is
	// taken before a node's own lock, never after.
	mu    sync.RWMutex
	files map[string]*memNode // by clean path
	dirs  map[string]bool

	space struct {
		sync.Mutex
		capacity int64 // pages; negative: unlimited
		used     int64
	}
}

// memNode is a file, named or not. It lives while it has a name or a handle.
type memNode struct {
	linked bool // has a name
	opens  int  // handles, the lock included
	locked bool

	mu   sync.RWMutex
	data *sparse.Data
}

var _ FS = (*Mem)(nil)

// NewMem returns an empty file system.
func NewMem(o MemOptions) *Mem {
	m := &Mem{windows: o.WindowsRules, files: map[string]*memNode{}, dirs: map[string]bool{}}
	m.SetCapacity(o.Capacity)
	return m
}

// SetCapacity changes the size of the device, in bytes; 0 is unlimited. It may
// be less than what is in use: then nothing can be added until enough is freed.
func (m *Mem) SetCapacity(capacity int64) {
	m.space.Lock()
	defer m.space.Unlock()
	m.space.capacity = -1
	if capacity > 0 {
		m.space.capacity = capacity / sparse.PageSize
	}
}

// MemImage is the contents of a Mem at one moment. It is immutable and may be
// shared.
type MemImage struct {
	Dirs  []string                // all directories but the roots
	Files map[string]*sparse.Data // by clean path; never written again
}

// Image returns the contents at this moment. Files written to meanwhile are
// each taken at some moment of the call.
func (m *Mem) Image() MemImage {
	m.mu.RLock()
	defer m.mu.RUnlock()
	img := MemImage{Files: make(map[string]*sparse.Data, len(m.files))}
	for d := range m.dirs {
		img.Dirs = append(img.Dirs, d)
	}
	slices.Sort(img.Dirs)
	for name, n := range m.files {
		n.mu.Lock() // Clone gives up the write rights of its source
		img.Files[name] = n.data.Clone()
		n.mu.Unlock()
	}
	return img
}

// NewMemFrom returns a file system with the contents of img, which it shares
// until it writes. No file is open, no lock held.
func NewMemFrom(img MemImage, o MemOptions) *Mem {
	m := NewMem(o)
	for _, d := range img.Dirs {
		m.dirs[d] = true
	}
	for name, data := range img.Files {
		m.files[name] = &memNode{linked: true, data: data.Clone()}
		m.space.used += data.Pages()
	}
	return m
}

// Create makes a new file; see FS.Create.
func (m *Mem) Create(name string) (File, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[path] != nil || m.isDirLocked(path) {
		return nil, pathError("create", name, fs.ErrExist)
	}
	n, err := m.createLocked(path)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return m.openLocked(n, name, true), nil
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
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

// Open opens an existing file for reading; see FS.Open.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return m.openLocked(n, name, write), nil
}

func (m *Mem) openLocked(n *memNode, name string, write bool) File {
	n.opens++
	return &memFile{m: m, n: n, name: name, write: write}
}

// Rename replaces newname by oldname; see FS.Rename.
func (m *Mem) Rename(oldname, newname string) error {
	if err := sameDir(oldname, newname); err != nil {
		return err
	}
	from, to := filepath.Clean(oldname), filepath.Clean(newname)
	m.mu.Lock()
	defer m.mu.Unlock()
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
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
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	if m.windows && n.opens > 0 {
		return pathError("remove", name, ErrInUse)
	}
	delete(m.files, filepath.Clean(name))
	n.linked = false
	m.reapLocked(n)
	return nil
}

// reapLocked gives back the space of a file that nobody can reach any more.
func (m *Mem) reapLocked(n *memNode) {
	if n.linked || n.opens > 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.release(n.data.Pages())
	n.data = new(sparse.Data)
}

// List returns the sorted names in dir; see FS.List.
func (m *Mem) List(dir string) ([]string, error) {
	path := filepath.Clean(dir)
	m.mu.RLock()
	defer m.mu.RUnlock()
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

// MkdirAll creates a directory and its parents; see FS.MkdirAll.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for d := filepath.Clean(dir); !m.isDirLocked(d); d = filepath.Dir(d) {
		if m.files[d] != nil {
			return pathError("mkdir", d, syscall.ENOTDIR)
		}
		missing = append(missing, d)
	}
	for _, d := range missing {
		m.dirs[d] = true
	}
	return nil
}

// SyncDir has nothing to do but to check that dir exists.
func (m *Mem) SyncDir(dir string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.windows && !m.isDirLocked(filepath.Clean(dir)) {
		return pathError("sync", dir, fs.ErrNotExist)
	}
	return nil
}

// Lock takes the lock; see FS.Lock. It belongs to the handle, since a Mem has
// no processes.
func (m *Mem) Lock(name, text string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupLocked(name)
	if errors.Is(err, fs.ErrNotExist) {
		n, err = m.createLocked(filepath.Clean(name))
	}
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	if n.locked {
		return nil, pathError("lock", name, ErrLockHeld)
	}
	n.locked = true
	n.opens++
	f := &memFile{m: m, n: n, name: name, write: true, lock: true}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(text), 0) // a courtesy: a full disk does not fail the lock
	return f, nil
}

// FreeSpace is what is left of the capacity, math.MaxInt64 without one.
func (m *Mem) FreeSpace(dir string) (int64, error) {
	m.mu.RLock()
	ok := m.isDirLocked(filepath.Clean(dir))
	m.mu.RUnlock()
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

// isDirLocked: a path that is its own parent is a root.
func (m *Mem) isDirLocked(path string) bool {
	return m.dirs[path] || filepath.Dir(path) == path
}

func (m *Mem) lookupLocked(name string) (*memNode, error) {
	path := filepath.Clean(name)
	if n := m.files[path]; n != nil {
		return n, nil
	}
	if m.isDirLocked(path) {
		return nil, syscall.EISDIR
	}
	return nil, fs.ErrNotExist
}

// reserve takes up to n pages and returns how many it got.
func (m *Mem) reserve(n int64) int64 {
	m.space.Lock()
	defer m.space.Unlock()
	if m.space.capacity >= 0 {
		n = max(0, min(n, m.space.capacity-m.space.used))
	}
	m.space.used += n
	return n
}

func (m *Mem) release(n int64) {
	m.space.Lock()
	defer m.space.Unlock()
	m.space.used -= n
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
