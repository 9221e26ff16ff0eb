package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
)

// Part says where a page of a family's directory lies: in a segment, or in an
// image.
type Part struct {
	File   base.FileNum
	Off    uint64
	Len    uint32
	MinLSN base.LSN // records whose entries the page may hold
	MaxLSN base.LSN
}

// Family is a partition and its copies: the partitions that share stored values. It
// knows where each value lies. Values move; refs do not. "The life of a place" in
// engine.Store says who tells it, and when. All methods are safe for concurrent use.
type Family struct {
	ID uint64 // FamilyID of the record that began it; never used again

	used   atomic.Bool // one of its partitions was read since the evicter's last round
	spared uint32      // the evicter's round in which its partitions stay; guarded by the index's lock

	// Of families, and guarded by its lock.
	holds int
	weak  bool // a weak pointer leads to it

	mu     sync.RWMutex
	values places
}

// FamilyID names the n-th family that a record begins. Replay of the record gives the same
// names.
func FamilyID(lsn base.LSN, n int) uint64 { return uint64(lsn)<<16 | uint64(n&0xffff) }

// BornOf returns the record that began the family with an id.
func BornOf(id uint64) base.LSN { return base.LSN(id >> 16) }

// NewFamily is a family with no values.
func NewFamily(id uint64) *Family { return &Family{ID: id} }

// Loc returns where a value lies.
func (f *Family) Loc(r Ref) (Loc, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.values.get(r)
}

// Locs appends the places of the values to at; a zero Loc for a value without one.
func (f *Family) Locs(refs []Ref, at []Loc) []Loc {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, r := range refs {
		l, _ := f.values.get(r)
		at = append(at, l)
	}
	return at
}

// In appends the values that lie in one of the files to at, in the order of refs.
func (f *Family) In(files map[base.FileNum]bool, at []ValueLoc) []ValueLoc {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var last base.FileNum // most lie in the file that the one before lies in
	in := files[last]
	for i := range f.values {
		if v := &f.values[i]; v.Loc.File != last {
			last, in = v.Loc.File, files[v.Loc.File]
		}
		if in {
			at = append(at, f.values[i])
		}
	}
	return at
}

const (
	// MaxChain is how many patches, of one log or of one segment, may lead from a
	// value to one that is stored whole.
	MaxChain = 128
	// MaxSteps bounds the chain that a reader follows. It may be longer than MaxChain: a value that
	// only an old view shows stays in its file when its base moves from the log into a segment, where
	// the chain continues, and from one segment into the next.
	MaxSteps = 8 * MaxChain
)

// Chain appends the place of r to steps and, if r is a patch, the places of its base, of the base's
// base, and so on; the last is a value stored whole. All are read under one lock. If a place is not
// known, or there are more than MaxSteps, ok is false and missing is the value where the chain ends.
func (f *Family) Chain(r Ref, steps []ValueLoc) (chain []ValueLoc, missing Ref, ok bool) {
	return f.ChainTo(r, steps, nil)
}

// ChainTo is Chain, but ends before the first value that the caller has, and returns
// that as at; at is the zero Ref if the chain ends with a value stored whole. have,
// which may be nil, must not call the family.
func (f *Family) ChainTo(r Ref, steps []ValueLoc, have func(Ref) bool) (chain []ValueLoc, at Ref, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for range MaxSteps + 1 {
		if have != nil && have(r) {
			return steps, r, true
		}
		l, known := f.values.get(r)
		if !known {
			return steps, r, false
		}
		steps = append(steps, ValueLoc{Ref: r, Loc: l})
		if !l.Patched() {
			return steps, Ref{}, true
		}
		r = l.Base(r)
	}
	return steps, r, false
}

// Costs returns the values that cannot be read without r, in order, r among them.
func (f *Family) Costs(r Ref) []Ref {
	f.mu.RLock()
	defer f.mu.RUnlock()
	leads := map[Ref]bool{r: true} // whether a value's chain leads to r
	var path []Ref
	for i := range f.values {
		v := f.values[i].Ref
		path = path[:0]
		end := false
		for range MaxSteps + 1 {
			known := false
			if end, known = leads[v]; known {
				break
			}
			path = append(path, v)
			l, ok := f.values.get(v)
			if !ok || !l.Patched() {
				break
			}
			v = l.Base(v)
		}
		for _, p := range path {
			leads[p] = end
		}
	}
	var out []Ref
	for v, yes := range leads {
		if yes {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, Ref.Compare)
	return out
}

// Add records where new values lie.
func (f *Family) Add(values []ValueLoc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = f.values.update(values, func(Loc, Loc) bool { return true })
}

// AddMissing records places read from disk, but keeps those already known in files
// that last. lasts must not call the family.
func (f *Family) AddMissing(values []ValueLoc, lasts func(base.FileNum) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = f.values.update(values, func(old, now Loc) bool { return old.File != now.File && !lasts(old.File) })
}

// Move installs new places for values that lie in one of the files from, or that have no place yet.
func (f *Family) Move(values []ValueLoc, from map[base.FileNum]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = f.values.update(values, func(old, _ Loc) bool { return from[old.File] })
}

// Relocate gives values the places that place returns with true. It must not call
// the family.
func (f *Family) Relocate(place func(Ref, Loc) (Loc, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.values {
		v := &f.values[i]
		if to, ok := place(v.Ref, v.Loc); ok {
			v.Loc = to
		}
	}
}

// Forget drops the values that lie in one of the files.
func (f *Family) Forget(files map[base.FileNum]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = f.values.without(func(l Loc) bool { return files[l.File] })
}

// Values calls fn for every value and its place, in the order of refs. fn must not
// call the family.
func (f *Family) Values(fn func(Ref, Loc)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for i := range f.values {
		fn(f.values[i].Ref, f.values[i].Loc)
	}
}
