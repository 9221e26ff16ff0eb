package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/throttle"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Storage is a store as its files have it: the directory, the manifest that names the
// files, the index of what is in them, and caches. It reads values and partitions, hands
// out views and file numbers. Whatever works on a
// store (commits, flushes, compactions, images, exports, checks) shares one.
type Storage struct {
	dir  string
	opts Options

	held     vfs.Dir            // the directory; Options.FS is the same
	manifest *snapshot.Manifest // nil if read-only
	fixed    snapshot.State     // the state of a read-only store
	log      *wal.Log           // nil if read-only
	keys     *seal.Keys         // nil without encryption
	files    *files.Set
	cache    *blockCache
	ix       *index.Index
	throttle *throttle.Throttle
	skipped  skipped // with Options.AllowDamage

	workViews atomic.Int32 // views of flushes and compactions

	badPages  atomic.Bool // a page of an image is damaged
	onBadPage func()      // called once; may be nil

	numMu    sync.Mutex // guards the next two
	nextNum  base.FileNum
	reserved base.FileNum

	life   sync.RWMutex // guards closed against new calls
	closed bool
	calls  sync.WaitGroup

	directoryLimit int // maxDirectory; smaller in tests

	counters
	resolved   atomic.Int64           // patches applied by readers
	lastRecent atomic.Pointer[recent] // of the Reader used last that was ended
}

// counters are what is counted of a store since it was opened.
type counters struct {
	flushes, written, compactions atomic.Uint64 // written: images
	flushedValues, flushedBytes   atomic.Int64
	compactedIn, compactedOut     atomic.Int64
	segmentPatches                atomic.Int64
	loads, corruptions            atomic.Uint64
}

// newStorage returns one that holds nothing yet; opts have their defaults.
func newStorage(dir string, opts Options) *Storage {
	return &Storage{dir: dir, opts: opts, directoryLimit: maxDirectory, ix: index.New(opts.loadedBytes()), cache: newBlockCache(opts.CacheBytes),
		files:    files.New(opts.FS, dir, func(err error) { opts.Logger.Warn("files", "error", err) }),
		throttle: throttle.New(throttle.Options{FlushBytes: opts.FlushBytes, CompactFanout: opts.CompactFanout, CompactRate: opts.CompactRate})}
}

// Dir is the directory of the store.
func (s *Storage) Dir() string { return s.dir }

// state is the manifest's, or what a read-only store found.
func (s *Storage) state() snapshot.State {
	if s.manifest == nil {
		return s.fixed
	}
	return s.manifest.State()
}

// floor is the last record that is in segments for good.
func (s *Storage) floor() base.LSN {
	f := s.fixed.FloorLSN
	if s.manifest != nil {
		f = s.manifest.FloorLSN()
	}
	return f - min(f, 1)
}

// reserve makes file numbers below next known to the manifest.
func (s *Storage) reserve(next base.FileNum) error {
	_, err := s.manifest.Apply(snapshot.Edit{NextFileNum: next})
	return err
}

// enter counts a call in, so that Close waits for it; ErrClosed after Close.
func (s *Storage) enter() error {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return fault.ErrClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Storage) leave() { s.calls.Done() }

// newFileNum hands out a file number below what the manifest has reserved: a
// file nobody names is then known to be a leftover, not a stranger.
func (s *Storage) newFileNum() (base.FileNum, error) {
	s.numMu.Lock()
	defer s.numMu.Unlock()
	if err := s.reserveBelow(s.nextNum + 1); err != nil {
		return 0, err
	}
	n := s.nextNum
	s.nextNum++
	return n, nil
}

// reserveTaken makes sure of the numbers that were handed out before there was a
// manifest to reserve them: one that was closed is gone on with as it is.
func (s *Storage) reserveTaken() error {
	s.numMu.Lock()
	defer s.numMu.Unlock()
	return s.reserveBelow(s.nextNum)
}

// reserveBelow reserves the numbers below next, and some more. The lock is held.
func (s *Storage) reserveBelow(next base.FileNum) error {
	if next <= s.reserved {
		return nil
	}
	next += reserveNums - 1
	if err := s.reserve(next); err != nil {
		return err
	}
	s.reserved = next
	return nil
}

// noteDamage counts and reports damage; other errors, and none, pass.
func (s *Storage) noteDamage(err error) {
	if !errors.Is(err, fault.ErrCorrupt) {
		return
	}
	s.corruptions.Add(1)
	s.opts.Logger.Error("damage found", "error", err)
	if f := s.opts.Events.CorruptionFound; f != nil {
		f(err)
	}
}

// noteBadPage remembers that a page of an image is damaged. What the image holds is
// in segments and log as well, but this process has forgotten where: the next
// Open, told of no image, finds it.
func (s *Storage) noteBadPage(err error) {
	if errors.Is(err, fault.ErrCorrupt) && !s.badPages.Swap(true) && s.onBadPage != nil {
		s.onBadPage()
	}
}

// removeQuietly removes a file that no manifest names; if that fails, the next
// Open does it.
func (s *Storage) removeQuietly(k files.Kind, n base.FileNum) {
	if err := s.opts.FS.Remove(s.files.Path(k, n)); err != nil && !errors.Is(err, errNotExist) {
		s.opts.Logger.Warn("remove unpublished file", "file", k.Name(n), "error", err)
	}
}

// StoreID is the store's number: random, and never changed.
func (s *Storage) StoreID() uint64 { return s.state().StoreID }

// Held is the directory of the store, held open: for tools that read its files, which
// are found there though the directory was moved. It is closed with the store.
func (s *Storage) Held() vfs.Dir { return s.held }

// reserveNums is how many file numbers one manifest edit reserves.
const reserveNums = 64

// withdraw removes a complete file that did not become part of the store.
func (s *Storage) withdraw(k files.Kind, n base.FileNum) {
	s.files.Drop(n)
	s.removeQuietly(k, n)
}

// notApplied reports whether a manifest edit failed without a trace. After other
// errors it may survive a crash, and the files it names must stay.
func notApplied(err error) bool { return !errors.Is(err, fault.ErrPoisoned) }

// logSyncs counts the syncs of log files.
func (s *Storage) logSyncs() int64 { return s.log.Metrics().Syncs }
