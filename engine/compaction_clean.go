package engine

import (
	"context"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// clean returns the segments that a compaction of everything can leave out. Such a segment is large,
// encrypted with the current key, holds nothing dead, and no other segment has pages of its families.
func (c *compactor) clean(ctx context.Context) (map[base.FileNum]bool, error) {
	out := map[base.FileNum]bool{}
	v := c.workView(c.ViewWithin)
	defer v.Release()
	key := ""
	if c.Keys != nil {
		id, err := c.Keys.CurrentID()
		if err != nil {
			return nil, err
		}
		key = id
	}
	for _, s := range c.manifest.State().Segments {
		if s.Size < c.Opts.SegmentSize || c.Files.keyID(s.Num) != key {
			continue
		}
		is, err := c.isClean(ctx, v, s.Num)
		if err != nil {
			return nil, err
		}
		if is {
			out[s.Num] = true
		}
	}
	return out, nil
}

// isClean reports whether clean may leave out a segment. It reads the directory of the segment, and no
// values.
func (c *compactor) isClean(ctx context.Context, v *View, num base.FileNum) (bool, error) {
	families, err := c.familiesIn(map[base.FileNum]bool{num: true})
	if err != nil {
		return false, err
	}
	live, err := Families(v, func(id uint64) bool { return families[id] })
	if err != nil || len(live) < len(families) {
		return false, err
	}
	for _, names := range live {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if parts, err := c.segmentParts(names.id); err != nil || !slices.Equal(parts, segmentParts{num}) {
			return false, err
		}
		w, err := names.Open(v)
		if err == nil {
			err = w.Load(v)
		}
		if err != nil {
			return false, err
		}
		_, page, err := c.inputPage(names.id, num)
		if err != nil || page == nil || !allLive(&w, page) {
			return false, err
		}
	}
	return true, nil
}

// allLive reports whether every entry and value of a page is still in the partitions of a family.
func allLive(w *Family, page *index.Page) bool {
	live := map[index.Ref]bool{}
	for _, t := range w.Partitions {
		t.Ascend("", func(it *index.Entry) bool {
			for _, r := range it.Slots.Refs() {
				live[r] = true
			}
			return true
		})
	}
	for i := range page.Partitions {
		t := w.life(page.Partitions[i].ID, page.Partitions[i].Birth)
		if t == nil {
			return false
		}
		now := map[string]base.LSN{}
		t.Entries(0, func(it *index.Entry) { now[it.Key] = it.LSN })
		for _, it := range page.Partitions[i].Entries {
			if it.Deleted() || now[it.Key] != it.LSN {
				return false
			}
		}
	}
	return !slices.ContainsFunc(page.Values, func(v index.ValueLoc) bool { return !live[v.Ref] })
}
