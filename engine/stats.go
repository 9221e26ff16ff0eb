package engine

import (
	"sync/atomic"

	"github.com/stele-go/stele/base/metrics"
)

// Stats returns what the store holds now.
func (e *Engine) Stats() metrics.Stats {
	s := metrics.Stats{Threads: e.Index.Len(), Resident: e.Index.Resident(), CompactionDebt: e.compactor.debt(),
		LastLSN: uint64(e.Index.LSN()), LogBytes: e.throttle.loggedBytes(), OpenViews: e.Files.viewCount(),
		UnremovedFiles: len(e.Files.unremovedNames()), VersionBytes: e.revisions.bytes()}
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
func (e *Engine) Metrics() metrics.StoreMetrics {
	m := metrics.StoreMetrics{
		Flushes: e.flushes.Load(), Images: e.imagesWritten.Load(), Compactions: e.compactions.Load(),
		Commits: e.commits.Read(), Stalled: e.throttle.Stalled(), ValueBytes: e.valueBytes.Load(), FlushedValueBytes: e.flushedValues.Load(),
		FlushedBytes: e.flushedBytes.Load(),
		CompactedIn:  e.compactedIn.Load(), CompactedOut: e.compactedOut.Load(), ThreadLoads: e.loads.Load(),
		CorruptionsFound: e.corruptions.Load(),
		Patches:          e.patches.Load(), PatchedBytes: e.patchedBytes.Load(), PatchBytes: e.patchBytes.Load(), SegmentPatches: e.segmentPatches.Load(),
	}
	m.CacheHits, m.CacheMisses = e.cacheUse()
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
