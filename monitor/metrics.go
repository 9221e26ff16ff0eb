package monitor

import "time"

// Metrics counts what a saver did since it was opened. Counts only grow. The
// promoted fields are those of the store beneath, whose commits are also those of a
// store and a cache in the same directory.
type Metrics struct {
	StoreMetrics
	// Saves says how long Put, PutRequest and PutWrites took, serialization and sync
	// included; those that returned an error are not in it.
	Saves Histogram
	// SavesFailed could not be stored: a full, failing or closed store, a deadline.
	SavesFailed uint64
	// SavesRefused are the caller's: invalid arguments, values that cannot be
	// serialized, a conflict, a deleted thread, a cancelled context, a read-only store.
	SavesRefused uint64
	// Loads says how long GetTuple took, when it found a checkpoint or that there is
	// none. It reads no values; these are read when asked for.
	Loads Histogram
	// LoadsFailed is the number of calls of GetTuple whose answer is not known. Invalid
	// arguments and cancelled contexts are not counted.
	LoadsFailed uint64
	// Encodes and Decodes say how long the serializer took for one value each. The values
	// of a save count with their mean.
	Encodes, Decodes Histogram
	// EncodesFailed and DecodesFailed are the values it refused.
	EncodesFailed, DecodesFailed uint64
	// ItemHits and ItemMisses are the items that were asked for by key and found, or
	// not, in the stores of items on this saver (package store).
	ItemHits, ItemMisses uint64
	// ItemSearches says how long their searches took that succeeded, in a Batch too;
	// Scan is not counted.
	ItemSearches Histogram
	// ResultHits and ResultMisses are the results of nodes that were looked up and
	// found, or not, in the caches on this saver (package cache).
	ResultHits, ResultMisses uint64
}

// StoreMetrics counts what the store beneath a saver did since it was opened.
type StoreMetrics struct {
	Log LogMetrics
	// Commits says how long commits took, from the call to its return: waiting for
	// the log's queue, the write and the sync included. A save's begins when its
	// last value is serialized. Refused ones are not counted.
	Commits Histogram
	// Stalled says how long commits waited that came while flushes or compaction were
	// behind. It is part of Commits. Those that did not wait are not counted.
	Stalled Histogram
	// ValueBytes is the size of all values committed, whole, before they were made
	// patches or compressed. Log.Bytes is what the log took for them and all else.
	ValueBytes int64
	// FlushedValueBytes is the size of the values that flushes moved to segments,
	// whole; FlushedBytes what the segments took for them and their directories.
	FlushedValueBytes int64
	FlushedBytes      int64
	Flushes           uint64
	Images            uint64
	Compactions       uint64
	CompactedIn       int64 // bytes
	CompactedOut      int64
	ThreadLoads       uint64 // cold threads read
	CacheHits         uint64
	CacheMisses       uint64
	CorruptionsFound  uint64
	Patches           int64 // values logged as patches
	PatchedBytes      int64 // what they would have taken whole
	PatchBytes        int64 // what they took
	SegmentPatches    int64 // values written to segments as patches
}

// BatchBuckets is the number of buckets of LogMetrics.BatchSize: a batch has at most
// 1,024 records.
const BatchBuckets = 11

// SyncBuckets is the number of buckets of LogMetrics.SyncTime.
const SyncBuckets = 24

// LogMetrics is a moment's reading of the counters of a log. Counters only grow.
type LogMetrics struct {
	Records int64 // records committed
	Batches int64 // batches committed
	Bytes   int64 // bytes of their frames, headers and padding included
	Refused int64 // records refused after they were prepared
	// BatchSize counts batches by records: bucket i holds those of at most 2^i that
	// no bucket before it holds.
	BatchSize [BatchBuckets]int64

	Syncs     int64         // syncs of a log file, preallocation excluded
	SyncTotal time.Duration // time spent in them
	// SyncTime counts syncs by duration: bucket i holds those of less than
	// 2^i µs that no bucket before it holds; the last holds the rest.
	SyncTime [SyncBuckets]int64

	Marks        int64 // sync marks written while idle
	Rotations    int64 // files sealed
	Preallocated int64 // zero bytes written ahead
	QueueDepth   int   // records waiting now
	QueueBytes   int64 // of them, as far as their sizes are known
}
