package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// Captured is a read-only view of some files of one directory. It keeps them open, so that
// they stay readable after their names are gone. It is for reading a directory that
// somebody else changes: keep all files first, and read them then. With Windows rules a
// kept file cannot be removed meanwhile.
//
// A file that still grows shows what is in it when it is read. All methods may be called
// concurrently. All that write fail.
type Captured struct {
	dir string

	mu    sync.RWMutex
	files map[string]File // by base name
}

var _ FS = (*Captured)(nil)

// errCaptured is the error of all methods that write.
var errCaptured = fmt.Errorf("captured files are read-only: %w", fs.ErrPermission)

// NewCaptured returns a view of dir without files.
func NewCaptured(dir string) *Captured {
	return &Captured{dir: filepath.Clean(dir), files: map[string]File{}}
}

// Keep opens a file of the directory in fsys and adds it to the view, unless it is there
// already.
func (m *Captured) Keep(fsys FS, name string) error { return m.KeepAs(fsys, name, name) }

// KeepAs is Keep for a file that has another name in the view.
func (m *Captured) KeepAs(fsys FS, name, as string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[as] != nil {
		return nil
	}
	f, err := fsys.Open(filepath.Join(m.dir, name))
	if err != nil {
		return err
	}
	m.files[as] = f
	return nil
}

// KeepBytes adds a file with this content to the view. The bytes are not copied.
func (m *Captured) KeepBytes(name string, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = bytesFile{b}
}

// Has reports whether a file is part of the view.
func (m *Captured) Has(name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.files[name] != nil
}

// Release closes all files of the view and leaves it empty.
func (m *Captured) Release() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	clear(m.files)
	return errors.Join(errs...)
}

// Open opens a kept file; see FS.Open.
func (m *Captured) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if filepath.Clean(filepath.Dir(name)) == m.dir {
		if f := m.files[filepath.Base(name)]; f != nil {
			return sharedFile{f}, nil
		}
	}
	return nil, pathError("open", name, fs.ErrNotExist)
}

// List returns the names of the kept files; see FS.List.
func (m *Captured) List(dir string) ([]string, error) {
	if filepath.Clean(dir) != m.dir {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := make([]string, 0, len(m.files))
	for n := range m.files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// Create is refused.
func (m *Captured) Create(name string) (File, error) {
	return nil, pathError("create", name, errCaptured)
}

// OpenReadWrite is refused.
func (m *Captured) OpenReadWrite(name string) (File, error) {
	return nil, pathError("open", name, errCaptured)
}

// Rename is refused.
func (m *Captured) Rename(oldname, _ string) error { return pathError("rename", oldname, errCaptured) }

// Remove is refused.
func (m *Captured) Remove(name string) error { return pathError("remove", name, errCaptured) }

// MkdirAll is refused.
func (m *Captured) MkdirAll(dir string) error { return pathError("mkdir", dir, errCaptured) }

// SyncDir is refused.
func (m *Captured) SyncDir(dir string) error { return pathError("sync", dir, errCaptured) }

// Lock is refused.
func (m *Captured) Lock(name, _ string) (Lock, error) {
	return nil, pathError("lock", name, errCaptured)
}

// FreeSpace is none: nothing can be written.
func (m *Captured) FreeSpace(string) (int64, error) { return 0, nil }

// sharedFile is a kept file as one reader has it. Closing it leaves the file open for the
// others.
type sharedFile struct{ File }

// Close implements File.
func (sharedFile) Close() error { return nil }

// WriteAt implements File.
func (sharedFile) WriteAt([]byte, int64) (int, error) { return 0, errCaptured }

// Truncate implements File.
func (sharedFile) Truncate(int64) error { return errCaptured }

// Sync implements File.
func (sharedFile) Sync() error { return errCaptured }

// SyncData implements File.
func (sharedFile) SyncData() error { return errCaptured }

// NextData implements DataSeeker.
func (f sharedFile) NextData(off int64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return NextData(f.File, off, size)
}

// bytesFile is a file that is only in memory.
type bytesFile struct{ b []byte }

// ReadAt implements File.
func (f bytesFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(p, off)
}

// Size implements File.
func (f bytesFile) Size() (int64, error) { return int64(len(f.b)), nil }

// WriteAt implements File.
func (f bytesFile) WriteAt([]byte, int64) (int, error) { return 0, errCaptured }

// Truncate implements File.
func (f bytesFile) Truncate(int64) error { return errCaptured }

// Sync implements File.
func (f bytesFile) Sync() error { return errCaptured }

// SyncData implements File.
func (f bytesFile) SyncData() error { return errCaptured }

// Attached implements File: the file has no name but in the view.
func (f bytesFile) Attached() (int64, error) { return f.Size() }

// Close implements File.
func (f bytesFile) Close() error { return nil }
