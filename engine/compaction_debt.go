package engine

import (
	"slices"

	"github.com/stele-go/stele/snapshot"
)

// noteSegments counts the segments that are yet to be merged. If there are twice as many of one size as
// make a compaction, the compaction under way has taken so long that another is due. It then runs
// without a rate limit, since dead bytes stay on the disk until they are merged, and reads look into
// every segment.
func (c *compactor) noteSegments() {
	n, segs := int64(0), c.state().Segments
	for _, s := range segs {
		if s.Size < c.Opts.SegmentSize {
			n++
		}
	}
	c.throttle.setSegments(n, pickCompaction(segs, 2*c.Opts.CompactFanout, c.Opts.SegmentSize) != nil)
}

// debt returns the total size of the segments that compactStep would pick now and in the steps after.
// Segments that an interrupted compaction left to remove are not counted, as they are not read.
func (c *compactor) debt() int64 {
	left := c.state().Segments
	dead := c.garbage.inSegments(left)
	var debt int64
	for {
		next := nextCompaction(left, dead, &c.Opts, 0)
		if next == nil {
			return debt
		}
		for _, s := range next {
			debt += s.Size
		}
		left = slices.DeleteFunc(slices.Clone(left), func(s snapshot.SegmentInfo) bool { return slices.Contains(next, s) })
	}
}
