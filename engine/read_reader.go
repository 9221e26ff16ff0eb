package engine

import (
	"context"
	"sync"
	"weak"

	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

// Reader reads the values of one call. It keeps the blocks that it decoded, and the versions that
// chains of patches led through, for the next values of the call: so reading all versions of a series
// applies each patch once, unless the order jumps about. It keeps at most 16 MiB, or the last two
// values that it made if they are larger, beside the caches of the store, whatever their size. After
// End, values may still be read. What the Reader keeps may then be garbage collected, except for the
// Reader used last, which the store holds. So a caller that keeps values it has not read yet keeps no
// bytes of others in memory.
//
// All methods but Ahead are safe for concurrent use.
type Reader struct {
	s         *Store
	revisions bool // the call reads several versions of a series
	once      bool // the call reads each value once
	ahead     ahead

	mu    sync.Mutex
	held  *recent              // until End
	after weak.Pointer[recent] // what was held, or was made since
}

// Reader returns a Reader for a call that reads many values, several of the same series. The call must
// call End.
func (s *Store) Reader() *Reader { return &Reader{s: s, revisions: true, held: new(recent)} }

// onceReader returns a Reader for a call that reads each value once, to write it elsewhere. Of the log
// it keeps only the bases of patches, and it adds nothing of the log to the store's cache.
func (s *Store) onceReader() *Reader {
	r := s.Reader()
	r.once = true
	return r
}

// readsOnce reports whether r is a onceReader. r may be nil.
func (r *Reader) readsOnce() bool { return r != nil && r.once }

// LateReader returns a Reader that is ended already, for single values that are read at any time.
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

// Read is Store.ReadValue, using what the Reader keeps.
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
	// The value is stored whole, or moving, or damaged: read handles all three.
	return r.s.read(ctx, r, fam, ref, own)
}

// readPlaced is ReadWithin for a value whose place the caller has just looked up. The bytes may be
// shared.
func (r *Reader) readPlaced(ctx context.Context, fam *index.Family, v index.ValueLoc) ([]byte, error) {
	if !v.Loc.Patched() {
		if b, ok := r.inLog(v.Loc); ok {
			return b, ctx.Err()
		}
	}
	return r.ReadWithin(ctx, fam, v.Ref, false)
}

// bytesOf returns the bytes of a value, in a fresh slice if own.
func bytesOf(v *delta.Rope, own bool) []byte {
	if b, ok := v.Single(); ok && !own {
		return b
	}
	return v.Bytes()
}

// smallLogValue is the size of a value up to which it is kept when a listing read
// it from the log: a copy costs less than asking the kernel for so few bytes.
const smallLogValue = 1 << 10

// small returns a small value of the log, kept or read. Others may hold it.
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

// view returns the value made of its patches, not yet checked; nil if it is stored whole, or if the
// chain cannot be read now.
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
		return nil // forgotten since the last lookup
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
		return nil // it moved, and is stored whole now
	}
	return v
}

// kept returns the value at loc if the call keeps it, not checked. Others hold it. A nil Reader keeps
// nothing.
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

// keep keeps the block with the value at loc for the rest of the call, and reports whether it does.
func (r *Reader) keep(loc index.Loc, block []byte) bool {
	if r == nil || len(block) > recentLargest {
		return false
	}
	r.keeping().keep(loc, block)
	return true
}

// Size returns how many bytes of decoded versions the call keeps.
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

// had returns what the call keeps; nil if it keeps nothing.
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

// keeping returns what the call keeps, and makes it if there is none.
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
