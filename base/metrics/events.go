package metrics

import "time"

// Events are functions that are called when something happens in a store. They are called
// without locks, from the goroutine that notices the event, and must not block. Nil functions
// are not called.
type Events struct {
	Flushed         func(FlushInfo)
	Compacted       func(CompactInfo)
	Compacting      func(CompactProgress) // before each family
	CorruptionFound func(error)
	Poisoned        func(error)
	DiskFull        func(error)
	// LowSpace: fewer than Options.LowSpace bytes are free. It is not called again until
	// more bytes have been free.
	LowSpace func(free int64)
	// SlowSync: a sync of the log took longer than a second.
	SlowSync func(took time.Duration)
}

// FlushInfo describes one flush.
type FlushInfo struct {
	Segment  uint64 // the first of them; 0: nothing live was in the log
	Floor    uint64 // records below it are no longer needed from the log
	Families int
	Values   int
	Bytes    int64 // of the segment
	// ValueBytes is the size of the values before patches and compression.
	ValueBytes int64
	Took       time.Duration
}

// CompactInfo describes one compaction.
type CompactInfo struct {
	Inputs   []uint64
	Output   uint64 // the first of them; 0: nothing live was left
	Families int
	Values   int
	BytesIn  int64
	BytesOut int64
	Took     time.Duration
}

// CompactProgress is the progress of a compaction.
type CompactProgress struct {
	Inputs       int   // segments
	BytesIn      int64 // of them
	Families     int   // done
	FamiliesLeft int
	BytesOut     int64 // written so far; the last block is not counted
}

// EraseProgress is the progress of an erasure. It first writes live data to new files, and then
// waits until the old files are removed.
type EraseProgress struct {
	BytesIn   int64 // of the segments that are being rewritten
	BytesOut  int64 // written in their place so far; the last block is not counted
	Files     int   // that must go; 0 until everything is rewritten
	FilesGone int   // of Files
}
