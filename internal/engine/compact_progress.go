package engine

// CompactProgress tells how far a compaction is.
type CompactProgress struct {
	Inputs       int   // segments
	BytesIn      int64 // of them
	Families     int   // done
	FamiliesLeft int
	BytesOut     int64 // written so far; the last block is not counted
}

// noteCompacting tells how far a compaction is.
func (e *Engine) noteCompacting(m *merge, out *outputs, done, left int) {
	m.progress.Families, m.progress.FamiliesLeft, m.progress.BytesOut = done, left, out.written()
	for _, tell := range []func(CompactProgress){e.opts.Events.Compacting, m.tell} {
		if tell != nil {
			tell(m.progress)
		}
	}
}
