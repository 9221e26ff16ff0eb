package engine

import (
	"github.com/stele-go/stele/index"
)

// familyPart is what one segment gets of a family.
type familyPart struct {
	plan rewritePlan
	page *index.Page
}

// divide splits a family whose directory would be larger than limit, by entries. Each part has the
// values that its entries are the first to refer to; the last part also has values that no entry refers
// to. A family of usual size is one part.
func divide(p rewritePlan, page *index.Page, limit int) []familyPart {
	d := divider{limit: limit}
	for i := range page.Partitions {
		d.partition(&page.Partitions[i])
	}
	if len(d.pages) < 2 {
		return []familyPart{{p, page}}
	}
	of := map[index.Ref]int{} // the part that a value goes to
	for n, pg := range d.pages {
		for _, pt := range pg.Partitions {
			for _, it := range pt.Entries {
				for _, r := range it.Slots.Refs() {
					if _, ok := of[r]; !ok {
						of[r] = n
					}
				}
			}
		}
	}
	parts := make([]familyPart, len(d.pages))
	for i, pg := range d.pages {
		parts[i] = familyPart{rewritePlan{values: p.values, newest: map[string]int{}}, pg}
	}
	part := func(at int) *rewritePlan {
		if n, ok := of[p.values[at].Ref]; ok {
			return &parts[n].plan
		}
		return &parts[len(parts)-1].plan
	}
	for _, at := range p.hot {
		to := part(at)
		to.hot = append(to.hot, at)
	}
	for series, at := range p.newest {
		part(at).newest[series] = at
	}
	for _, o := range p.history {
		to := part(o.at)
		to.history = append(to.history, o)
	}
	return parts
}

// placeSize is an upper bound of the bytes that the place of a value takes.
const placeSize = 64

// divider packs the entries of a page into pages.
type divider struct {
	limit int
	size  int // of the last page with its rows of the value table, about
	pages []*index.Page
}

// partition adds the section of a partition, entry by entry.
func (d *divider) partition(pt *index.PagePartition) {
	d.section(pt)
	for _, it := range pt.Entries {
		n := len(it.Key) + 32
		for _, s := range it.Slots.All() {
			n += len(s.Name)/8 + len(s.Tag) + placeSize
		}
		if d.size+n > d.limit && d.size > 0 {
			d.size = d.limit
			d.section(pt)
		}
		d.size += n
		p := d.pages[len(d.pages)-1]
		s := &p.Partitions[len(p.Partitions)-1]
		s.Entries = append(s.Entries, it)
	}
}

// section begins the section of a partition, in a new page if need be.
func (d *divider) section(pt *index.PagePartition) {
	n := len(pt.ID) + 48
	if len(d.pages) == 0 || d.size+n > d.limit {
		d.pages, d.size = append(d.pages, &index.Page{}), 0
	}
	d.size += n
	head := *pt
	head.Entries = nil
	p := d.pages[len(d.pages)-1]
	p.Partitions = append(p.Partitions, head)
}
