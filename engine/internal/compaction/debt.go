package compaction

import (
	"slices"

	"github.com/stele-go/stele/snapshot"
)

// NoteSegments counts the segments that are yet to be merged. Where those of one size
// are twice as many as make a compaction, the one that is under way has taken so long
// that another waits: it hurries then, since what is dead stays on the disk until it is
// merged, and reads look into every segment.
func (c *Compactor) NoteSegments() {
	n, segs := int64(0), c.State().Segments
	for _, s := range segs {
		if s.Size < c.Opts.SegmentSize {
			n++
		}
	}
	c.Throttle.SetSegments(n, pickCompaction(segs, 2*c.Opts.CompactFanout, c.Opts.SegmentSize) != nil)
}

// Debt is the size of the segments that CompactStep would take now, and
// the times after.
func (c *Compactor) Debt() int64 {
	left := c.State().Segments
	dead := c.garbage.InSegments(left)
	var debt int64
	for {
		next := pickCompaction(left, c.Opts.CompactFanout, c.Opts.SegmentSize)
		if next == nil {
			next = mostlyDead(left, dead)
		}
		if next == nil {
			return debt
		}
		for _, s := range next {
			debt += s.Size
		}
		left = slices.DeleteFunc(slices.Clone(left), func(s snapshot.SegmentInfo) bool { return slices.Contains(next, s) })
	}
}
