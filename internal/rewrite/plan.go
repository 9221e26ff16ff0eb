package rewrite

import (
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/storage"
)

// Plan is what a flush or compaction does with the values of one family:
// which move, in which order, and which of them are read often.
type Plan struct {
	Hot     []index.Ref
	newest  map[string]index.Ref // of the heads: the last of each series
	History []oldValue
}

// refs are the values that move.
func (p *Plan) refs() []index.Ref {
	refs := slices.Clone(p.Hot)
	for i := range p.History {
		refs = append(refs, p.History[i].ref)
	}
	return refs
}

// Add selects the values that the items of a page refer to as well.
func (p *Plan) Add(fam *index.Family, page *index.Page, from map[base.FileNum]bool) {
	taken := map[index.Ref]bool{}
	for _, r := range p.Hot {
		taken[r] = true
	}
	for _, o := range p.History {
		taken[o.ref] = true
	}
	for _, pt := range page.Partitions {
		for _, it := range pt.Items {
			for _, r := range it.Slots.Refs() {
				if r.Empty() || taken[r] {
					continue
				}
				taken[r] = true
				if loc, ok := fam.Loc(r); ok && from[loc.File] {
					p.History = append(p.History, oldValue{ref: r})
				}
			}
		}
	}
}

// NewPlan selects the values that live items refer to and that lie in one of the
// files from. Values of hot items come first, item by item; the others are
// ordered by series, newest first, so that versions of one channel lie
// together, what listings read before the rest.
func NewPlan(w *storage.Family, o *storage.Options, from map[base.FileNum]bool, first base.LSN) Plan {
	p := Plan{newest: map[string]index.Ref{}}
	room := planRooms.Get().(*planRoom)
	defer room.release()
	taken, rest, cold := room.taken, room.rest, room.cold
	take := func(r index.Ref) (loc index.Loc, ok bool) {
		if r.Empty() || taken[r] {
			return loc, false
		}
		taken[r] = true
		loc, ok = w.Fam.Loc(r)
		return loc, ok && from[loc.File]
	}
	// Most slots of an item refer to what the item before does.
	slots, before := room.slots, room.before
	next := func(it *index.Item) []index.Slot {
		slots, before = it.Slots.Append(before[:0], 0), slots
		return slots
	}
	takeSlot := func(n int) (loc index.Loc, ok bool) {
		if n < len(before) && before[n].Ref == slots[n].Ref {
			return loc, false
		}
		return take(slots[n].Ref)
	}
	for _, t := range w.Partitions {
		items := room.items[:0]
		t.Ascend("", func(it *index.Item) bool { items = append(items, it); return true })
		room.items = items
		for i, isHot := range o.Hot(items) {
			if items[i].LSN < first {
				continue
			}
			if !isHot {
				cold = append(cold, items[i])
				continue
			}
			for n, s := range next(items[i]) {
				if _, ok := takeSlot(n); ok {
					p.Hot = append(p.Hot, s.Ref)
					if series := o.Series(items[i], n, s.Name); series != "" && p.newest[series].Compare(s.Ref) < 0 {
						p.newest[series] = s.Ref
					}
				}
			}
		}
	}
	slots = slots[:0]
	for _, it := range cold {
		for n, s := range next(it) {
			if loc, ok := takeSlot(n); ok {
				rest = append(rest, namedValue{oldValue{o.Series(it, n, s.Name), s.Ref, o.Listed(it, n), loc.Patched()}, s.Name})
			}
		}
	}
	slices.SortFunc(rest, func(a, b namedValue) int {
		if a.listed != b.listed {
			if a.listed {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.series, b.series); c != 0 {
			return c
		}
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return b.ref.Compare(a.ref)
	})
	p.History = make([]oldValue, len(rest))
	for i := range rest {
		p.History[i] = rest[i].oldValue
	}
	room.rest, room.cold, room.slots, room.before = rest, cold, slots[:0], before[:0]
	return p
}

// planRoom is what NewPlan needs for a family and can use again for the next.
type planRoom struct {
	taken       map[index.Ref]bool
	items, cold []*index.Item
	rest        []namedValue
	slots       []index.Slot // of an item, and of the one before it
	before      []index.Slot
}

// namedValue is an oldValue and the name of its slot.
type namedValue struct {
	oldValue
	name string
}

var planRooms = sync.Pool{New: func() any { return &planRoom{taken: map[index.Ref]bool{}} }}

// keptValues is the number of values up to which the room of a family is kept.
const keptValues = 4 << 10

// release gives the room back, without what it holds of the family.
func (r *planRoom) release() {
	if max(len(r.taken), len(r.items)) > keptValues {
		return
	}
	clear(r.taken)
	clear(r.items[:cap(r.items)]) // a longer partition may have come before
	clear(r.cold)
	clear(r.rest)
	clear(r.slots[:cap(r.slots)])
	clear(r.before[:cap(r.before)])
	*r = planRoom{r.taken, r.items[:0], r.cold[:0], r.rest[:0], r.slots[:0], r.before[:0]}
	planRooms.Put(r)
}
