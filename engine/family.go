package engine

import (
	"cmp"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// Family is a family and its partitions in one view.
type Family struct {
	Fam        *index.Family
	Partitions []*index.Partition
}

// familyNames is a family and the names of its partitions in one view. Its partitions are in memory
// only while a Family that Open returned is in use.
type familyNames struct {
	id  uint64
	ids []string
}

// Families groups the partitions of a view by family, for the families wanted,
// in the order of family ids. A family without partitions is dead and left out.
func Families(v *View, wanted func(uint64) bool) ([]familyNames, error) {
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

// Open returns the family with its partitions as the view has them, which may be cold.
func (n familyNames) Open(v *View) (Family, error) {
	w := Family{Partitions: make([]*index.Partition, len(n.ids))}
	for i, id := range n.ids {
		t, err := v.Index.Partition(id)
		if err != nil {
			return w, err
		}
		w.Partitions[i], w.Fam = t, t.Family
	}
	return w, nil
}

// Load makes every partition of the family readable.
func (w *Family) Load(v *View) error { return v.loadFamily(w.Partitions) }

// page returns the directory page of the family with the changes since record first: entries put by it
// or later, and all entries of partitions born since. A partition born since is on the page even
// without entries; one that is a copy has older entries.
func (w *Family) page(first base.LSN) *index.Page {
	p := &index.Page{}
	for _, t := range w.Partitions {
		pt := index.PagePartition{ID: t.ID, Birth: t.Birth, Updated: t.Updated, Flags: t.Flags}
		isNew, since := t.Birth >= first, first
		if isNew {
			since = 0
		}
		t.Entries(since, func(it *index.Entry) { pt.Entries = append(pt.Entries, it) })
		if len(pt.Entries) == 0 && !isNew {
			continue
		}
		p.Partitions = append(p.Partitions, pt)
	}
	return p
}

// life returns the partition with this id that was born with this record; nil if the view has another
// one with that id, or none.
func (w *Family) life(id string, birth base.LSN) *index.Partition {
	for _, t := range w.Partitions {
		if t.ID == id && t.Birth == birth {
			return t
		}
	}
	return nil
}
