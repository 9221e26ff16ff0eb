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
	s := monitor.Stats{Threads: e.ix.Len(), Resident: e.ix.Resident(), CompactionDebt: e.compactor.debt(), LastLSN: uint64(e.ix.LSN()), LogBytes: e.throttle.LogBytes(), OpenViews: e.files.ViewCount(), UnremovedFiles: len(e.files.UnremovedNames()), VersionBytes: e.revisions.bytes()}
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
		s.DurableLSN = uint64(e.log.DurableLSN())
	}
	return s
}

// Metrics returns the counters now.
func (e *Engine) Metrics() monitor.StoreMetrics {
	m := monitor.StoreMetrics{
		Flushes: e.flushes.Load(), Images: e.written.Load(), Compactions: e.compactions.Load(),
		Commits: e.commits.Read(), Stalled: e.throttle.Stalled(), ValueBytes: e.valueBytes.Load(), FlushedValueBytes: e.flushedValues.Load(), FlushedBytes: e.flushedBytes.Load(),
		CompactedIn: e.compactedIn.Load(), CompactedOut: e.compactedOut.Load(), ThreadLoads: e.loads.Load(),
		CacheHits: e.cache.hits.Load(), CacheMisses: e.cache.misses.Load(), CorruptionsFound: e.corruptions.Load(),
		Patches: e.patches.Load(), PatchedBytes: e.patchedBytes.Load(), PatchBytes: e.patchBytes.Load(), SegmentPatches: e.segmentPatches.Load(),
	}
	if e.log != nil {
		m.Log = e.log.Metrics()
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
