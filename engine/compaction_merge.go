package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// buildCompaction writes the families of the output. Records since the floor may refer to values of the
// inputs, so these values stay, too.
func (c *compactor) buildCompaction(ctx context.Context, v *View, m *merge, out *segmentOutputs) error {
	inputs, err := c.familiesIn(m.from)
	if err != nil {
		return err
	}
	m.families, m.done = maps.Clone(inputs), map[uint64]bool{}
	live := map[uint64]familyNames{}
	work, err := Families(v, func(id uint64) bool { return inputs[id] })
	if err != nil {
		return err
	}
	for _, names := range work {
		live[names.id] = names
	}
	for n, id := range slices.Sorted(maps.Keys(inputs)) {
		c.noteCompacting(m, out, n, len(inputs)-n)
		if err := ctx.Err(); err != nil {
			return err
		}
		if parts, err := c.segmentParts(id); err != nil {
			return err
		} else if parts.elsewhere(m.from) {
			continue // moved before the compaction was interrupted
		}
		m.done[id] = true
		w := Family{Fam: index.NewFamily(id)}
		if names, ok := live[id]; ok {
			if w, err = names.Open(v); err != nil {
				return err
			}
		}
		if err := w.Load(v); err != nil {
			return err
		}
		out.yield()
		mf, err := c.mergeFamily(w, m)
		if err != nil {
			return err
		}
		out.yield()
		if len(mf.page.Partitions) == 0 && len(mf.plan.hot)+len(mf.plan.history) == 0 {
			continue
		}
		if err := out.add(ctx, mf.w, mf.plan, mf.page, mf.lo, mf.hi); err != nil {
			return err
		}
		if err := c.publishDone(m, out); err != nil {
			return err
		}
	}
	return nil
}

// merge is the plan and the progress of one compaction.
type merge struct {
	from     map[base.FileNum]bool
	all      bool // every segment that holds anything dead is an input
	whole    bool // as compactionTask has it
	floor    base.LSN
	families map[uint64]bool     // of the inputs, without those already published
	done     map[uint64]bool     // those of families that are in the output
	dropped  map[string]base.LSN // last deletion of a partition that segments know of
	dead     map[uint64]int64    // what was dead of each family when it began

	progress metrics.CompactProgress
	tell     func(metrics.CompactProgress) // as compactionTask has it
	info     metrics.CompactInfo
}

// count adds published outputs.
func (m *merge) count(segs []snapshot.SegmentInfo) {
	for _, seg := range segs {
		if m.info.Output == 0 {
			m.info.Output = uint64(seg.Num)
		}
		m.info.Families, m.info.Values, m.info.BytesOut = m.info.Families+int(seg.Families), m.info.Values+int(seg.Values), m.info.BytesOut+seg.Size
	}
}

// noteCompacting reports the progress of a compaction: to the events of the store, and to whoever asked for this one.
func (c *compactor) noteCompacting(m *merge, out *segmentOutputs, done, left int) {
	m.progress.Families, m.progress.FamiliesLeft, m.progress.BytesOut = done, left, out.written()
	for _, tell := range []func(metrics.CompactProgress){c.Opts.Events.Compacting, m.tell} {
		if tell != nil {
			tell(m.progress)
		}
	}
}

// familiesIn names the families the segments hold.
func (c *compactor) familiesIn(from map[base.FileNum]bool) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	for num := range from {
		h, err := c.Files.Acquire(num)
		if err != nil {
			return nil, err
		}
		fams, err := h.Segment.Families()
		c.Files.Release(h)
		if err != nil {
			return nil, err
		}
		for _, f := range fams {
			out[f.ID] = true
		}
	}
	return out, nil
}

// mergedFamily is one family of the output.
type mergedFamily struct {
	w      Family
	page   *index.Page
	plan   rewritePlan
	lo, hi base.LSN
}

// mergeFamily merges the pages of a family that are in the inputs.
func (c *compactor) mergeFamily(w Family, m *merge) (*mergedFamily, error) {
	mf := &mergedFamily{w: w, page: &index.Page{}}
	sections := map[sectionKey]*rewriteSection{}
	parts, err := c.segmentParts(w.Fam.ID)
	if err != nil {
		return nil, err
	}
	for num := range m.from {
		if parts.stale(num) {
			continue
		}
		part, page, err := c.inputPage(w.Fam.ID, num)
		if err != nil {
			return nil, err
		}
		if page == nil {
			continue
		}
		if mf.lo == 0 || part.MinLSN < mf.lo {
			mf.lo = part.MinLSN
		}
		mf.hi = max(mf.hi, part.MaxLSN)
		w.Fam.AddMissing(page.Values, c.Files.lasting(latest))
		for i := range page.Partitions {
			addSection(sections, &page.Partitions[i])
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(sections), sectionKey.compare) {
		if m.dropped[key.id] > key.birth {
			continue
		}
		pt := m.section(sections[key], w.life(key.id, key.birth))
		mf.page.Partitions = append(mf.page.Partitions, pt)
	}
	mf.plan = newPlan(&w, &c.Opts, m.from, 0, mf.page)
	return mf, nil
}

// inputPage reads the page of a family in a segment, if it has one.
func (c *compactor) inputPage(family uint64, num base.FileNum) (index.Part, *index.Page, error) {
	h, err := c.Files.Acquire(num)
	if err != nil {
		return index.Part{}, nil, err
	}
	defer c.Files.Release(h)
	f, ok, err := h.Segment.Find(family)
	if err != nil || !ok {
		return index.Part{}, nil, err
	}
	part := index.Part{File: num, Off: f.DirOff, Len: f.DirStored, MinLSN: f.MinLSN, MaxLSN: f.MaxLSN}
	p, err := ReadSegmentPage(h, family, part)
	return part, p, err
}

// section returns the section of a partition for the output. t is the partition as it is now, or nil if
// the log deleted it.
func (m *merge) section(s *rewriteSection, t *index.Partition) index.PagePartition {
	now := map[string]base.LSN{}
	if t != nil {
		t.Entries(0, func(it *index.Entry) { now[it.Key] = it.LSN })
	}
	pt := s.PagePartition
	pt.Entries = nil
	for key, it := range s.newest {
		switch cur, known := now[key], t != nil; {
		case it.Deleted():
			if m.all {
				continue // nothing older is left that it could hide
			}
		case known && cur == 0, known && cur > it.LSN && cur < m.floor:
			continue // deleted or replaced, and a segment knows
		}
		pt.Entries = append(pt.Entries, it)
	}
	index.SortEntries(pt.Entries)
	return pt
}
