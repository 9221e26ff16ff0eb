package compaction

import (
	"context"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/rewrite"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/snapshot"
)

// segmentParts are the segments that hold pages of a family, as the index knows them;
// none if it knows of none, as with a family without partitions.
type segmentParts []base.FileNum

func (c *Compactor) segmentParts(family uint64) (segmentParts, error) {
	var out segmentParts
	parts, err := c.Index.Parts(family)
	for _, p := range parts {
		if !c.Files.IsImage(p.File) {
			out = append(out, p.File)
		}
	}
	return out, err
}

// elsewhere reports whether all pages lie in other segments.
func (p segmentParts) elsewhere(from map[base.FileNum]bool) bool {
	return len(p) > 0 && !slices.ContainsFunc(p, func(n base.FileNum) bool { return from[n] })
}

// stale reports whether a page that lies in this segment counts no more.
func (p segmentParts) stale(num base.FileNum) bool { return len(p) > 0 && !slices.Contains(p, num) }

// Interrupted returns the segments with stale pages: what a compaction that was
// interrupted has left to do. Mu is held.
func (c *Compactor) Interrupted(segs []snapshot.SegmentInfo) ([]snapshot.SegmentInfo, error) {
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

func (c *Compactor) hasStale(num base.FileNum) (bool, error) {
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

// settled returns the segments that a compaction of everything can leave out: large
// ones, of the current key, that hold nothing dead, and all that segments hold of their
// families.
func (c *Compactor) settled(ctx context.Context) (map[base.FileNum]bool, error) {
	out := map[base.FileNum]bool{}
	v := c.WorkView(c.ViewWithin)
	defer v.Release()
	key := ""
	if c.Keys != nil {
		id, err := c.Keys.CurrentID()
		if err != nil {
			return nil, err
		}
		key = id
	}
	for _, s := range c.Manifest.State().Segments {
		if s.Size < c.Opts.SegmentSize || c.Files.KeyID(s.Num) != key {
			continue
		}
		is, err := c.isSettled(ctx, v, s.Num)
		if err != nil {
			return nil, err
		}
		if is {
			out[s.Num] = true
		}
	}
	return out, nil
}

// isSettled reads the directory of a segment, and no values.
func (c *Compactor) isSettled(ctx context.Context, v *storage.View, num base.FileNum) (bool, error) {
	families, err := c.familiesIn(map[base.FileNum]bool{num: true})
	if err != nil {
		return false, err
	}
	live, err := rewrite.Families(v, func(id uint64) bool { return families[id] })
	if err != nil || len(live) < len(families) {
		return false, err
	}
	for _, names := range live {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if parts, err := c.segmentParts(names.ID); err != nil || !slices.Equal(parts, segmentParts{num}) {
			return false, err
		}
		w, err := names.Open(v)
		if err == nil {
			err = w.Load(v)
		}
		if err != nil {
			return false, err
		}
		_, page, err := c.inputPage(names.ID, num)
		if err != nil || page == nil || !wants(&w, page) {
			return false, err
		}
	}
	return true, nil
}

// wants reports whether the partitions of a family have everything a page holds.
func wants(w *rewrite.Family, page *index.Page) bool {
	live := map[index.Ref]bool{}
	for _, t := range w.Partitions {
		t.Ascend("", func(it *index.Item) bool {
			for _, s := range it.Slots {
				live[s.Ref] = true
			}
			return true
		})
	}
	for i := range page.Partitions {
		t := w.Partition(rewrite.SectionKey{ID: page.Partitions[i].ID, Birth: page.Partitions[i].Birth})
		if t == nil {
			return false
		}
		now := map[string]base.LSN{}
		t.Items(func(it *index.Item) { now[it.Key] = it.LSN })
		for _, it := range page.Partitions[i].Items {
			if it.Deleted() || now[it.Key] != it.LSN {
				return false
			}
		}
	}
	return !slices.ContainsFunc(page.Values, func(v index.ValueLoc) bool { return !live[v.Ref] })
}

// segmentsBut are the segments without some.
func (c *Compactor) segmentsBut(out map[base.FileNum]bool) []snapshot.SegmentInfo {
	return slices.DeleteFunc(slices.Clone(c.Manifest.State().Segments), func(s snapshot.SegmentInfo) bool { return out[s.Num] })
}
