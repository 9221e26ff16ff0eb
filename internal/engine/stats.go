package engine

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/monitor"
)

var errNotExist = fs.ErrNotExist

// Stats returns what the store holds now.
func (e *Engine) Stats() monitor.Stats {
	s := monitor.Stats{Threads: e.Index.Len(), Resident: e.Index.Resident(), CompactionDebt: e.compactor.Debt(), LastLSN: uint64(e.Index.LSN()), LogBytes: e.Throttle.LogBytes(), OpenViews: e.Files.ViewCount(), UnremovedFiles: len(e.Files.UnremovedNames()), VersionBytes: e.revisions.bytes()}
	s.Encryption = e.encryption()
	st := e.State()
	s.LogFiles, s.Segments, s.Images = len(st.Logs), len(st.Segments), len(st.Images)
	for _, seg := range st.Segments {
		s.SegmentBytes += seg.Size
		s.RawBytes += seg.Raw
	}
	for _, n := range e.garbage.InSegments(st.Segments) {
		s.DeadBytes += n
	}
	if s.WorkError = e.workError(); s.WorkError == nil {
		s.WorkError = e.compactError()
	}
	s.DurableLSN = s.LastLSN
	if e.Log != nil {
		s.DurableLSN = uint64(e.Log.DurableLSN())
	}
	return s
}

// Metrics returns the counters now.
func (e *Engine) Metrics() monitor.StoreMetrics {
	m := monitor.StoreMetrics{
		Flushes: e.Flushes.Load(), Images: e.Written.Load(), Compactions: e.Compactions.Load(),
		Commits: e.commits.Read(), Stalled: e.Throttle.Stalled(), ValueBytes: e.valueBytes.Load(), FlushedValueBytes: e.FlushedValues.Load(), FlushedBytes: e.FlushedBytes.Load(),
		CompactedIn: e.CompactedIn.Load(), CompactedOut: e.CompactedOut.Load(), ThreadLoads: e.Loads.Load(),
		CorruptionsFound: e.Corruptions.Load(),
		Patches:          e.patches.Load(), PatchedBytes: e.patchedBytes.Load(), PatchBytes: e.patchBytes.Load(), SegmentPatches: e.SegmentPatches.Load(),
	}
	m.CacheHits, m.CacheMisses = e.CacheUse()
	if e.Log != nil {
		m.Log = e.Log.Metrics()
	}
	return m
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

func (e *Engine) noteSlowSync(took time.Duration) {
	e.Opts.Logger.Warn("slow sync", "took", took)
	if f := e.Opts.Events.SlowSync; f != nil {
		f(took)
	}
}

func (e *Engine) noteLowSpace(free int64) {
	e.Opts.Logger.Warn("low space", "free", free, "watermark", e.Opts.LowSpace)
	if f := e.Opts.Events.LowSpace; f != nil {
		f(free)
	}
}

func (e *Engine) noteWriteError(err error) {
	switch {
	case errors.Is(err, fault.ErrPoisoned):
		if e.poisonNoted.CompareAndSwap(false, true) {
			e.Opts.Logger.Error("poisoned", "error", err)
			if f := e.Opts.Events.Poisoned; f != nil {
				f(err)
			}
		}
	case errors.Is(err, fault.ErrDiskFull):
		e.Opts.Logger.Error("disk full", "error", err)
		if f := e.Opts.Events.DiskFull; f != nil {
			f(err)
		}
	}
}
