// Package engine is the log-structured store: it opens a directory and recovers what a crash
// left, commits entries, reads them in views, and moves the log into segments. It knows nothing
// of checkpoints; package saver/disk gives keys and values their meaning, and packages store
// and store/cache do the same in the same directory. Packages engine/check, engine/export and
// engine/backup read its files beside it.
//
// # Data model
//
// A store holds partitions, a partition holds entries by key, an entry holds
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
// # Where to read
//
// Each protocol is explained whole at its type or function, in the file named here; what a
// file of the same beginning holds belongs to it.
//
//	engine.go     Engine, an open store      store.go       Store: values, and the life of a place
//	open.go       Open, and recovery         read.go        values, patches, blocks in memory
//	commit.go     CommitWith: one commit     load.go        partitions, from pages
//	tx.go         Tx: what a commit does     view.go        View: one state, while commits go on
//	record.go     a commit in the log        files.go       open files, and when a file goes
//	revisions.go  a value as a patch
//
//	flush.go       flusher: the log into segments      rewrite_outputs.go  segments that are written
//	image.go       imageStack: the index on disk       garbage.go          what is dead in segments
//	replicate.go   replication: the log in a bucket, and what commits wait for
//	follow.go      follower: the log of another, from a bucket
//	compaction.go  compactor: segments into fewer      throttle.go         commits wait for the work
//	scrub.go       nothing deleted stays in any file   health.go, stats.go what is told of all this
//
// # Locks
//
// These two are the outermost, in this order, and are held across all I/O of the work that
// they are for. Who holds them may wait for the log, so no callback of the log takes them:
//
//	compactor.mu   one compaction at a time
//	imageStack.mu  one flush, image or end of a compaction at a time
//
// These are held across the I/O that they are named for, and while some of the locks below
// them are taken:
//
//	recent.resolving     patches are applied, and the values that they lead to read
//	segment.Reader.load  the contents of a segment are read, once
//	numbers.mu, then that of snapshot.Manifest
//	                     an edit is written and synced
//	fileTable.mu         a file is closed; in a store that is read only, opened
//
//	replication.mu, then that of replica.Leader
//	                     the last of what the bucket lacks is read from the log
//
// These nest, and are held for no I/O of their own:
//
//	the lock of a cutView, then that of index.Index
//	the lock of an index.Family, then fileTable.mu, or recent.mu
//
// All others are leaves: no lock is taken under them. Among them are those of the table of
// families, of the caches, of garbageEstimate, of the families that a flush has to look at,
// of the throttle, and those of packages seal and vfs.
//
// Package wal has locks of its own; their order is at wal.Log. Of the locks above, only the
// outermost two are held while the log is called. The log calls back without a lock, except
// for wal.Options.Guard, which takes none of these.
//
// It is for this repository, and makes no promise to others.
package engine
