package monitor

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
	// DeadBytes is about what a compaction would free: of the segments, what no item
	// refers to any more, as of the last flush. The manifest keeps it. What a kill
	// leaves uncounted is threads deleted after the last flush and before the last
	// image of the index. Heads that newer segments replaced become patches in a
	// compaction, which frees more.
	DeadBytes int64
	Images    int
	LogBytes  int64 // written since the last flush
	// Resident threads have their items in memory; the others are read when touched.
	Resident int
	// CompactionDebt is the size of the segments that wait to be compacted, in bytes.
	CompactionDebt int64
	OpenViews      int
	// UnremovedFiles are files that nothing needs and that could not be removed, as a
	// reader in another process has them open where that forbids it. They are tried
	// again with the next flush, image or compaction, and by the next Open.
	UnremovedFiles int
	VersionBytes   int64 // memory of the last values kept to make patches against
	// Encryption says under which keys the files are; nil without encryption.
	Encryption *Encryption
	// WorkError is why the last flush, image or compaction of the worker failed;
	// nil if it did not. While it lasts, the log grows.
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
	// Guessed: with AllowDamage, the manifest was missing or damaged, and the files of
	// the directory were taken as they are. What was deleted may be back.
	Guessed bool
	Took    time.Duration
}

// Encryption says under which keys the files of a store are encrypted. A file
// counts until it is removed, which open views put off.
type Encryption struct {
	// Files counts the files by the id of their key, the manifest included. A key
	// that is not in it is needed for no file of the store; backups are counted
	// nowhere.
	Files map[string]int
	// Plain counts the files without encryption: those older than it.
	Plain int
	// Unknown counts the files that are too damaged to tell.
	Unknown int
}
