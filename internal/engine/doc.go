// Package engine composes log, segments, index and manifest into a store of
// opaque items: commit, read, flush, compact, recover. It knows nothing of
// checkpoints; package saver gives keys and values their meaning, and a
// key-value store or a cache could do the same beside it.
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
//	compactMu (one compaction at a time; held across its I/O)
//	flushMu (one of flush, image, end of a compaction at a time; held across their I/O)
//	the lock of files.Set (open files and pins)
//	index.Index.mu, then index.Family.mu
//	cache shard
package engine
