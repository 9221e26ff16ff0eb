package engine

import "github.com/stele-go/stele/monitor"

// noteCompacting tells how far a compaction is.
func (e *Engine) noteCompacting(m *merge, out *outputs, done, left int) {
	m.progress.Families, m.progress.FamiliesLeft, m.progress.BytesOut = done, left, out.written()
	for _, tell := range []func(monitor.CompactProgress){e.opts.Events.Compacting, m.tell} {
		if tell != nil {
			tell(m.progress)
		}
	}
}
