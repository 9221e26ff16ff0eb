package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// rewritePlan says which values of a family a flush or compaction moves, in which order, and which of
// them are read often.
type rewritePlan struct {
	values  []index.ValueLoc // those that move, and where they lie, in the order of refs
	hot     []int            // of values
	newest  map[string]int   // of the heads: the last of each series, in values
	history []oldValue
}

// newPlan selects the values that live entries refer to, and those of also, which may be nil, and
// that lie in one of the files from. Values of hot entries come first, entry by entry; the others are
// ordered by series, newest first, so that versions of one channel lie
// together, what listings read before the rest.
func newPlan(w *Family, o *Options, from map[base.FileNum]bool, first base.LSN, also *index.Page) rewritePlan {
	room := planRooms.Get().(*planRoom)
	room.places = w.Fam.In(from, room.places)
	if len(room.places) == 0 { // as in most partitions of one entry
		planRooms.Put(room)
		return rewritePlan{}
	}
	defer room.release()
	room.taken, room.next = slices.Grow(room.taken, len(room.places))[:len(room.places)], 0
	p := rewritePlan{newest: map[string]int{}}
	cold, old := room.cold, &room.old
	// Most slots of an entry refer to what the entry before does.
	slots, before := room.slots, room.before
	next := func(it *index.Entry) []index.Slot {
		slots, before = it.Slots.Append(before[:0], 0), slots
		return slots
	}
	takeSlot := func(n int) (at int, ok bool) {
		if n < len(before) && before[n].Ref == slots[n].Ref {
			return 0, false
		}
		return room.take(slots[n].Ref)
	}
	for _, t := range w.Partitions {
		entries := room.entries[:0]
		t.Ascend("", func(it *index.Entry) bool { entries = append(entries, it); return true })
		room.entries = entries
		for i, isHot := range o.Hot(entries) {
			if entries[i].LSN < first {
				continue
			}
			if !isHot {
				cold = append(cold, entries[i])
				continue
			}
			for n, s := range next(entries[i]) {
				if at, ok := takeSlot(n); ok {
					p.hot = append(p.hot, at)
					if series := o.Series(entries[i], n, s.Name); series != "" {
						p.newest[series] = max(at, p.newest[series])
					}
				}
			}
		}
	}
	slots = slots[:0]
	for _, it := range cold {
		for n, s := range next(it) {
			if at, ok := takeSlot(n); ok {
				old.add(n, groupKey{o.Series(it, n, s.Name), s.Name, o.Listed(it, n)}, at)
			}
		}
	}
	p.history = old.sorted()
	if also != nil {
		room.takeAll(also, &p)
	}
	p.number(room)
	room.cold, room.slots, room.before = cold, slots[:0], before[:0]
	return p
}

// take selects a value if it is in one of the files and was not selected before.
func (r *planRoom) take(ref index.Ref) (at int, ok bool) {
	if ref.Empty() {
		return 0, false
	}
	at, ok = index.FindValue(r.places, ref, r.next) // an entry's own values follow each other
	if !ok || r.taken[at] {
		return 0, false
	}
	r.taken[at], r.next = true, at+1
	return at, true
}

// takeAll also selects the values that the entries of a page refer to.
func (r *planRoom) takeAll(page *index.Page, p *rewritePlan) {
	for _, pt := range page.Partitions {
		for _, it := range pt.Entries {
			for _, ref := range it.Slots.Refs() {
				if at, ok := r.take(ref); ok {
					p.history = append(p.history, oldValue{at: at})
				}
			}
		}
	}
}

// number moves the selected values to the plan, and renumbers them.
func (p *rewritePlan) number(r *planRoom) {
	p.values = make([]index.ValueLoc, 0, len(p.hot)+len(p.history))
	numbers := slices.Grow(r.numbers, len(r.places))[:len(r.places)]
	r.numbers = numbers
	for i, taken := range r.taken {
		if taken {
			numbers[i] = len(p.values)
			p.values = append(p.values, r.places[i])
		}
	}
	for i, at := range p.hot {
		p.hot[i] = numbers[at]
	}
	for i := range p.history {
		p.history[i].at = numbers[p.history[i].at]
	}
	for series, at := range p.newest {
		p.newest[series] = numbers[at]
	}
}

// oldValues puts the values that are not read often in order.
type oldValues struct {
	values []groupedValue
	groups []valueGroup
	number map[groupKey]int // of groups
	bySlot []int            // the group that each slot of an entry had last: it has it again, as a rule
	order  []int            // of groups
}

type groupedValue struct {
	at    int // as oldValue has it
	group int
}

// groupKey is the key of values that are written side by side.
type groupKey struct {
	series, name string
	listed       bool // see Options.Listed
}

// valueGroup is n values with one key, and their place among all.
type valueGroup struct {
	groupKey
	from, n int
}

// add adds a value of the n-th slot of an entry.
func (o *oldValues) add(n int, key groupKey, value int) {
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
	o.values = append(o.values, groupedValue{value, at})
}

// compare orders groups: those that listings read come first, then by series and by name.
func (k groupKey) compare(o groupKey) int {
	if k.listed != o.listed {
		if k.listed {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(k.series, o.series), strings.Compare(k.name, o.name))
}

// sorted returns the values by group, the newest first in each.
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
		out[g.from] = oldValue{g.series, v.at, g.listed}
	}
	newestFirst := func(a, b oldValue) int { return b.at - a.at }
	for i := range o.groups {
		g := &o.groups[i]
		if part := out[g.from : g.from+g.n]; !slices.IsSortedFunc(part, newestFirst) {
			slices.SortFunc(part, newestFirst)
		}
	}
	return out
}

// forget drops the values and keeps the memory.
func (o *oldValues) forget() {
	clear(o.groups)
	clear(o.number)
	*o = oldValues{o.values[:0], o.groups[:0], o.number, o.bySlot[:0], o.order}
}

// planRoom has the buffers of newPlan, which are reused for the next family.
type planRoom struct {
	places        []index.ValueLoc // of the values that may move, in the order of refs
	taken         []bool           // of places: it moves
	next          int              // of places: behind what was taken last
	numbers       []int            // of places
	entries, cold []*index.Entry
	old           oldValues
	slots         []index.Slot // of an entry, and of the one before it
	before        []index.Slot
}

var planRooms = sync.Pool{New: func() any { return &planRoom{old: oldValues{number: map[groupKey]int{}}} }}

// livingValues is the number of values of a family up to which its buffers are reused.
const livingValues = 4 << 10

// release gives the buffers back, cleared of the family.
func (r *planRoom) release() {
	if max(len(r.places), len(r.entries)) > livingValues {
		return
	}
	clear(r.taken)
	clear(r.entries[:cap(r.entries)]) // a longer partition may have come before
	clear(r.cold)
	r.old.forget()
	clear(r.slots[:cap(r.slots)])
	clear(r.before[:cap(r.before)])
	*r = planRoom{places: r.places[:0], taken: r.taken[:0], numbers: r.numbers[:0], entries: r.entries[:0], cold: r.cold[:0], old: r.old,
		slots: r.slots[:0], before: r.before[:0]}
	planRooms.Put(r)
}
