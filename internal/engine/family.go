package engine

import (
	"cmp"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/storage"
)

// familyWork is a family and its partitions in one view.
type familyWork struct {
	fam        *index.Family
	partitions []*index.Partition
}

// familyNames is a family and the names of its partitions in one view. Only while it
// is worked on is anything of it in memory: see open.
type familyNames struct {
	id  uint64
	ids []string
}

// familiesOf groups the partitions of a view by family, for the families wanted,
// in the order of family ids. A family without partitions is dead and left out.
func familiesOf(v *storage.View, wanted func(uint64) bool) ([]familyNames, error) {
	at := map[uint64]int{}
	var out []familyNames
	err := v.Index.Rows("", func(r *index.Row, _ *index.Partition) bool {
		if !wanted(r.Family) {
			return true
		}
		i, ok := at[r.Family]
		if !ok {
			i = len(out)
			at[r.Family] = i
			out = append(out, familyNames{id: r.Family})
		}
		out[i].ids = append(out[i].ids, r.ID)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b familyNames) int { return cmp.Compare(a.id, b.id) })
	return out, nil
}

// open is the family with its partitions as the view has them, which may be cold.
func (n familyNames) open(v *storage.View) (familyWork, error) {
	w := familyWork{partitions: make([]*index.Partition, len(n.ids))}
	for i, id := range n.ids {
		t, err := v.Index.Partition(id)
		if err != nil {
			return w, err
		}
		w.partitions[i], w.fam = t, t.Family
	}
	return w, nil
}

// load makes every partition of the family readable.
func (w *familyWork) load(v *storage.View) error { return v.LoadTogether(w.partitions) }

// page is the directory page of the family with the items keep selects. A partition
// without such items is left out, unless it is new: its existence is news too.
func (w *familyWork) page(keep func(t *index.Partition, it *index.Item) bool, isNew func(t *index.Partition) bool) *index.Page {
	p := &index.Page{}
	for _, t := range w.partitions {
		pt := index.PagePartition{ID: t.ID, Birth: t.Birth, Updated: t.Updated, Flags: t.Flags}
		t.Items(func(it *index.Item) {
			if keep(t, it) {
				pt.Items = append(pt.Items, it)
			}
		})
		if len(pt.Items) == 0 && !isNew(t) {
			continue
		}
		index.SortItems(pt.Items)
		p.Partitions = append(p.Partitions, pt)
	}
	return p
}

// valuePlan is what a flush or compaction does with the values of one family:
// which move, in which order, and which of them are read often.
type valuePlan struct {
	heads   []index.Ref
	newest  map[string]index.Ref // of the heads: the last of each series
	history []oldValue
}

// add selects the values that the items of a page refer to as well.
func (p *valuePlan) add(fam *index.Family, page *index.Page, from map[base.FileNum]bool) {
	taken := map[index.Ref]bool{}
	for _, r := range p.heads {
		taken[r] = true
	}
	for _, o := range p.history {
		taken[o.ref] = true
	}
	for _, pt := range page.Partitions {
		for _, it := range pt.Items {
			for _, s := range it.Slots {
				if s.Ref.Empty() || taken[s.Ref] {
					continue
				}
				taken[s.Ref] = true
				if loc, ok := fam.Loc(s.Ref); ok && from[loc.File] {
					p.history = append(p.history, oldValue{ref: s.Ref})
				}
			}
		}
	}
}

// plan selects the values that live items refer to and that lie in one of the
// files from. Values of hot items come first, item by item; the others are
// ordered by series, newest first, so that versions of one channel lie
// together, what listings read before the rest.
func (w *familyWork) plan(o *storage.Options, from map[base.FileNum]bool) valuePlan {
	p := valuePlan{newest: map[string]index.Ref{}}
	taken := map[index.Ref]bool{}
	take := func(r index.Ref) bool {
		if r.Empty() || taken[r] {
			return false
		}
		taken[r] = true
		loc, ok := w.fam.Loc(r)
		return ok && from[loc.File]
	}
	type old struct {
		oldValue
		name string
	}
	var rest []old
	var cold []*index.Item
	for _, t := range w.partitions {
		var items []*index.Item
		t.Ascend("", func(it *index.Item) bool { items = append(items, it); return true })
		for i, isHot := range o.Hot(items) {
			if !isHot {
				cold = append(cold, items[i])
				continue
			}
			for n, s := range items[i].Slots {
				if take(s.Ref) {
					p.heads = append(p.heads, s.Ref)
					if series := o.Series(items[i], n); series != "" && p.newest[series].Compare(s.Ref) < 0 {
						p.newest[series] = s.Ref
					}
				}
			}
		}
	}
	for _, it := range cold {
		for n, s := range it.Slots {
			if take(s.Ref) {
				rest = append(rest, old{oldValue{o.Series(it, n), s.Ref, o.Listed(it, n)}, s.Name})
			}
		}
	}
	slices.SortFunc(rest, func(a, b old) int {
		if a.listed != b.listed {
			if a.listed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.name, b.name), b.ref.Compare(a.ref))
	})
	for _, o := range rest {
		p.history = append(p.history, o.oldValue)
	}
	return p
}
