// Package engine is a store of opaque items that is open: it recovers what a crash left,
// commits, and gives flush and compaction their turns. What it reads with, and the work
// itself, are packages below it: storage, and flush, image, compaction and scrub in
// engine/internal. It knows nothing
// of checkpoints; package saver/disk gives keys and values their meaning, and packages store
// and store/cache do the same in the same directory.
//
// # Data model
//
// A store holds partitions, a partition holds items by key, an item holds
// named slots, and a slot holds a value or refers to one stored before. One
// Commit is one record in the log: all or nothing, whatever its size.
//
// # Who does what
//
//   - Callers encode values, load cold partitions, and wait. They hold no lock.
//   - The log's committer runs a commit's function, in commit order, against the
//     state all earlier commits leave behind; writes; syncs; publishes to the
//     index; wakes the callers. Only it changes partitions.
//   - One worker goroutine flushes and writes images, another compacts. They change
//     only where values and pages lie, never what a partition contains.
//
// # Locks
//
// These two are the outermost, in this order, and are held across all I/O of the work that
// they are for. Who holds them may wait for the log, so no callback of the log takes them:
//
//	compaction.Compactor.Mu   one compaction at a time
//	image.Chain.Mu            one flush, image or end of a compaction at a time
//
// These are held across the I/O that they are named for, and while some of the locks below
// them are taken:
//
//	recent.resolving (storage)       patches are applied, and the values that they lead to read
//	segment.Reader.load              the contents of a segment are read, once
//	the lock of file numbers (storage), then that of snapshot.Manifest
//	                                 an edit is written and synced
//	the lock of files.Set            a file is closed; in a store that is read only, opened
//
// These nest, and are held for no I/O of their own:
//
//	the lock of a sealView (flush), then that of index.Index
//	the lock of an index.Family, then that of files.Set, or recent.mu (storage)
//
// All others are leaves: no lock is taken under them. Among them are those of the table of
// families, of the caches, of garbage.Estimate, of the families that a flush has to look at,
// of the throttle, and those of packages seal and vfs.
//
// Package wal has locks of its own; their order is at wal.Log. Of the locks above, only the
// outermost two are held while the log is called. The log calls back without a lock, except
// for wal.Options.Guard, which takes none of these.
//
// It is for this repository, and makes no promise to others.
package engine
