package metrics

import "time"

// Metrics counts what a saver did since it was opened. Counts only grow. The promoted fields
// are those of the underlying store. They include the commits of item stores and caches in
// the same directory.
type Metrics struct {
	StoreMetrics
	// Saves is the latency of Put, PutRequest and PutWrites, including serialization and
	// sync. Calls that returned an error are not counted.
	Saves Histogram
	// SavesFailed counts saves that could not be stored, because the store was full,
	// failing or closed, or because of a deadline.
	SavesFailed uint64
	// SavesRefused counts saves that failed for reasons of the caller: invalid arguments,
	// values that cannot be serialized, a conflict, a deleted thread, a cancelled context,
	// a read-only store.
	SavesRefused uint64
	// Loads is the latency of GetTuple calls that found a checkpoint, or found that there
	// is none. It does not include reading values, which are read on demand.
	Loads Histogram
	// LoadsFailed counts GetTuple calls that failed otherwise. Invalid arguments and
	// cancelled contexts are not counted.
	LoadsFailed uint64
	// Encodes and Decodes are the times that the serializer took for single values. Each
	// value of a save counts with the mean of the save.
	Encodes, Decodes Histogram
	// EncodesFailed and DecodesFailed count the values that the serializer refused.
	EncodesFailed, DecodesFailed uint64
	// ItemHits and ItemMisses count lookups of items by key in the item stores on this
	// saver (package store) that found an item, or none.
	ItemHits, ItemMisses uint64
	// ItemSearches is the latency of successful searches in these stores, including those
	// in a Batch. Scan is not counted.
	ItemSearches Histogram
	// ResultHits and ResultMisses count lookups of node results in the caches on this
	// saver (package store/cache) that found a result, or none.
	ResultHits, ResultMisses uint64
}

// StoreMetrics counts what the underlying store of a saver did since it was opened.
type StoreMetrics struct {
	Log LogMetrics
	// Commits is the latency of commits, from the call to its return. It includes waiting
	// for the log's queue, the write and the sync. The commit of a save begins when its
	// last value is serialized. Refused commits are not counted.
	Commits Histogram
	// Stalled is how long commits were held back because flushes or compaction were
	// behind. It is part of Commits. Commits that did not wait are not counted.
	Stalled Histogram
	// ValueBytes is the size of all committed values, before patches and compression.
	// Log.Bytes is what the log took for them and everything else.
	ValueBytes int64
	// FlushedValueBytes is the size of the values that flushes moved to segments, before
	// patches and compression. FlushedBytes is what the segments took for them and their
	// directories.
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

// LogMetrics are the counters of a log. They only grow.
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
