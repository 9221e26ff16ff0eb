// Package crashfs is a file system in memory that records what is done to it
// and can then show every disk that a power failure might have left. Only
// tests import it.
//
// # The fault model
//
// A crash comes after some number of operations, the cut. Whatever a sync
// covered before the cut is on the disk. Each other operation has a fate of its
// own, whatever became of the operations around it:
//
//   - A write is applied, dropped, torn (its first sectors reach the disk),
//     scattered (some of its sectors do), or trashed (some of its sectors hold
//     garbage). Sectors have 512 bytes and are atomic. Bytes outside the range
//     of a write are never harmed by it. The size may grow without the data
//     (zeros appear) and the data may arrive without the size (they are cut).
//   - A truncation is applied or dropped.
//   - A creation, rename, removal or mkdir is applied or dropped. In ordered
//     mode the survivors are a prefix of what was done in that directory, as on
//     a file system with a metadata journal; in adversarial mode they are any
//     subset, and a rename may leave both names.
//
// What covers what:
//
//   - Sync and SyncData cover all writes and truncations of that file, through
//     whatever handle they were done: fdatasync(2) writes a changed size.
//     Neither covers the name of the file.
//   - SyncDir covers the names in that directory, not those below it, not the
//     name of the directory itself, and no data.
//   - A file or directory whose name is lost is lost with everything in it.
//
// That is more than disks do: a page cache does not write a later change of a
// sector without an earlier one. Code that holds here holds there.
//
// Directories are neither renamed nor removed here, so that a directory that is held is
// what its path leads to: an FS is no vfs.Holder.
//
// The text in a lock file is for people and takes no part: after a crash a lock
// file that survives is empty, and no lock is held.
//
// It is for this repository, and makes no promise to others.
package crashfs

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stele-go/stele/base/vfs"
)

// FS is a recording file system with POSIX rules. It is safe for concurrent
// use; the order of the log is the order in which operations took effect.
// Failed operations leave no record, except for the part of a short write that
// was done.
type FS struct {
	mem *vfs.Mem

	// mu makes effect and record one step. Reads do not take it.
	mu      sync.Mutex
	base    vfs.MemImage // the disk before the first operation, all of it durable
	log     []op
	marks   []mark
	inos    map[string]int // by clean path, as the running system sees it
	nextIno int
	handles map[io.Closer]struct{}
	cursor  *model // the model of some cut, moved forward as States asks
}

type mark struct {
	at    int
	label string
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system. Its roots "/" and "." are durable.
func New() *FS { return newFrom(vfs.MemImage{}) }

// NewFrom returns a file system that starts with the contents of m, all of it
// durable. The two share nothing that is written later.
func NewFrom(m *vfs.Mem) *FS { return newFrom(m.Image()) }

func newFrom(img vfs.MemImage) *FS {
	f := &FS{
		mem:     vfs.NewMemFrom(img, vfs.MemOptions{}),
		base:    img,
		inos:    make(map[string]int, len(img.Files)),
		handles: map[io.Closer]struct{}{},
	}
	for _, name := range slices.Sorted(maps.Keys(img.Files)) {
		f.inos[name] = f.nextIno
		f.nextIno++
	}
	return f
}

// Len is the number of operations recorded: the largest cut, and the number to
// note down when a call under test returns.
func (f *FS) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

// Mark attaches a label to the present length of the log; State.String names
// the last mark before its cut.
func (f *FS) Mark(label string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = append(f.marks, mark{len(f.log), label})
}

// Op describes operation i, the one that separates cut i from cut i+1.
func (f *FS) Op(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log[i].String()
}

// Kill ends the process but not the machine: every handle is closed and every lock dropped, while all
// contents stay, synced or not. Data that the next process reads may still be lost by a later crash.
func (f *FS) Kill() {
	f.mu.Lock()
	handles := f.handles
	f.handles = map[io.Closer]struct{}{}
	f.mu.Unlock()
	for h := range handles {
		_ = h.Close() // closed by its user meanwhile: all the better
	}
}

// Mem returns a copy of the contents as the running system sees them: the disk
// after a crash that loses nothing.
func (f *FS) Mem() *vfs.Mem {
	return vfs.NewMemFrom(f.mem.Image(), vfs.MemOptions{})
}

// Create makes a new file; see vfs.FS.Create.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := f.mem.Create(name)
	if err != nil {
		return nil, err
	}
	return f.openLocked(h, f.createdLocked(name), name), nil
}

func (f *FS) createdLocked(name string) int {
	path := filepath.Clean(name)
	ino := f.nextIno
	f.nextIno++
	f.inos[path] = ino
	f.log = append(f.log, op{kind: opCreate, path: path, ino: ino})
	return ino
}

// OpenReadWrite opens an existing file; see vfs.FS.OpenReadWrite.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) { return f.open(name, f.mem.OpenReadWrite) }

// Open opens an existing file for reading; see vfs.FS.Open.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(name, f.mem.Open) }

func (f *FS) open(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, err := open(name)
	if err != nil {
		return nil, err
	}
	return f.openLocked(h, f.inos[filepath.Clean(name)], name), nil
}

func (f *FS) openLocked(h vfs.File, ino int, name string) vfs.File {
	f.handles[h] = struct{}{}
	return &file{fs: f, inner: h, ino: ino, path: filepath.Clean(name)}
}

// Rename replaces newname by oldname; see vfs.FS.Rename.
func (f *FS) Rename(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mem.Rename(oldname, newname); err != nil {
		return err
	}
	from, to := filepath.Clean(oldname), filepath.Clean(newname)
	if from == to {
		return nil
	}
	ino := f.inos[from]
	delete(f.inos, from)
	f.inos[to] = ino
	f.log = append(f.log, op{kind: opRename, path: from, to: to, ino: ino})
	return nil
}

// Remove deletes a file; see vfs.FS.Remove.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mem.Remove(name); err != nil {
		return err
	}
	path := filepath.Clean(name)
	f.log = append(f.log, op{kind: opRemove, path: path, ino: f.inos[path]})
	delete(f.inos, path)
	return nil
}

// List returns the sorted names in dir; see vfs.FS.List.
func (f *FS) List(dir string) ([]string, error) { return f.mem.List(dir) }

// MkdirAll creates a directory and its parents; see vfs.FS.MkdirAll. Each one
// created is an operation in the directory above it.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing []string
	for d := filepath.Clean(dir); filepath.Dir(d) != d; d = filepath.Dir(d) {
		if _, err := f.mem.List(d); err == nil {
			break
		}
		missing = append(missing, d)
	}
	if err := f.mem.MkdirAll(dir); err != nil {
		return err
	}
	for _, d := range slices.Backward(missing) {
		f.log = append(f.log, op{kind: opMkdir, path: d})
	}
	return nil
}

// SyncDir makes names in dir durable; see vfs.FS.SyncDir.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mem.SyncDir(dir); err != nil {
		return err
	}
	f.log = append(f.log, op{kind: opSyncDir, path: filepath.Clean(dir)})
	return nil
}

// Lock takes the lock; see vfs.FS.Lock. Making the file is recorded, its text
// is not.
func (f *FS) Lock(name, text string) (vfs.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.mem.Lock(name, text)
	if err != nil {
		return nil, err
	}
	if _, ok := f.inos[filepath.Clean(name)]; !ok {
		f.createdLocked(name)
	}
	f.handles[l] = struct{}{}
	return &lock{fs: f, inner: l}, nil
}

// FreeSpace returns no limit; see vfs.FS.FreeSpace.
func (f *FS) FreeSpace(dir string) (int64, error) { return f.mem.FreeSpace(dir) }

// close closes an inner handle. One that Kill closed first answers
// fs.ErrClosed, like any use of it.
func (f *FS) close(h io.Closer) error {
	f.mu.Lock()
	delete(f.handles, h)
	f.mu.Unlock()
	return h.Close()
}

type lock struct {
	fs    *FS
	inner vfs.Lock
}

// Attached implements vfs.Lock.
func (l *lock) Attached() error { return l.inner.Attached() }

// Close gives the lock back.
func (l *lock) Close() error { return l.fs.close(l.inner) }

// file is a recording handle.
type file struct {
	fs    *FS
	inner vfs.File
	ino   int
	path  string // at the time of opening, for people
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) { return f.inner.ReadAt(p, off) }

// Size implements vfs.File.
func (f *file) Size() (int64, error) { return f.inner.Size() }

// Attached implements vfs.File.
func (f *file) Attached() (int64, error) { return f.inner.Attached() }

// NextData implements vfs.DataSeeker.
func (f *file) NextData(off int64) (int64, error) {
	size, err := f.inner.Size()
	if err != nil {
		return 0, err
	}
	return vfs.NextData(f.inner, off, size)
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.inner.WriteAt(p, off)
	if n > 0 {
		f.recordLocked(op{kind: opWrite, off: off, data: bytes.Clone(p[:n])})
	}
	return n, err
}

// Truncate implements vfs.File.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.inner.Truncate(size); err != nil {
		return err
	}
	f.recordLocked(op{kind: opTruncate, off: size})
	return nil
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.sync(opSync, f.inner.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.sync(opSyncData, f.inner.SyncData) }

func (f *file) sync(k kind, call func() error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := call(); err != nil {
		return err
	}
	f.recordLocked(op{kind: k})
	return nil
}

func (f *file) recordLocked(o op) {
	o.ino, o.path = f.ino, f.path
	f.fs.log = append(f.fs.log, o)
}

// Close implements vfs.File.
func (f *file) Close() error { return f.fs.close(f.inner) }

type kind uint8

const (
	opCreate kind = iota
	opMkdir
	opRename
	opRemove
	opWrite
	opTruncate
	opSync
	opSyncData
	opSyncDir
)

// op is one recorded operation. It is immutable.
type op struct {
	kind kind
	path string // clean
	to   string // of a rename
	ino  int    // the file, except for directories
	off  int64  // of a write; the size of a truncation
	data []byte // of a write
}

// String is the operation in one line.
func (o *op) String() string {
	switch o.kind {
	case opCreate:
		return "create " + o.path
	case opMkdir:
		return "mkdir " + o.path
	case opRename:
		return "rename " + o.path + " to " + filepath.Base(o.to)
	case opRemove:
		return "remove " + o.path
	case opWrite:
		return fmt.Sprintf("write %s [%d, +%d)", o.path, o.off, len(o.data))
	case opTruncate:
		return fmt.Sprintf("truncate %s to %d", o.path, o.off)
	case opSync:
		return "sync " + o.path
	case opSyncData:
		return "sync data of " + o.path
	default:
		return "sync directory " + o.path
	}
}
