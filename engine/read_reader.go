package engine

import (
	"context"
	"sync"
	"weak"

	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

// Reader reads the values that one call asks for. A block that the call decoded it
// keeps for the values that are asked for next, and so the versions that a chain of
// patches led through: reading all versions of a series applies each patch once, in any
// order but one that jumps about. It keeps at most 16 MiB, or what the last two values
// take that it made if that is more, beside the caches of the store, whatever their size.
//
// After End, values may still be read. What they keep is the collector's to take then,
// but for that of the Reader used last, which the store holds: so whoever keeps
// values that were not read keeps no bytes of others.
//
// All methods but Ahead are safe for concurrent use.
type Reader struct {
	s         *Store
	revisions bool // it is asked for several versions of a series
	once      bool // it is asked for each value once
	ahead     ahead

	mu    sync.Mutex
	held  *recent              // until End
	after weak.Pointer[recent] // what was held, or was made since
}

// Reader returns one for a call that reads many values, several of the same series. The
// call ends it.
func (s *Store) Reader() *Reader { return &Reader{s: s, revisions: true, held: new(recent)} }

// onceReader returns a Reader for a call that reads each value once, to write it elsewhere.
// Of the log it keeps what patches lead to, and nothing for others.
func (s *Store) onceReader() *Reader {
	r := s.Reader()
	r.once = true
	return r
}

// readsOnce reports whether r is a onceReader. r may be nil.
func (r *Reader) readsOnce() bool { return r != nil && r.once }

// LateReader returns a Reader that is ended already, for single values that callers ask
// for when they like.
func (s *Store) LateReader() *Reader { return &Reader{s: s} }

// End says that the call is over.
func (r *Reader) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.held; s != nil {
		r.held, r.after = nil, weak.Make(s)
		r.s.lastRecent.Store(s)
	}
}

// Read is Store.ReadValue, with what this call keeps.
func (r *Reader) Read(ctx context.Context, fam *index.Family, ref index.Ref) ([]byte, error) {
	return r.readFor(ctx, fam, ref, true)
}

// ReadShared is Store.ReadShared.
func (r *Reader) ReadShared(ctx context.Context, fam *index.Family, ref index.Ref) ([]byte, error) {
	return r.readFor(ctx, fam, ref, false)
}

// readFor is Store.readFor.
func (r *Reader) readFor(ctx context.Context, fam *index.Family, ref index.Ref, own bool) ([]byte, error) {
	if err := r.s.Enter(); err != nil {
		return nil, err
	}
	defer r.s.Leave()
	return r.ReadWithin(ctx, fam, ref, own)
}

// ReadWithin does the work of Read for a call that is counted already.
func (r *Reader) ReadWithin(ctx context.Context, fam *index.Family, ref index.Ref, own bool) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !r.revisions {
		return r.s.read(ctx, r, fam, ref, own)
	}
	switch loc, ok := fam.Loc(ref); {
	case !ok:
	case loc.Patched():
		if v := r.view(fam, ref); v != nil {
			b := bytesOf(v, own)
			if sum, _ := v.Sum(); valueSum(b) == sum {
				return b, nil
			}
			r.keeping().forget()
		}
	case loc.InLog():
		b, ok := r.inLog(loc)
		if !ok && loc.Len <= smallLogValue {
			var err error
			b, err = r.small(loc)
			ok = err == nil
		}
		if ok && own {
			b = append([]byte{}, b...)
		}
		if ok {
			return b, nil
		}
	}
	// Whole in itself, moving, or damaged: what that means is said in one place.
	return r.s.read(ctx, r, fam, ref, own)
}

// readPlaced is ReadWithin for a value whose place the caller has just asked for, as it lies in
// memory.
func (r *Reader) readPlaced(ctx context.Context, fam *index.Family, v index.ValueLoc) ([]byte, error) {
	if !v.Loc.Patched() {
		if b, ok := r.inLog(v.Loc); ok {
			return b, ctx.Err()
		}
	}
	return r.ReadWithin(ctx, fam, v.Ref, false)
}

// bytesOf is the value, in a fresh slice if it is to be the caller's own.
func bytesOf(v *delta.Rope, own bool) []byte {
	if b, ok := v.Single(); ok && !own {
		return b
	}
	return v.Bytes()
}

// smallLogValue is the size of a value up to which it is kept when a listing read
// it from the log: a copy costs less than asking the kernel for so few bytes.
const smallLogValue = 1 << 10

// small reads a small value of the log, or has it. Others may hold it.
func (r *Reader) small(loc index.Loc) ([]byte, error) {
	if b, ok := r.s.keptInLog(r, loc); ok && valueSum(b) == loc.Sum {
		return b, nil
	}
	b, err := r.s.readAt(r, loc, false)
	if err == nil && !r.once {
		r.s.keepOfLog(r, loc, b)
	}
	return b, err
}

// view is the value as its patches say, not yet checked; nil if it is stored whole,
// or if the chain cannot be read just now.
func (r *Reader) view(fam *index.Family, ref index.Ref) *delta.Rope {
	s := r.keeping()
	s.resolving.Lock()
	defer s.resolving.Unlock()
	var buf [8]index.ValueLoc
	chain, at, ok := fam.ChainTo(ref, buf[:0], s.has)
	if !ok {
		return nil
	}
	var v *delta.Rope
	if at.Empty() {
		last := chain[len(chain)-1]
		b, err := r.s.readRoot(r, last.Loc, true)
		if err != nil {
			return nil
		}
		v, chain = delta.Whole(b), chain[:len(chain)-1]
		s.keepView(last.Ref, v, 0)
	} else if v = s.view(at); v == nil {
		return nil // forgotten between two looks
	}
	for i := len(chain) - 1; i >= 0; i-- {
		p, err := r.s.readPatch(r, chain[i].Loc)
		if err != nil {
			return nil
		}
		if v, err = p.On(v); err != nil {
			s.forget()
			return nil
		}
		r.s.resolved.Add(1)
		s.keepView(chain[i].Ref, v, p.Size())
	}
	if _, patched := v.Sum(); !patched {
		return nil // it moved, and is whole where it lies now
	}
	return v
}

// kept is the value at loc as the call keeps it, not checked. Others hold it. A nil
// Reader keeps nothing.
func (r *Reader) kept(loc index.Loc) ([]byte, bool) {
	s := r.had()
	if s == nil {
		return nil, false
	}
	b, ok := s.value(loc)
	if ok {
		r.s.cache.hits.Add(1)
	}
	return b, ok
}

// keep keeps the block that the value at loc was found in, for the call, if there is one,
// and reports whether it does.
func (r *Reader) keep(loc index.Loc, block []byte) bool {
	if r == nil || len(block) > recentLargest {
		return false
	}
	r.keeping().keep(loc, block)
	return true
}

// Size is how many bytes of decoded versions the call keeps.
func (r *Reader) Size() (n int) {
	kept := r.had()
	if kept == nil {
		return 0
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	for _, g := range []generation{kept.now, kept.then} {
		for _, v := range g.views {
			n += v.Size()
		}
	}
	return n
}

// had is what the call keeps; nil if it keeps nothing.
func (r *Reader) had() *recent {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		return r.held
	}
	return r.after.Value()
}

// keeping is what the call keeps, made if it kept nothing.
func (r *Reader) keeping() *recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		return r.held
	}
	s := r.after.Value()
	if s == nil {
		s = new(recent)
		r.after = weak.Make(s)
	}
	r.s.lastRecent.Store(s)
	return s
}
