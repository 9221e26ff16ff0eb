package vfs

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/stele-go/stele/base/vfs/internal/sparse"
)

// MemOptions configure a Mem. The zero value is an unlimited file system with
// POSIX rules.
type MemOptions struct {
	// WindowsRules: a file that is open can be neither removed nor renamed nor
	// replaced (ErrInUse), and a handle from Open cannot sync.
	WindowsRules bool
	// Capacity is the size of the device in bytes; 0 is unlimited. Space is taken in
	// pages of 4 KiB when they are first written. Growing a file by Truncate takes
	// none, so filling the hole later may fail with ENOSPC.
	Capacity int64
}

// Mem is a file system in memory. The root directories "/" and "." exist; others are made
// by MkdirAll, renamed by RenameDir and removed by RemoveAll. There are no symbolic links
// and no permissions. SyncDir and the syncs of files do nothing: a Mem does not crash
// (crashfs does).
//
// All methods may be called concurrently. Holes take no memory. A file can have up to
// 16 GiB (syscall.EFBIG).
type Mem struct {
	windows bool

	// mu guards the tree, and nlink, opens and locked of every node. It is
	// taken before a node's own lock, never after.
	mu    sync.RWMutex
	files map[string]*memNode // by clean path
	dirs  map[string]*memDir

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

var (
	_ FS     = (*Mem)(nil)
	_ Holder = (*Mem)(nil)
)

// NewMem returns an empty file system.
func NewMem(o MemOptions) *Mem {
	m := &Mem{windows: o.WindowsRules, files: map[string]*memNode{}, dirs: map[string]*memDir{}}
	m.SetCapacity(o.Capacity)
	return m
}

// SetCapacity changes the size of the device, in bytes; 0 is unlimited. It may be less
// than what is in use. Then nothing can be added until enough is freed.
func (m *Mem) SetCapacity(capacity int64) {
	m.space.Lock()
	defer m.space.Unlock()
	m.space.capacity = -1
	if capacity > 0 {
		m.space.capacity = capacity / sparse.PageSize
	}
}

// MemImage is the contents of a Mem at one moment. It is immutable.
type MemImage struct {
	Dirs  []string                // all directories but the roots
	Files map[string]*sparse.Data // by clean path; never written again
}

// Image returns the contents of the file system. A file that is being written to is taken
// at some moment during the call.
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

// NewMemFrom returns a file system with the contents of img, which are copied only where
// they are written to. No file is open, and no lock is held.
func NewMemFrom(img MemImage, o MemOptions) *Mem {
	m := NewMem(o)
	for _, d := range img.Dirs {
		m.dirs[d] = &memDir{path: d}
	}
	for name, data := range img.Files {
		m.files[name] = &memNode{linked: true, data: data.Clone()}
		m.space.used += data.Pages()
	}
	return m
}

// all is the whole file system.
func (m *Mem) all() *memView { return &memView{m: m} }

// Create makes a new file; see FS.Create.
func (m *Mem) Create(name string) (File, error) { return m.all().Create(name) }

// OpenReadWrite opens an existing file; see FS.OpenReadWrite.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.all().OpenReadWrite(name) }

// Open opens an existing file for reading; see FS.Open.
func (m *Mem) Open(name string) (File, error) { return m.all().Open(name) }

// Rename replaces newname by oldname; see FS.Rename.
func (m *Mem) Rename(oldname, newname string) error { return m.all().Rename(oldname, newname) }

// Remove deletes a file; see FS.Remove.
func (m *Mem) Remove(name string) error { return m.all().Remove(name) }

// List returns the sorted names in dir; see FS.List.
func (m *Mem) List(dir string) ([]string, error) { return m.all().List(dir) }

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
		m.dirs[d] = &memDir{path: d}
	}
	return nil
}

// SyncDir does nothing but check that dir exists.
func (m *Mem) SyncDir(dir string) error { return m.all().SyncDir(dir) }

// Lock takes the lock; see FS.Lock. It belongs to the handle, since a Mem has no
// processes.
func (m *Mem) Lock(name, text string) (Lock, error) { return m.all().Lock(name, text) }

// FreeSpace returns the rest of the capacity, math.MaxInt64 without one.
func (m *Mem) FreeSpace(dir string) (int64, error) { return m.all().FreeSpace(dir) }

// reapLocked frees the space of a file that has neither a name nor a handle.
func (m *Mem) reapLocked(n *memNode) {
	if n.linked || n.opens > 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m.release(n.data.Pages())
	n.data = new(sparse.Data)
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
