package index

import (
	"slices"
	"sync"

	"github.com/stele-go/stele/internal/base"
)

// Part says where a page of a family's directory lies: in a segment, or in an
// image.
type Part struct {
	File   base.FileNum
	Off    uint64
	Len    uint32
	MinLSN base.LSN // records whose items the page may hold
	MaxLSN base.LSN
}

// Family is a thread and its copies: the threads that share stored values. It
// knows where each value lies. Values move; refs do not. All methods are safe
// for concurrent use.
type Family struct {
	ID uint64 // LSN of the record that began it; never used again

	mu     sync.RWMutex
	values map[Ref]Loc
	parts  []Part
	past   []pastParts // newest last; only while views are open
}

// pastParts are the pages that views of epochs before until see: what a
// compaction drops from the newest pages is still in the older ones.
type pastParts struct {
	until uint64
	parts []Part
}

// NewFamily is a family with no values.
func NewFamily(id uint64) *Family {
	return &Family{ID: id, values: map[Ref]Loc{}}
}

// Loc returns where a value lies.
func (f *Family) Loc(r Ref) (Loc, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	l, ok := f.values[r]
	return l, ok
}

const (
	// MaxChain is how many patches, of one log or of one segment, may lead from a
	// value to one that is stored whole.
	MaxChain = 64
	// MaxSteps bounds a chain as a reader meets it. A value that only an old view
	// shows stays where it was when what it is made of moves: from the log into a
	// segment, whose patches lead on, and from one segment into the next.
	MaxSteps = 16 * MaxChain
)

// Chain appends to steps the place of r, and if that is a patch the places of its
// base, of that one's base, and so on; the last is a value stored whole. All are
// of one moment. If one is not known, or there are more than MaxSteps, ok is false
// and missing is the value where it ends.
func (f *Family) Chain(r Ref, steps []ValueLoc) (chain []ValueLoc, missing Ref, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for range MaxSteps + 1 {
		l, known := f.values[r]
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
	for v := range f.values {
		path = path[:0]
		end := false
		for range MaxSteps + 1 {
			known := false
			if end, known = leads[v]; known {
				break
			}
			path = append(path, v)
			l, ok := f.values[v]
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

// Locs fills locs with the places of refs under one lock; a place that is not
// known stays zero.
func (f *Family) Locs(refs []Ref, locs []Loc) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for i, r := range refs {
		locs[i] = f.values[r]
	}
}

// Add records where new values lie.
func (f *Family) Add(refs []Ref, locs []Loc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range refs {
		f.values[r] = locs[i]
	}
}

// AddMissing records places read from disk, but keeps those already known: what
// is in memory is newer than any page.
func (f *Family) AddMissing(refs []Ref, locs []Loc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range refs {
		if _, ok := f.values[r]; !ok {
			f.values[r] = locs[i]
		}
	}
}

// Move installs new places for values that still lie in one of the files from.
// It reports how many moved.
func (f *Family) Move(refs []Ref, locs []Loc, from map[base.FileNum]bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	moved := 0
	for i, r := range refs {
		if old, ok := f.values[r]; ok && from[old.File] {
			f.values[r] = locs[i]
			moved++
		}
	}
	return moved
}

// Forget drops the values that lie in one of the files and are not in keep.
func (f *Family) Forget(files map[base.FileNum]bool, keep map[Ref]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r, l := range f.values {
		if files[l.File] && !keep[r] {
			delete(f.values, r)
		}
	}
}

// Values calls fn for every value and its place. fn must not call the family.
func (f *Family) Values(fn func(Ref, Loc)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for r, l := range f.values {
		fn(r, l)
	}
}

// Now asks PartsAt for the newest pages.
const Now = ^uint64(0)

// Parts returns where the family's pages lie. The result must not be changed.
func (f *Family) Parts() []Part { return f.PartsAt(Now) }

// PartsAt returns where the pages lay for a view of the given epoch. The result
// must not be changed.
func (f *Family) PartsAt(epoch uint64) []Part {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, p := range f.past {
		if epoch < p.until {
			return p.parts
		}
	}
	return f.parts
}

// SetParts replaces the pages from epoch on. Views of earlier epochs keep the old
// ones; oldest is the epoch of the oldest open view, or Now if there is none.
func (f *Family) SetParts(epoch, oldest uint64, parts []Part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past = slices.DeleteFunc(f.past, func(p pastParts) bool { return p.until <= oldest })
	if oldest < epoch {
		f.past = append(f.past, pastParts{until: epoch, parts: f.parts})
	}
	f.parts = parts
}
