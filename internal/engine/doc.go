// Package engine is a store of opaque items that is open: it recovers what a crash left,
// commits, and gives flush and compaction their turns. What it reads with, and the work
// itself, are packages below it: storage, flush, image, compaction, scrub. It knows nothing
// of checkpoints; package saver/disk gives keys and values their meaning, and packages store
// and cache do the same in the same directory.
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
// In this order. Only the first two are held across reads and writes of values and
// pages. That of files.Set is held while a file is closed, and, where a store is opened to
// be read only, while its files are opened:
//
//	compaction.Compactor.Mu (one compaction at a time; held across its I/O)
//	image.Chain.Mu (one of flush, image, end of a compaction at a time; held across their I/O)
//	the lock of files.Set (open files and pins)
//	index.Index.mu, then index.Family.mu
//	cache shard
package engine
