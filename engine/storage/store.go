package storage

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/files"
	"github.com/stele-go/stele/engine/internal/throttle"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Store is a store as its files have it: the directory, the manifest that names the
// files, the index of what is in them, and caches. It reads values and partitions, and hands
// out views and file numbers. Whatever works on a store (commits, flushes, compactions,
// images, exports, checks) shares one.
type Store struct {
	Dir  string
	Opts Options

	Held     vfs.Dir            // the directory, held open until the store is closed; Opts.FS is it behind the check of the lock
	Manifest *snapshot.Manifest // nil if read-only
	Found    snapshot.State     // the state as Open found it; a read-only store has no other
	Log      *wal.Log           // nil if read-only
	Keys     *seal.Keys         // nil without encryption
	Files    *files.Set
	cache    *blockCache
	Index    *index.Index
	Throttle *throttle.Throttle
	skipped  skipped // with Options.AllowDamage

	workViews atomic.Int32 // views of flushes and compactions

	BadPages  atomic.Bool // a page of an image is damaged
	OnBadPage func()      // called once; may be nil

	nums numbers

	calls calls

	DirectoryLimit int // MaxDirectory; smaller in tests

	counters
	Resolved   atomic.Int64           // patches applied by readers
	lastRecent atomic.Pointer[recent] // of the Reader used last that was ended
}

// MaxDirectory is about how large the directory of a family in one segment becomes.
// The format allows four times as much, segment.MaxSectionRaw; the estimate by which
// a family is divided over segments may err as far.
const MaxDirectory = 64 << 20

// counters are what is counted of a store since it was opened.
type counters struct {
	Flushes, ImagesWritten, Compactions atomic.Uint64 // written: images
	FlushedValues, FlushedBytes         atomic.Int64
	CompactedIn, CompactedOut           atomic.Int64
	SegmentPatches                      atomic.Int64
	Loads, Corruptions                  atomic.Uint64
}

// New returns a Store that holds nothing yet. opts have their defaults.
func New(dir string, opts Options) *Store {
	return &Store{Dir: dir, Opts: opts, DirectoryLimit: MaxDirectory, Index: index.New(opts.LoadedBytes()), cache: newBlockCache(opts.CacheBytes),
		Files:    files.New(opts.FS, dir, func(err error) { opts.Logger.Warn("files", "error", err) }),
		Throttle: throttle.New(throttle.Options{FlushBytes: opts.FlushBytes, CompactFanout: opts.CompactFanout, CompactRate: opts.CompactRate})}
}

// Reread is a store of the same files with an empty index, which is to be made of st, and
// of nothing damaged.
func (s *Store) Reread(st snapshot.State) *Store {
	opts := s.Opts
	opts.AllowDamage = false
	other := New(s.Dir, opts)
	other.Index, other.Files, other.cache, other.Found = index.New(0), s.Files, s.cache, st
	return other
}

// State is the manifest's, or what a read-only store found.
func (s *Store) State() snapshot.State {
	if s.Manifest == nil {
		return s.Found
	}
	return s.Manifest.State()
}

// LastFlushed is the last record that is in segments for good.
func (s *Store) LastFlushed() base.LSN {
	f := s.Found.FloorLSN
	if s.Manifest != nil {
		f = s.Manifest.FloorLSN()
	}
	return f - min(f, 1)
}

// CacheUse is how often the cache of blocks had what was asked for, and how often not.
func (s *Store) CacheUse() (hits, misses uint64) { return s.cache.hits.Load(), s.cache.misses.Load() }

// CacheBytes is how much the cache of blocks holds.
func (s *Store) CacheBytes() int64 { return s.cache.bytes() }

// NoteDamage counts and reports damage; other errors, and none, pass.
func (s *Store) NoteDamage(err error) {
	if !errors.Is(err, fault.ErrCorrupt) {
		return
	}
	s.Corruptions.Add(1)
	s.Opts.Logger.Error("damage found", "error", err)
	if f := s.Opts.Events.CorruptionFound; f != nil {
		f(err)
	}
}

// NoteBadPage remembers that a page of an image is damaged. What the image holds is
// in segments and log as well, but this process has forgotten where: the next
// Open, told of no image, finds it.
func (s *Store) NoteBadPage(err error) {
	if errors.Is(err, fault.ErrCorrupt) && !s.BadPages.Swap(true) && s.OnBadPage != nil {
		s.OnBadPage()
	}
}

// RemoveQuietly removes a file that no manifest names; if that fails, the next
// Open does it.
func (s *Store) RemoveQuietly(k files.Kind, n base.FileNum) {
	if err := s.Opts.FS.Remove(s.Files.Path(k, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Opts.Logger.Warn("remove unpublished file", "file", k.Name(n), "error", err)
	}
}

// StoreID is the store's number: random, and never changed.
func (s *Store) StoreID() uint64 { return s.State().StoreID }

// Withdraw removes a complete file that did not become part of the store.
func (s *Store) Withdraw(k files.Kind, n base.FileNum) {
	s.Files.Drop(n)
	s.RemoveQuietly(k, n)
}

// NotApplied reports whether a manifest edit failed without a trace. After other
// errors it may survive a crash, and the files it names must stay.
func NotApplied(err error) bool { return !errors.Is(err, fault.ErrPoisoned) }

// LogSyncs counts the syncs of log files.
func (s *Store) LogSyncs() int64 { return s.Log.Metrics().Syncs }
