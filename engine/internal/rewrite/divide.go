package rewrite

import (
	"github.com/stele-go/stele/index"
)

// familyPart is what one segment gets of a family.
type familyPart struct {
	plan Plan
	page *index.Page
}

// divide splits a family whose directory would be larger than limit, by items; each
// part has the values its items are the first to refer to, the last one also those
// that none does. A family of usual size is one part.
func divide(p Plan, page *index.Page, limit int) []familyPart {
	d := Divider{Limit: limit}
	for i := range page.Partitions {
		d.Partition(&page.Partitions[i])
	}
	if len(d.Pages) < 2 {
		return []familyPart{{p, page}}
	}
	of := map[index.Ref]int{} // the part a value goes to
	for n, pg := range d.Pages {
		for _, pt := range pg.Partitions {
			for _, it := range pt.Items {
				for _, r := range it.Slots.Refs() {
					if _, ok := of[r]; !ok {
						of[r] = n
					}
				}
			}
		}
	}
	parts := make([]familyPart, len(d.Pages))
	for i, pg := range d.Pages {
		parts[i] = familyPart{Plan{values: p.values, newest: map[string]int{}}, pg}
	}
	part := func(at int) *Plan {
		if n, ok := of[p.values[at].Ref]; ok {
			return &parts[n].plan
		}
		return &parts[len(parts)-1].plan
	}
	for _, at := range p.Hot {
		to := part(at)
		to.Hot = append(to.Hot, at)
	}
	for series, at := range p.newest {
		part(at).newest[series] = at
	}
	for _, o := range p.History {
		to := part(o.at)
		to.History = append(to.History, o)
	}
	return parts
}

// PlaceSize is what the place of a value takes at most, or little more.
const PlaceSize = 64

// Divider packs the items of a page into pages.
type Divider struct {
	Limit int
	size  int // of the last page with its rows of the value table, about
	Pages []*index.Page
}

// Partition adds the section of a partition, item by item.
func (d *Divider) Partition(pt *index.PagePartition) {
	d.section(pt)
	for _, it := range pt.Items {
		n := len(it.Key) + 32
		for _, s := range it.Slots.All() {
			n += len(s.Name)/8 + len(s.Tag) + PlaceSize
		}
		if d.size+n > d.Limit && d.size > 0 {
			d.size = d.Limit
			d.section(pt)
		}
		d.size += n
		p := d.Pages[len(d.Pages)-1]
		s := &p.Partitions[len(p.Partitions)-1]
		s.Items = append(s.Items, it)
	}
}

// section begins the section of a partition, in a new page if need be.
func (d *Divider) section(pt *index.PagePartition) {
	n := len(pt.ID) + 48
	if len(d.Pages) == 0 || d.size+n > d.Limit {
		d.Pages, d.size = append(d.Pages, &index.Page{}), 0
	}
	d.size += n
	head := *pt
	head.Items = nil
	p := d.Pages[len(d.Pages)-1]
	p.Partitions = append(p.Partitions, head)
}
