package index

import (
	"cmp"
	"slices"
)

// places are values and where they lie, in the order of refs. A map would take twice the memory, and be
// the largest part of a small family. New values have the greatest refs and are appended; others come
// many at a time, and are merged.
type places []ValueLoc

// FindValue is the index of r in values, which are in the order of refs; hint is where it may be.
func FindValue(values []ValueLoc, r Ref, hint int) (i int, ok bool) {
	if hint < len(values) && values[hint].Ref == r {
		return hint, true
	}
	return places(values).find(r)
}

// find returns the index of r, or the index where it would be inserted.
func (p places) find(r Ref) (i int, ok bool) {
	lo, hi := 0, len(p)
	if hi > 0 && p[hi-1].Ref.before(r) {
		return hi, false
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if p[mid].Ref.before(r) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(p) && p[lo].Ref == r
}

func (p places) get(r Ref) (Loc, bool) {
	i, ok := p.find(r)
	if !ok {
		return Loc{}, false
	}
	return p[i].Loc, true
}

// update adds the places in from. A known place is replaced only if replace returns true; the same
// holds between equal refs in from. from is neither changed nor kept.
func (p places) update(from []ValueLoc, replace func(old, now Loc) bool) places {
	if p.ends(from) {
		return append(p, from...)
	}
	if !slices.IsSortedFunc(from, byRef) {
		from = slices.Clone(from)
		slices.SortStableFunc(from, byRef)
	}
	var fresh places
	for i, v := range from {
		if k := len(fresh); k > 0 && fresh[k-1].Ref == v.Ref {
			if replace(fresh[k-1].Loc, v.Loc) {
				fresh[k-1].Loc = v.Loc
			}
		} else if at, ok := p.find(v.Ref); !ok {
			if fresh == nil {
				fresh = make(places, 0, len(from)-i)
			}
			fresh = append(fresh, v)
		} else if replace(p[at].Loc, v.Loc) {
			p[at].Loc = v.Loc
		}
	}
	return p.merge(fresh)
}

// ends reports whether from can be appended to p: it is ascending, and greater than p. The values of a
// commit are.
func (p places) ends(from []ValueLoc) bool {
	last := Ref{}
	if len(p) > 0 {
		last = p[len(p)-1].Ref
	}
	for i := range from {
		if !last.before(from[i].Ref) {
			return false
		}
		last = from[i].Ref
	}
	return true
}

// merge adds values that p does not have, in the order of refs. It may keep them.
func (p places) merge(fresh places) places {
	switch {
	case len(fresh) == 0:
		return p
	case len(p) == 0:
		return fresh
	}
	n := len(p)
	p = append(p, fresh...)
	if p[n-1].Ref.before(fresh[0].Ref) {
		return p
	}
	// Merge from the back, where there is room; the rest of p is already in place.
	for i, j, to := n-1, len(fresh)-1, len(p)-1; j >= 0; to-- {
		if i >= 0 && fresh[j].Ref.before(p[i].Ref) {
			p[to], i = p[i], i-1
		} else {
			p[to], j = fresh[j], j-1
		}
	}
	return p
}

// without returns p without the places that drop selects. It frees memory if most are dropped.
func (p places) without(drop func(Loc) bool) places {
	p = slices.DeleteFunc(p, func(v ValueLoc) bool { return drop(v.Loc) })
	if len(p) < cap(p)/2 {
		return slices.Clone(p)
	}
	return p
}

func byRef(a, b ValueLoc) int { return a.Ref.Compare(b.Ref) }

// before reports whether r is less than o in the order of Compare.
func (r Ref) before(o Ref) bool { return r.LSN < o.LSN || r.LSN == o.LSN && r.Ord < o.Ord }

// Compare orders refs by record, then ordinal.
func (r Ref) Compare(o Ref) int {
	if c := cmp.Compare(r.LSN, o.LSN); c != 0 {
		return c
	}
	return cmp.Compare(r.Ord, o.Ord)
}
