package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// fileKind says what a file number stands for.
type fileKind uint8

const (
	kindLog fileKind = iota + 1
	kindSegment
	kindImage
)

func (k fileKind) name(n base.FileNum) string {
	switch k {
	case kindLog:
		return wal.FileName(n)
	case kindSegment:
		return segment.FileName(n)
	}
	return snapshot.ImageName(n)
}

// maxOpenFiles bounds the read handles kept open.
const maxOpenFiles = 256

// errGone is returned for a file that is no longer part of the store: what it
// held lies elsewhere now, or was deleted.
var errGone = errors.New("file is no longer part of the store")

// fileSet is the table of a store's immutable files (and of the log file being
// written, which is read as far as it is published): it opens them on demand,
// and removes obsolete ones when the last view that may need them is gone.
type fileSet struct {
	fs       vfs.FS
	dir      string
	readOnly bool // keep all handles open, remove nothing
	// pastDamage, if set, is told of damage in footer or family index of a segment,
	// which is then read frame by frame.
	pastDamage func(error)
	keys       *seal.Keyring // of the store; nil without encryption
	lost       bool          // a file that is not there is lost, not moved away by a writer
	lostImages bool          // the same of images alone

	mu      sync.Mutex
	known   map[base.FileNum]fileKind
	ids     map[base.FileNum]string // ids of keys, as far as known; with keys only
	open    map[base.FileNum]*handle
	views   map[uint64]int // open views by epoch
	epoch   uint64
	retired []retired
	onErr   func(error)

	stuck unremoved
}

// handle is an open file, and a segment's reader where it is one.
type handle struct {
	num  base.FileNum
	kind fileKind
	f    vfs.File
	seg  *segment.Reader    // of a segment
	img  *snapshot.Image    // of an image
	log  *wal.PayloadReader // of a log file, in a store with keys
	refs int
	used uint64
}

// retired is a file the manifest has forgotten; views of epochs up to its own may
// still read it.
type retired struct {
	num   base.FileNum
	epoch uint64
}

func newFileSet(fsys vfs.FS, dir string, onErr func(error)) *fileSet {
	return &fileSet{fs: fsys, dir: dir, known: map[base.FileNum]fileKind{}, ids: map[base.FileNum]string{}, open: map[base.FileNum]*handle{},
		views: map[uint64]int{}, onErr: onErr}
}

func (s *fileSet) path(k fileKind, n base.FileNum) string { return filepath.Join(s.dir, k.name(n)) }

// add makes a file part of the store.
func (s *fileSet) add(k fileKind, n base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[n] = k
}

// addKeyed is add for a file just made under the key id.
func (s *fileSet) addKeyed(k fileKind, n base.FileNum, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[n] = k
	if s.keys != nil {
		s.ids[n] = id
	}
}

// drop takes a file back that no manifest named and nobody can know of.
func (s *fileSet) drop(n base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[n]; h != nil {
		s.closeHandle(h)
	}
	delete(s.known, n)
	delete(s.ids, n)
}

// acquire opens a file, or shares the handle that is open; errGone if it is no
// part of the store any more. The file system is asked without the lock, so that
// nobody waits for the opening of another file.
func (s *fileSet) acquire(n base.FileNum) (*handle, error) {
	h, k, err := s.shareOpen(n)
	if h != nil || err != nil {
		return h, err
	}
	h, err = s.openFile(k, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[n]; !ok {
		if err == nil {
			s.closeFile(h)
		}
		return nil, errGone // and removed, perhaps, while it was being opened
	}
	if err != nil {
		return nil, err
	}
	if other := s.open[n]; other != nil { // somebody was faster
		s.closeFile(h)
		h = other
	} else {
		s.closeIdle()
		s.opened(h)
	}
	s.use(h)
	return h, nil
}

// shareOpen shares the handle of a file if it is open, and else returns its kind.
func (s *fileSet) shareOpen(n base.FileNum) (*handle, fileKind, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[n]; h != nil {
		s.use(h)
		return h, h.kind, nil
	}
	k, ok := s.known[n]
	if !ok {
		return nil, 0, errGone
	}
	return nil, k, nil
}

// use counts a user of a handle.
func (s *fileSet) use(h *handle) {
	s.epoch++ // also the clock of use
	h.refs++
	h.used = s.epoch
}

// openFile opens a file and reads what its reader needs; it touches no state of
// the set, so that it may run without the lock.
func (s *fileSet) openFile(k fileKind, n base.FileNum) (*handle, error) {
	f, err := s.fs.Open(s.path(k, n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.CorruptionError{File: k.name(n), Kind: "file", Offset: -1, Detail: "missing", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", k.name(n), err)
	}
	h := &handle{num: n, kind: k, f: f}
	size, err := f.Size()
	switch {
	case err != nil:
	case k == kindLog:
		err = s.openLog(h)
	case k == kindSegment:
		h.seg, err = s.openSegment(f, k.name(n), size)
	default:
		h.img, err = snapshot.OpenImage(f, k.name(n), size, snapshot.WithKeyring(s.keys))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

// opened makes a handle the open one of its file. The lock is held.
func (s *fileSet) opened(h *handle) {
	s.open[h.num] = h
	if s.keys != nil {
		s.ids[h.num] = h.keyID()
	}
}

// openSegment opens a segment, past damage if that is wanted.
func (s *fileSet) openSegment(f vfs.File, name string, size int64) (*segment.Reader, error) {
	if s.pastDamage == nil {
		return segment.OpenFooter(f, name, size, segment.WithKeys(s.keys))
	}
	r, err := segment.Open(f, name, size, segment.WithKeys(s.keys))
	if !errors.Is(err, fault.ErrCorrupt) {
		return r, err
	}
	found, damage, serr := segment.Salvage(context.Background(), f, name, size, segment.WithKeys(s.keys))
	if serr != nil {
		return nil, err
	}
	for _, d := range damage {
		s.pastDamage(d)
	}
	s.pastDamage(err)
	return found, nil
}

// openAll opens every file of the store. A missing one is an error: it may have
// been removed by a writer. A damaged one is left to who needs it, and so is an
// image that is lost: what it holds lies elsewhere as well.
func (s *fileSet) openAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, k := range s.known {
		h, err := s.openFile(k, n)
		switch {
		case err == nil:
			s.opened(h)
		case errors.Is(err, fs.ErrNotExist) && (s.lost || s.lostImages && k == kindImage):
		case !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// closeIdle closes the handle least recently used if too many are open.
func (s *fileSet) closeIdle() {
	if s.readOnly || len(s.open) < maxOpenFiles {
		return
	}
	var oldest *handle
	for _, h := range s.open {
		if h.refs == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		s.closeHandle(oldest)
	}
}

func (s *fileSet) closeHandle(h *handle) {
	delete(s.open, h.num)
	s.closeFile(h)
}

func (s *fileSet) closeFile(h *handle) {
	var err error
	if h.seg != nil {
		err = h.seg.Close()
	} else {
		err = h.f.Close()
	}
	if err != nil && s.onErr != nil {
		s.onErr(fmt.Errorf("close %s: %w", h.kind.name(h.num), err))
	}
}

// release gives a handle back.
func (s *fileSet) release(h *handle) {
	s.mu.Lock()
	h.refs--
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
}

// pin keeps every file that is part of the store now until unpin.
func (s *fileSet) pin() (epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.views[s.epoch]++
	return s.epoch
}

func (s *fileSet) unpin(epoch uint64) {
	s.mu.Lock()
	if s.views[epoch]--; s.views[epoch] <= 0 {
		delete(s.views, epoch)
	}
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
}

// latest is the epoch that comes after all views.
const latest = ^uint64(0)

// lasting returns whether a file stays for as long as a view of the epoch is open;
// with latest, whether it is part of the store.
func (s *fileSet) lasting(epoch uint64) func(base.FileNum) bool {
	return func(n base.FileNum) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.known[n]; !ok {
			return false
		}
		i := slices.IndexFunc(s.retired, func(r retired) bool { return r.num == n })
		return i < 0 || s.retired[i].epoch > epoch
	}
}

// isImage reports whether a file is an image.
func (s *fileSet) isImage(n base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[n] == kindImage
}

// name is the name of a file, whatever kind it is.
func (s *fileSet) name(n base.FileNum) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[n].name(n)
}

// viewCount is the number of open views.
func (s *fileSet) viewCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.views {
		n += c
	}
	return n
}

// retire removes files that the durable manifest no longer names, now or when
// the last view that may read them is released.
func (s *fileSet) retire(nums ...base.FileNum) {
	s.mu.Lock()
	s.epoch++
	for _, n := range nums {
		s.retired = append(s.retired, retired{n, s.epoch})
	}
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
}

// dueLocked takes the retired files nobody can need any more out of the table.
func (s *fileSet) dueLocked() []dueFile {
	if len(s.retired) == 0 {
		return nil
	}
	oldest := ^uint64(0)
	for e := range s.views {
		oldest = min(oldest, e)
	}
	var due []dueFile
	kept := s.retired[:0]
	for _, r := range s.retired {
		h := s.open[r.num]
		if r.epoch > oldest || h != nil && h.refs > 0 {
			kept = append(kept, r)
			continue
		}
		if h != nil {
			s.closeHandle(h)
		}
		due = append(due, dueFile{s.known[r.num], r.num})
		delete(s.known, r.num)
		delete(s.ids, r.num)
	}
	s.retired = kept
	return due
}

// close closes every handle. Retired files go with it: no view outlives a store.
func (s *fileSet) close() {
	s.mu.Lock()
	s.views = map[uint64]int{}
	for _, h := range s.open {
		h.refs = 0
		s.closeHandle(h)
	}
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
	s.removeAgain()
}
