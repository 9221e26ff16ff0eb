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
	values map[Ref]Loc // nil: none
}

// NewFamily is a family with no values.
func NewFamily(id uint64) *Family { return &Family{ID: id} }

// room makes values a map that n more can be added to.
func (f *Family) room(n int) {
	if f.values == nil && n > 0 {
		f.values = make(map[Ref]Loc, n)
	}
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

// Add records where new values lie.
func (f *Family) Add(refs []Ref, locs []Loc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room(len(refs))
	for i, r := range refs {
		f.values[r] = locs[i]
	}
}

// AddMissing records places read from disk, but keeps those already known in files
// that last: what is in memory is newer than any page, unless the page of an older
// view told it. lasts must not call the family.
func (f *Family) AddMissing(refs []Ref, locs []Loc, lasts func(base.FileNum) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room(len(refs))
	for i, r := range refs {
		if old, ok := f.values[r]; !ok || old.File != locs[i].File && !lasts(old.File) {
			f.values[r] = locs[i]
		}
	}
}

// Move installs new places for values that lie in one of the files from, or of which
// nothing is known yet: somebody may just be reading an old page.
func (f *Family) Move(refs []Ref, locs []Loc, from map[base.FileNum]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room(len(refs))
	for i, r := range refs {
		if old, ok := f.values[r]; !ok || from[old.File] {
			f.values[r] = locs[i]
		}
	}
}

// Relocate gives values the places that place returns with true. It must not call
// the family.
func (f *Family) Relocate(place func(Ref, Loc) (Loc, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r, l := range f.values {
		if to, ok := place(r, l); ok {
			f.values[r] = to
		}
	}
}

// Forget drops the values that lie in one of the files.
func (f *Family) Forget(files map[base.FileNum]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r, l := range f.values {
		if files[l.File] {
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
