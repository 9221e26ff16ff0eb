package engine

import (
	"sync/atomic"

	"github.com/stele-go/stele/base/metrics"
)

// Stats returns what the store holds now.
func (e *Engine) Stats() metrics.Stats {
	s := metrics.Stats{Threads: e.Index.Len(), Resident: e.Index.Resident(), CompactionDebt: e.compactor.Debt(), LastLSN: uint64(e.Index.LSN()), LogBytes: e.Throttle.LogBytes(), OpenViews: e.Files.ViewCount(), UnremovedFiles: len(e.Files.UnremovedNames()), VersionBytes: e.revisions.bytes()}
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
func (e *Engine) Metrics() metrics.StoreMetrics {
	m := metrics.StoreMetrics{
		Flushes: e.Flushes.Load(), Images: e.ImagesWritten.Load(), Compactions: e.Compactions.Load(),
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
