package rewrite

import (
	"cmp"
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
	taken, cold, old := room.taken, room.cold, &room.old
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
				old.add(n, groupKey{o.Series(it, n, s.Name), s.Name, o.Listed(it, n)}, s.Ref, loc.Patched())
			}
		}
	}
	p.History = old.sorted()
	room.cold, room.slots, room.before = cold, slots[:0], before[:0]
	return p
}

// oldValues puts the values that are not read often in order.
type oldValues struct {
	values []groupedValue
	groups []valueGroup
	number map[groupKey]int // of groups
	bySlot []int            // the group that each slot of an item had last: it has it again, as a rule
	order  []int            // of groups
}

type groupedValue struct {
	ref     index.Ref
	group   int
	patched bool
}

// groupKey is what values have in common that lie together.
type groupKey struct {
	series, name string
	listed       bool // see Options.Listed
}

// valueGroup is n values that have one key, and where they lie among all.
type valueGroup struct {
	groupKey
	from, n int
}

// add adds a value of the n-th slot of an item.
func (o *oldValues) add(n int, key groupKey, r index.Ref, patched bool) {
	for len(o.bySlot) <= n {
		o.bySlot = append(o.bySlot, 0)
	}
	at := o.bySlot[n]
	if at >= len(o.groups) || o.groups[at].groupKey != key {
		var ok bool
		if at, ok = o.number[key]; !ok {
			at = len(o.groups)
			o.number[key] = at
			o.groups = append(o.groups, valueGroup{groupKey: key})
		}
		o.bySlot[n] = at
	}
	o.groups[at].n++
	o.values = append(o.values, groupedValue{r, at, patched})
}

// compare orders groups: what listings read before the rest, then by series and by name.
func (k groupKey) compare(o groupKey) int {
	if k.listed != o.listed {
		if k.listed {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(k.series, o.series), strings.Compare(k.name, o.name))
}

// sorted are the values by group, in each the newest first.
func (o *oldValues) sorted() []oldValue {
	o.order = o.order[:0]
	for i := range o.groups {
		o.order = append(o.order, i)
	}
	slices.SortFunc(o.order, func(a, b int) int { return o.groups[a].compare(o.groups[b].groupKey) })
	end := 0
	for _, i := range o.order {
		end += o.groups[i].n
		o.groups[i].from = end
	}
	out := make([]oldValue, len(o.values))
	for i := range o.values { // they came the oldest first, or nearly
		v := &o.values[i]
		g := &o.groups[v.group]
		g.from--
		out[g.from] = oldValue{g.series, v.ref, g.listed, v.patched}
	}
	newestFirst := func(a, b oldValue) int { return b.ref.Compare(a.ref) }
	for i := range o.groups {
		g := &o.groups[i]
		if part := out[g.from : g.from+g.n]; !slices.IsSortedFunc(part, newestFirst) {
			slices.SortFunc(part, newestFirst)
		}
	}
	return out
}

// forget drops what it holds, but for memory.
func (o *oldValues) forget() {
	clear(o.groups)
	clear(o.number)
	*o = oldValues{o.values[:0], o.groups[:0], o.number, o.bySlot[:0], o.order}
}

// planRoom is what NewPlan needs for a family and can use again for the next.
type planRoom struct {
	taken       map[index.Ref]bool
	items, cold []*index.Item
	old         oldValues
	slots       []index.Slot // of an item, and of the one before it
	before      []index.Slot
}

var planRooms = sync.Pool{New: func() any { return &planRoom{taken: map[index.Ref]bool{}, old: oldValues{number: map[groupKey]int{}}} }}

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
	r.old.forget()
	clear(r.slots[:cap(r.slots)])
	clear(r.before[:cap(r.before)])
	*r = planRoom{r.taken, r.items[:0], r.cold[:0], r.old, r.slots[:0], r.before[:0]}
	planRooms.Put(r)
}
