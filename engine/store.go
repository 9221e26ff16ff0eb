package engine

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Store is a store as its files have it. It reads: values and their patches,
// partitions and the pages they are loaded from, views that stay as they are while commits go
// on, blocks that are kept in memory. It hands out what whoever works on a store shares: the
// log, the manifest, the index, open files, file numbers, and the count of calls that Close
// waits for.
//
// Commits, flushes, images, compactions, exports and checks share one. A
// method whose name ends in Within is for work that has entered the store already.
//
// # The life of a place
//
// An entry refers to a value by an index.Ref: the record that stored the value first, and the
// number of the value in that record. A Ref never changes. The place of the value, an
// index.Loc, does: a flush moves the bytes from the log into a segment, a compaction from
// segments into another one, and Open may copy the end of the log into a new file. No entry
// is written again for that. The places are known to the index.Family alone, which a
// partition shares with its copies. It has one place for a value, for all who read: those
// who see the store as it is now, and views of any age. Everybody who tells it a place keeps
// one invariant:
//
//	As long as an entry in memory, of the index or of an open view, refers to a value, the
//	family has a place for the value and for every base that its patches lead to; and the
//	file of that place is not removed before the family has another place.
//
// So a reader that finds the file of a place gone (errFileGone) asks the family again. If
// the family knows no place, then the value is stored no more, and the reader, who holds no
// view, gets ErrNoValue.
//
// Places are told by:
//
//   - A commit, with Family.Add, before the index shows its entries. The refs are new, so there
//     is nothing to replace. Replay does the same: no page tells of the records that it reads.
//   - Pages that are read, to load a partition or to merge it, with Family.AddMissing. A place that the family
//     has already stays, since what is in memory is newer than any page; unless its file does
//     not last for the reader, as explained below. A segment's page has the values of the
//     segment, an image's page those of the log that its entries need.
//   - A flush and a compaction, with Family.Move: after the edit of the manifest that names
//     the new segments and the index that leads to their pages, and before the old files are
//     retired. Move replaces a place in one of the old files, and adds one that is not known:
//     somebody may have read an old page, and not told it yet. Any other place stands.
//   - Open, with Family.Relocate, when all records are replayed. It replaces places in the old
//     end of the log by those of the copy. It asks all families in memory, and not those of
//     partitions that records name: a value may belong to a copy of a partition that is gone.
//   - A flush and a compaction once more, with Family.Forget, when all families have been told
//     of the new places. What still lies in the old files then was not moved, because only
//     views may refer to it. While there are views except those of flushes and compactions,
//     nothing is forgotten. That costs memory until nobody holds the family.
//
// # Files and epochs
//
// A file lives by the epochs of views. fileTable.pin gives a view its epoch. A file that is
// retired after that stays until the view is released, and so do files that were made after
// it. So a view holds the files of all younger views, and of the present. Of two places of
// one value, the one in the file that is retired last is good for everybody for whom the
// other is. From this follows the order in which pages are read:
//
//   - A view whose pages are not those of the index reads the pages of the index first. They
//     tell the places that last longest.
//   - What was deleted since is in the pages of views alone. An older view may have told its
//     place, in a file that this view does not hold. fileTable.lasting says so, and AddMissing
//     then takes the place from this view's pages, which is good for the older view too.
//   - Pages of segments come before pages of images. Should both tell a place of one value,
//     the image's is that in the log, from before a flush moved the value.
//   - The floor is read before the list of pages. A loaded partition drops the deletions up to
//     the floor, once they have hidden what they hide, because segments hold them for good. A
//     floor that is older than the pages keeps some deletions for longer, and does no harm.
//
// A flush and a compaction hold views themselves (workView), for as long as they work. A
// flush reads values in the log alone, a compaction values in segments alone, so neither
// needs a place that the other makes a family forget. otherViews leaves their views out.
//
// # Bases
//
// The bytes of a value may be a patch against another value, its base. Who finds the one must
// find the other. In a segment, a base lies in the same segment. In the log, a record may
// hold a patch against a value only
//
//   - of the same family;
//   - that an entry refers to when the record is prepared. Every image before the record then
//     tells the place of the base; every later one does so on account of the patch, whether or
//     not an entry still refers to the base. A base that was deleted before an image, and
//     patched against after it, would be unknown to whoever opens the store from that image;
//   - that lies behind the cut of the last flush. See flusher.
type Store struct {
	Dir  string
	Opts Options

	Held     vfs.Dir            // the directory, held open until the store is closed; Opts.FS is it behind the check of the lock
	manifest *snapshot.Manifest // nil if read-only
	Found    snapshot.State     // the state as Open found it; a read-only store has no other
	log      *wal.Log           // nil if read-only
	Keys     *seal.Keys         // nil without encryption
	Files    *fileTable
	cache    *blockCache
	Index    *index.Index
	throttle *throttle
	skipped  skipped // with Options.AllowDamage

	workViews atomic.Int32 // views of flushes and compactions
	lowSpace  atomic.Bool  // less than Options.LowSpace has been free

	badPages  atomic.Bool // a page of an image is damaged
	onBadPage func()      // called once; may be nil

	nums numbers

	calls   calls
	fresh   func() error                // of a follower: see EnterToRead
	current func(context.Context) error // of a leader: see Current

	directoryLimit int // maxDirectory; smaller in tests

	counters
	resolved   atomic.Int64           // patches applied by readers
	lastRecent atomic.Pointer[recent] // of the Reader used last that was ended
}

// maxDirectory is about how large the directory of a family in one segment becomes.
// The format allows four times as much, segment.MaxSectionRaw; the estimate by which
// a family is divided over segments may err as far.
const maxDirectory = 64 << 20

// counters count the work of a store since it was opened.
type counters struct {
	flushes, imagesWritten, compactions atomic.Uint64 // written: images
	flushedValues, flushedBytes         atomic.Int64
	compactedIn, compactedOut           atomic.Int64
	segmentPatches                      atomic.Int64
	loads, corruptions                  atomic.Uint64
}

// newStore returns a Store that holds nothing yet. opts have their defaults.
func newStore(dir string, opts Options) *Store {
	return &Store{Dir: dir, Opts: opts, directoryLimit: maxDirectory, Index: index.New(opts.loadedBytes()), cache: newBlockCache(opts.CacheBytes),
		Files:    newFiles(opts.FS, dir, func(err error) { opts.Logger.Warn("files", "error", err) }),
		throttle: newThrottle(opts)}
}

// reread returns a store of the same files with an empty index, to be made anew from st. Damage is an
// error for it.
func (s *Store) reread(st snapshot.State) *Store {
	opts := s.Opts
	opts.AllowDamage = false
	other := newStore(s.Dir, opts)
	other.Index, other.Files, other.cache, other.Found = index.New(0), s.Files, s.cache, st
	return other
}

// state returns the state in the manifest, or the one that a read-only store found.
func (s *Store) state() snapshot.State {
	if s.manifest == nil {
		return s.Found
	}
	return s.manifest.State()
}

// lastFlushed returns the last record that is in published segments.
func (s *Store) lastFlushed() base.LSN {
	f := s.Found.FloorLSN
	if s.manifest != nil {
		f = s.manifest.FloorLSN()
	}
	return f - min(f, 1)
}

// cacheUse returns the hits and misses of the cache of blocks.
func (s *Store) cacheUse() (hits, misses uint64) { return s.cache.hits.Load(), s.cache.misses.Load() }

// noteDamage counts and reports damage; other errors, and none, pass.
func (s *Store) noteDamage(err error) {
	if !errors.Is(err, fault.ErrCorrupt) {
		return
	}
	s.corruptions.Add(1)
	s.Opts.Logger.Error("damage found", "error", err)
	if f := s.Opts.Events.CorruptionFound; f != nil {
		f(err)
	}
}

// noteBadPage remembers that a page of an image is damaged. Its content is in segments and log as well,
// but this process no longer knows where: the next Open, without the images, finds it.
func (s *Store) noteBadPage(err error) {
	if errors.Is(err, fault.ErrCorrupt) && !s.badPages.Swap(true) && s.onBadPage != nil {
		s.onBadPage()
	}
}

// removeQuietly removes a file that no manifest names; if that fails, the next
// Open does it.
func (s *Store) removeQuietly(k base.FileKind, n base.FileNum) {
	if err := s.Opts.FS.Remove(s.Files.path(k, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Opts.Logger.Warn("remove unpublished file", "file", k.Name(n), "error", err)
	}
}

// StoreID is the store's number: random, and never changed.
func (s *Store) StoreID() uint64 { return s.state().StoreID }

// withdraw removes a complete file that did not become part of the store.
func (s *Store) withdraw(k base.FileKind, n base.FileNum) {
	s.Files.drop(n)
	s.removeQuietly(k, n)
}

// notApplied reports whether err says that a manifest edit was surely not made. After other errors the
// edit may survive a crash, and the files it names must stay.
func notApplied(err error) bool { return !errors.Is(err, fault.ErrPoisoned) }

// logSyncs counts the syncs of log files.
func (s *Store) logSyncs() int64 { return s.log.Metrics().Syncs }
