package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// maxOpenFiles bounds the read handles kept open.
const maxOpenFiles = 256

// errFileGone is returned for a file that is no longer part of the store: its content lies elsewhere
// now, or was deleted.
var errFileGone = errors.New("file is no longer part of the store")

// fileTable keeps the files of an open store. It opens them when they are read, shares the open ones,
// and removes those that the store no longer names once no reader can need them.
//
// # When a file goes
//
// A file is part of the store from add on. When the durable manifest no longer names it, the engine
// calls retire. Readers may still hold references to it, so it stays until
//
//   - every view that was open at that time is closed: pin gives a view its epoch, retire
//     stamps a file with the epoch that comes next, and a file goes when no open view has
//     an earlier one; and
//   - nobody holds its FileHandle.
//
// Then its name is removed. That may fail because another process has the file open on a system that
// forbids removal, or because the device failed. It is tried again with every later removal and by
// Close; the next Open of the store removes the files that are left.
//
// A crash at any point leaves files that no manifest names, and nothing else. The table also has the
// log file being written, which may be read up to its last visible record. Methods are safe for
// concurrent use; the fields above mu are set before the first file is opened, and read only after
// that.
type fileTable struct {
	fs       vfs.FS
	dir      string
	readOnly bool // keep all handles open, remove nothing
	// pastDamage, if set, is called with damage in the footer or family index of a segment, which is
	// then read frame by frame.
	pastDamage func(error)
	Keys       *seal.Keyring // of the store; nil without encryption
	lost       bool          // a missing file is lost, not removed by a writer
	lostImages bool          // the same of images alone

	mu      sync.Mutex
	known   map[base.FileNum]base.FileKind
	ids     map[base.FileNum]string // ids of keys, as far as known; with keys only
	open    map[base.FileNum]*FileHandle
	views   map[uint64]int // open views by epoch
	epoch   uint64
	retired []retired
	onErr   func(error) // is told of files that could not be closed or removed; may be nil

	stuck unremoved
}

// FileHandle is an open file, with what reads its kind. Acquire gives it, Release takes it back;
// in between the file stays.
type FileHandle struct {
	Num     base.FileNum
	Kind    base.FileKind
	file    vfs.File
	Segment *segment.Reader    // of a segment
	Image   *snapshot.Image    // of an image
	log     *wal.PayloadReader // of a log file, in a store with keys
	refs    int
	used    uint64
}

// retired is a file the manifest has forgotten; views of epochs up to its own may
// still read it.
type retired struct {
	num   base.FileNum
	epoch uint64
}

// newFiles returns the files of the store in dir, of which there are none yet.
func newFiles(fsys vfs.FS, dir string, onErr func(error)) *fileTable {
	return &fileTable{fs: fsys, dir: dir, known: map[base.FileNum]base.FileKind{}, ids: map[base.FileNum]string{}, open: map[base.FileNum]*FileHandle{},
		views: map[uint64]int{}, onErr: onErr}
}

// path is where file n of a kind lies.
func (s *fileTable) path(k base.FileKind, n base.FileNum) string {
	return filepath.Join(s.dir, k.Name(n))
}

// add makes a file part of the store.
func (s *fileTable) add(k base.FileKind, n base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[n] = k
}

// addKeyed is add for a file just made under the key id.
func (s *fileTable) addKeyed(k base.FileKind, n base.FileNum, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[n] = k
	if s.Keys != nil {
		s.ids[n] = id
	}
}

// drop removes a file from the table that no manifest has named and nobody can have open.
func (s *fileTable) drop(n base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[n]; h != nil {
		s.closeHandle(h)
	}
	delete(s.known, n)
	delete(s.ids, n)
}

// Acquire opens a file, or shares its open handle. It returns errFileGone if the file is no longer part
// of the store. The file is opened without the lock, so that nobody waits for the opening of another
// file.
func (s *fileTable) Acquire(n base.FileNum) (*FileHandle, error) {
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
		return nil, errFileGone // it may have been removed while it was being opened
	}
	if err != nil {
		return nil, err
	}
	if other := s.open[n]; other != nil { // another caller opened it first
		s.closeFile(h)
		h = other
	} else {
		s.closeIdle()
		s.opened(h)
	}
	s.use(h)
	return h, nil
}

// shareOpen returns the handle of a file if it is open, and otherwise its kind.
func (s *fileTable) shareOpen(n base.FileNum) (*FileHandle, base.FileKind, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[n]; h != nil {
		s.use(h)
		return h, h.Kind, nil
	}
	k, ok := s.known[n]
	if !ok {
		return nil, "", errFileGone
	}
	return nil, k, nil
}

// use counts a user of a handle.
func (s *fileTable) use(h *FileHandle) {
	s.epoch++ // also orders the uses of handles
	h.refs++
	h.used = s.epoch
}

// openFile opens a file and makes the reader for its kind. It touches no state of the table, so that it
// may run without the lock.
func (s *fileTable) openFile(k base.FileKind, n base.FileNum) (*FileHandle, error) {
	f, err := s.fs.Open(s.path(k, n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.CorruptionError{File: k.Name(n), Kind: "file", Offset: -1, Detail: "missing", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", k.Name(n), err)
	}
	h := &FileHandle{Num: n, Kind: k, file: f}
	size, err := f.Size()
	switch {
	case err != nil:
	case k == base.LogFile:
		err = s.openLog(h)
	case k == base.SegmentFile:
		h.Segment, err = s.openSegment(f, k.Name(n), size)
	default:
		h.Image, err = snapshot.OpenImage(f, k.Name(n), size, snapshot.WithKeyring(s.Keys))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

// opened records h as the open handle of its file. The lock is held.
func (s *fileTable) opened(h *FileHandle) {
	s.open[h.Num] = h
	if s.Keys != nil {
		s.ids[h.Num] = h.keyID()
	}
}

// openSegment opens a segment, also a damaged one if pastDamage is set.
func (s *fileTable) openSegment(f vfs.File, name string, size int64) (*segment.Reader, error) {
	if s.pastDamage == nil {
		return segment.OpenFooter(f, name, size, segment.WithKeys(s.Keys))
	}
	r, err := segment.Open(f, name, size, segment.WithKeys(s.Keys))
	if !errors.Is(err, fault.ErrCorrupt) {
		return r, err
	}
	found, damage, serr := segment.Salvage(context.Background(), f, name, size, segment.WithKeys(s.Keys))
	if serr != nil {
		return nil, err
	}
	for _, d := range damage {
		s.pastDamage(d)
	}
	s.pastDamage(err)
	return found, nil
}

// openAll opens every file of the store. A missing one is an error: a writer may have removed it. A
// damaged file is no error here: whoever reads it gets the damage. Nor is a lost image, as its content
// lies elsewhere as well.
func (s *fileTable) openAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, k := range s.known {
		h, err := s.openFile(k, n)
		switch {
		case err == nil:
			s.opened(h)
		case errors.Is(err, fs.ErrNotExist) && (s.lost || s.lostImages && k == base.ImageFile):
		case !errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// closeIdle closes the handle least recently used if too many are open.
func (s *fileTable) closeIdle() {
	if s.readOnly || len(s.open) < maxOpenFiles {
		return
	}
	var oldest *FileHandle
	for _, h := range s.open {
		if h.refs == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		s.closeHandle(oldest)
	}
}

func (s *fileTable) closeHandle(h *FileHandle) {
	delete(s.open, h.Num)
	s.closeFile(h)
}

func (s *fileTable) closeFile(h *FileHandle) {
	var err error
	if h.Segment != nil {
		err = h.Segment.Close()
	} else {
		err = h.file.Close()
	}
	if err != nil && s.onErr != nil {
		s.onErr(fmt.Errorf("close %s: %w", h.Kind.Name(h.Num), err))
	}
}

// Release gives a handle back.
func (s *fileTable) Release(h *FileHandle) {
	s.mu.Lock()
	h.refs--
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
}

// pin keeps every file that is part of the store now until unpin.
func (s *fileTable) pin() (epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.views[s.epoch]++
	return s.epoch
}

// unpin ends a pin, and removes the files that only its view needed.
func (s *fileTable) unpin(epoch uint64) {
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
func (s *fileTable) lasting(epoch uint64) func(base.FileNum) bool {
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
func (s *fileTable) isImage(n base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[n] == base.ImageFile
}

// Name is the name of a file, whatever kind it is.
func (s *fileTable) Name(n base.FileNum) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[n].Name(n)
}

// viewCount returns the number of open views.
func (s *fileTable) viewCount() int {
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
func (s *fileTable) retire(nums ...base.FileNum) {
	s.mu.Lock()
	s.epoch++
	for _, n := range nums {
		s.retired = append(s.retired, retired{n, s.epoch})
	}
	due := s.dueLocked()
	s.mu.Unlock()
	s.remove(due)
}

// dueLocked removes the retired files that nobody can need any more from the table and returns them.
// The lock is held.
func (s *fileTable) dueLocked() []dueFile {
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

// Close closes every handle and removes the retired files: no view outlives a store.
func (s *fileTable) Close() {
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

// retiredNames are the files that wait for views to be removed.
func (s *fileTable) retiredNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.retired {
		out = append(out, s.known[r.num].Name(r.num))
	}
	return out
}

// knows reports whether the table has a file, even if only a view needs it.
func (s *fileTable) knows(n base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[n]
	return ok
}

// openLog reads the header of a log file and, in a store with keys, makes the reader of its encrypted
// values.
func (s *fileTable) openLog(h *FileHandle) error {
	if s.Keys == nil {
		return nil
	}
	var err error
	h.log, err = wal.NewPayloadReader(h.file, h.Kind.Name(h.Num), s.Keys)
	return err
}

// keyID is the id of the key of the open file; "" for a file without encryption.
func (h *FileHandle) keyID() string {
	switch {
	case h.log != nil:
		return h.log.KeyID()
	case h.Segment != nil:
		return h.Segment.KeyID()
	case h.Image != nil:
		return h.Image.KeyID()
	}
	return ""
}

// keyID is the id of the key of a file; "" if it is not encrypted, or unknown.
func (s *fileTable) keyID(n base.FileNum) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[n]
}

// numbers returns the numbers of all files.
func (s *fileTable) numbers() []base.FileNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]base.FileNum, 0, len(s.known))
	for n := range s.known {
		out = append(out, n)
	}
	return out
}

// keyIDs counts the files by key.
func (s *fileTable) keyIDs() *metrics.Encryption {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &metrics.Encryption{Files: map[string]int{}}
	for n := range s.known {
		switch id, ok := s.ids[n]; {
		case !ok:
			c.Unknown++
		case id == "":
			c.Plain++
		default:
			c.Files[id]++
		}
	}
	return c
}
