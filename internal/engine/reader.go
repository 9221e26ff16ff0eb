package engine

import (
	"context"
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/delta"
)

// readerKeeps is how many bytes a Reader keeps in each of its two generations,
// about, the values of the chain it resolved last aside.
const readerKeeps = 1 << 20

// Reader reads values of one family that resemble each other, as a listing does:
// what a chain of patches leads through is kept for the values that are asked for
// next. So reading all versions of a line applies each patch once, in any order but
// one that jumps about. What it keeps is bounded, and goes with the Reader.
//
// All methods are safe for concurrent use.
type Reader struct {
	e   *Engine
	fam *index.Family

	mu        sync.Mutex
	now, then map[index.Ref]*delta.View // generations: then is what now was
	size      int                       // of now
}

// Reader returns one for a family. It needs not be closed.
func (e *Engine) Reader(fam *index.Family) *Reader { return &Reader{e: e, fam: fam} }

// Family is what the Reader reads of.
func (r *Reader) Family() *index.Family { return r.fam }

// Read is ReadValue.
func (r *Reader) Read(ctx context.Context, ref index.Ref) ([]byte, error) {
	return r.read(ctx, ref, true)
}

// ReadShared is Engine.ReadShared.
func (r *Reader) ReadShared(ctx context.Context, ref index.Ref) ([]byte, error) {
	return r.read(ctx, ref, false)
}

func (r *Reader) read(ctx context.Context, ref index.Ref, own bool) ([]byte, error) {
	if err := r.e.enter(); err != nil {
		return nil, err
	}
	defer r.e.leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if loc, ok := r.fam.Loc(ref); ok && loc.InLog() && loc.Len <= smallLogValue && !loc.Patched() {
		if b, err := r.small(loc); err == nil {
			if own {
				b = append([]byte{}, b...)
			}
			return b, nil
		}
	} else if v := r.view(ref); v != nil {
		b := bytesOf(v, own)
		if sum, _ := v.Sum(); valueSum(b) == sum {
			return b, nil
		}
		r.forget()
	}
	// Whole in itself, moving, or damaged: what that means is said in one place.
	return r.e.read(ctx, r.fam, ref, own)
}

// bytesOf is the value, in a fresh slice if it is to be the caller's own.
func bytesOf(v *delta.View, own bool) []byte {
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
	if b, ok := r.e.cache.get(logKey(loc)); ok {
		return b, nil
	}
	b, err := r.e.readAt(loc, false)
	if err == nil {
		r.e.cache.add(logKey(loc), b)
	}
	return b, err
}

// view is the value as its patches say, not yet checked; nil if it is stored whole,
// or if the chain cannot be read just now.
func (r *Reader) view(ref index.Ref) *delta.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	var buf [8]index.ValueLoc
	chain, at, ok := r.fam.ChainTo(ref, buf[:0], r.has)
	if !ok {
		return nil
	}
	if len(chain) == 0 {
		v := r.get(at)
		if _, patched := v.Sum(); !patched {
			return nil
		}
		return v
	}
	if !chain[0].Loc.Patched() {
		return nil
	}
	var v *delta.View
	if at.Empty() {
		last := chain[len(chain)-1]
		b, err := r.e.readRoot(last.Loc)
		if err != nil {
			return nil
		}
		v, chain = delta.Whole(b), chain[:len(chain)-1]
		r.keep(last.Ref, v)
	} else {
		v = r.get(at)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		p, err := r.e.readPatch(chain[i].Loc)
		if err != nil {
			return nil
		}
		if v, err = p.On(v); err != nil {
			r.drop()
			return nil
		}
		r.e.resolved.Add(1)
		r.keep(chain[i].Ref, v)
	}
	return v
}

func (r *Reader) has(ref index.Ref) bool { return r.now[ref] != nil || r.then[ref] != nil }

// get is a view that is kept, and will be for as long as a new one.
func (r *Reader) get(ref index.Ref) *delta.View {
	v := r.now[ref]
	if v == nil {
		v = r.then[ref]
		r.keep(ref, v)
	}
	return v
}

func (r *Reader) keep(ref index.Ref, v *delta.View) {
	if r.size > readerKeeps || r.now == nil {
		r.then, r.now, r.size = r.now, map[index.Ref]*delta.View{}, 0
	}
	r.now[ref] = v
	r.size += v.Size()
}

func (r *Reader) drop() { r.now, r.then, r.size = nil, nil, 0 }

// forget drops what is kept: something in it is not what it should be.
func (r *Reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}
