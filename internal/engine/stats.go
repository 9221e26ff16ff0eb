package engine

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/wal"
)

var errNotExist = fs.ErrNotExist

// Stats says what a store holds.
type Stats struct {
	Threads      int
	LastLSN      base.LSN
	DurableLSN   base.LSN
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

// Stats returns what the store holds now.
func (e *Engine) Stats() Stats {
	s := Stats{Threads: e.ix.Len(), Resident: e.ix.Resident(), CompactionDebt: e.compactionDebt(), LastLSN: e.ix.LSN(), LogBytes: e.logBytes.Load(), OpenViews: e.files.viewCount(), UnremovedFiles: e.files.stuck.count(), VersionBytes: e.versions.bytes()}
	s.Encryption = e.encryption()
	st := e.state()
	s.LogFiles, s.Segments, s.Images = len(st.Logs), len(st.Segments), len(st.Images)
	for _, seg := range st.Segments {
		s.SegmentBytes += seg.Size
		s.RawBytes += seg.Raw
	}
	for _, n := range e.garbage.inSegments(st.Segments) {
		s.DeadBytes += n
	}
	if s.WorkError = e.workError(); s.WorkError == nil {
		s.WorkError = e.compactError()
	}
	s.DurableLSN = s.LastLSN
	if e.log != nil {
		s.DurableLSN = e.log.DurableLSN()
	}
	return s
}

// Metrics counts what a store did since it was opened.
type Metrics struct {
	Log wal.Metrics
	// Commits says how long commits took, from the call to its return: waiting for
	// the log's queue, the write and the sync included. A save's begins when its
	// last value is serialized. Refused ones are not counted.
	Commits metric.Histogram
	// Stalled says how long commits waited that came while flushes or compaction were
	// behind. It is part of Commits. Those that did not wait are not counted.
	Stalled metric.Histogram
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

// Metrics returns the counters now.
func (e *Engine) Metrics() Metrics {
	m := Metrics{
		Flushes: e.flushes.Load(), Images: e.images.Load(), Compactions: e.compactions.Load(),
		Commits: e.commits.Read(), Stalled: e.throttle.stalled.Read(), ValueBytes: e.valueBytes.Load(), FlushedValueBytes: e.flushedValues.Load(), FlushedBytes: e.flushedBytes.Load(),
		CompactedIn: e.compactedIn.Load(), CompactedOut: e.compactedOut.Load(), ThreadLoads: e.loads.Load(),
		CacheHits: e.cache.hits.Load(), CacheMisses: e.cache.misses.Load(), CorruptionsFound: e.corruptions.Load(),
		Patches: e.patches.Load(), PatchedBytes: e.patchedBytes.Load(), PatchBytes: e.patchBytes.Load(), SegmentPatches: e.segmentPatches.Load(),
	}
	if e.log != nil {
		m.Log = e.log.Metrics()
	}
	return m
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

// workError is why the last flush or image failed.
func (e *Engine) workError() error { return lastError(&e.workErr) }

// compactError is why the last compaction failed.
func (e *Engine) compactError() error { return lastError(&e.compactErr) }

func lastError(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (e *Engine) notePatch(v *txValue) {
	e.patches.Add(1)
	e.patchedBytes.Add(v.val.size)
	e.patchBytes.Add(v.size)
}

func (e *Engine) noteFlush(i FlushInfo) {
	e.flushes.Add(1)
	e.flushedValues.Add(i.ValueBytes)
	e.flushedBytes.Add(i.Bytes)
	e.opts.Logger.Info("flushed", "file_num", i.Segment, "floor_lsn", i.Floor, "families", i.Families, "values", i.Values, "bytes", i.Bytes, "took", i.Took)
	if f := e.opts.Events.Flushed; f != nil {
		f(i)
	}
}

func (e *Engine) noteCompact(i CompactInfo) {
	e.compactions.Add(1)
	e.compactedIn.Add(i.BytesIn)
	e.compactedOut.Add(i.BytesOut)
	e.opts.Logger.Info("compacted", "inputs", len(i.Inputs), "file_num", i.Output, "bytes_in", i.BytesIn, "bytes_out", i.BytesOut, "took", i.Took)
	if f := e.opts.Events.Compacted; f != nil {
		f(i)
	}
}

// noteDamage counts and reports damage; other errors, and none, pass.
func (e *Engine) noteDamage(err error) {
	if !errors.Is(err, fault.ErrCorrupt) {
		return
	}
	e.corruptions.Add(1)
	e.opts.Logger.Error("damage found", "error", err)
	if f := e.opts.Events.CorruptionFound; f != nil {
		f(err)
	}
}

func (e *Engine) noteSlowSync(took time.Duration) {
	e.opts.Logger.Warn("slow sync", "took", took)
	if f := e.opts.Events.SlowSync; f != nil {
		f(took)
	}
}

func (e *Engine) noteLowSpace(free int64) {
	e.opts.Logger.Warn("low space", "free", free, "watermark", e.opts.LowSpace)
	if f := e.opts.Events.LowSpace; f != nil {
		f(free)
	}
}

func (e *Engine) noteWriteError(err error) {
	switch {
	case errors.Is(err, fault.ErrPoisoned):
		if e.poisonNoted.CompareAndSwap(false, true) {
			e.opts.Logger.Error("poisoned", "error", err)
			if f := e.opts.Events.Poisoned; f != nil {
				f(err)
			}
		}
	case errors.Is(err, fault.ErrDiskFull):
		e.opts.Logger.Error("disk full", "error", err)
		if f := e.opts.Events.DiskFull; f != nil {
			f(err)
		}
	}
}
