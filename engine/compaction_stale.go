package engine

import (
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// segmentParts are the segments that hold pages of a family according to the index. A family without
// partitions has none.
type segmentParts []base.FileNum

func (c *compactor) segmentParts(family uint64) (segmentParts, error) {
	var out segmentParts
	parts, err := c.Index.Parts(family)
	for _, p := range parts {
		if !c.Files.isImage(p.File) {
			out = append(out, p.File)
		}
	}
	return out, err
}

// elsewhere reports whether all pages lie in other segments.
func (p segmentParts) elsewhere(from map[base.FileNum]bool) bool {
	return len(p) > 0 && !slices.ContainsFunc(p, func(n base.FileNum) bool { return from[n] })
}

// stale reports whether a page of the family in this segment is no longer used.
func (p segmentParts) stale(num base.FileNum) bool { return len(p) > 0 && !slices.Contains(p, num) }

// interrupted returns the segments with stale pages, which an interrupted compaction left to be
// removed. mu is held.
func (c *compactor) interrupted(segs []snapshot.SegmentInfo) ([]snapshot.SegmentInfo, error) {
	if !c.unfinished.Load() {
		return nil, nil
	}
	var left []snapshot.SegmentInfo
	isOutput := func(s snapshot.SegmentInfo) bool { return s.Size >= c.Opts.SegmentSize }
	if slices.ContainsFunc(segs, isOutput) {
		for _, s := range segs {
			stale, err := c.hasStale(s.Num)
			if err != nil {
				return nil, err
			}
			if stale {
				left = append(left, s)
			}
		}
	}
	c.unfinished.Store(len(left) > 0)
	return left, nil
}

func (c *compactor) hasStale(num base.FileNum) (bool, error) {
	families, err := c.familiesIn(map[base.FileNum]bool{num: true})
	for id := range families {
		parts, perr := c.segmentParts(id)
		if perr != nil {
			return false, perr
		}
		if parts.stale(num) {
			return true, nil
		}
	}
	return false, err
}

// segmentsBut returns the segments that are not in out.
func (c *compactor) segmentsBut(out map[base.FileNum]bool) []snapshot.SegmentInfo {
	return slices.DeleteFunc(slices.Clone(c.manifest.State().Segments), func(s snapshot.SegmentInfo) bool { return out[s.Num] })
}
