package metrics

import "time"

// Stats says what a store holds.
type Stats struct {
	Threads      int
	LastLSN      uint64
	DurableLSN   uint64
	LogFiles     int
	Segments     int
	SegmentBytes int64
	RawBytes     int64 // of the values and patches in segments, before compression
	// DeadBytes is about what a compaction would free: the bytes in segments that no item
	// refers to, as of the last flush. The manifest stores it. After a kill it does not
	// include threads that were deleted between the last flush and the last image of the
	// index. A compaction may free more, because it stores values that newer segments
	// replaced as patches.
	DeadBytes int64
	Images    int
	LogBytes  int64 // written since the last flush
	// Resident is the number of threads whose items are in memory. The items of others are
	// read on demand.
	Resident int
	// CompactionDebt is the size of the segments that wait to be compacted, in bytes.
	CompactionDebt int64
	OpenViews      int
	// UnremovedFiles is the number of obsolete files that could not be removed, because a
	// reader in another process has them open and the system forbids it. The next flush,
	// image, compaction or Open tries again.
	UnremovedFiles int
	VersionBytes   int64 // memory of the last values kept to make patches against
	// Encryption says with which keys the files are encrypted; nil without encryption.
	Encryption *Encryption
	// WorkError is why the last flush, image or compaction in the background failed; nil
	// if it did not fail. As long as they fail, the log grows.
	WorkError error
}

// OpenReport says what Open found.
type OpenReport struct {
	Created       bool
	CleanClose    bool     // the last writer closed the store
	Replayed      int      // records read from the log
	DroppedBytes  int64    // torn tail: bytes nobody was promised
	DroppedFile   string   // the log file it was cut from
	DroppedAt     int64    // offset of the cut
	Rewritten     int      // records copied to a new log, as the page cache cannot be trusted
	IndexRebuilt  bool     // the image was missing or damaged
	RebuildReason string   // why
	RemovedFiles  []string // leftovers of a crash
	LeftFiles     []string // leftovers that could not be removed yet; see Stats.UnremovedFiles
	UnknownFiles  []string // not stele's, or not this store's; left alone
	Damage        []error  // with AllowDamage: what Open skipped; see Engine.Skipped
	// Guessed: with AllowDamage, the manifest was missing or damaged, so all files of the
	// directory were used. Deleted data may be back.
	Guessed bool
	Took    time.Duration
}

// Encryption says with which keys the files of a store are encrypted. A file counts until it is
// removed, which open views delay.
type Encryption struct {
	// Files counts the files by the id of their key, including the manifest. A key that is
	// not in it is not needed for any file of the store. Backups are not counted.
	Files map[string]int
	// Plain counts the files that are not encrypted, because they are older.
	Plain int
	// Unknown counts the files that are too damaged to tell.
	Unknown int
}
