package engine

import (
	"slices"
	"sync"

	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

const (
	// recentBytes bounds each of the two generations of what a call keeps.
	recentBytes = 8 << 20
	// recentLargest is the largest block that is kept. A larger one holds one value.
	recentLargest = recentBytes / 4
	// recentEntry is about what an entry takes besides its bytes.
	recentEntry = 128

	// partBytes, or partValues times a value if that is more, are kept of a block that a
	// call has to decode again: half of it before the value and half behind, as a series
	// lies there newest first, and records oldest first.
	partBytes  = 128 << 10
	partValues = 32
	// maxDecoded is how many blocks are remembered as decoded.
	maxDecoded = 1 << 14
)

// recent is what the reads of one call decoded last: blocks of segments, values of the log, and
// versions that patches led through. The cache of the store may be too small for a block, or have none;
// without this, a call would then decode the block again for each value in it. What is read goes to the
// generation `now`. When it is full, it becomes `then`, and the old `then` is forgotten. What is used
// again moves to `now`. So at least the last recentBytes are kept, and at most twice as many. A call
// may alternate between more blocks than fit, as a listing of many partitions does. So of a large block
// that comes from `then`, or has to be decoded again, only the values around the one wanted are kept:
// there is room for a part of each block.
//
// All methods are safe for concurrent use.
type recent struct {
	resolving sync.Mutex // held while versions are made, so that nobody makes one twice

	mu        sync.Mutex // guards the rest
	now, then generation
	decoded   map[blockKey]bool // blocks larger than a part
}

type generation struct {
	blocks map[blockKey][]blockPart // of a block whole, or parts: a call may stand at several places of it
	views  map[index.Ref]*delta.Rope
	size   int // bytes that are in memory because of this generation, at most
}

// blockPart has consecutive bytes of a block. A value of the log counts as a whole block.
type blockPart struct {
	from  uint64
	bytes []byte
}

// cut returns the value at loc, not checked; ok is false if it is not in the part.
func (p blockPart) cut(loc index.Loc) (b []byte, ok bool) {
	at := uint64(loc.Inner)
	if loc.InLog() {
		at = 0
	}
	if end := at + uint64(loc.Len); at >= p.from && end <= p.from+uint64(len(p.bytes)) {
		return p.bytes[at-p.from : end-p.from : end-p.from], true
	}
	return nil, false
}

// around returns a part with the value at loc and those next to it: p itself if it is no larger, or
// else a copy.
func (p blockPart) around(loc index.Loc) blockPart {
	n := max(partBytes, partValues*int(loc.Len))
	if loc.InLog() || n >= len(p.bytes) {
		return p
	}
	from := max(int(uint64(loc.Inner)-p.from)-n/2, 0)
	return blockPart{p.from + uint64(from), slices.Clone(p.bytes[from:min(from+n, len(p.bytes))])}
}

// part returns the part that has the value at loc, and the value.
func (g *generation) part(loc index.Loc) (p blockPart, b []byte, ok bool) {
	parts := g.blocks[keyOf(loc)]
	for i := len(parts) - 1; i >= 0 && !ok; i-- { // the last part is used most
		p = parts[i]
		b, ok = p.cut(loc)
	}
	return p, b, ok
}

// room makes room for n bytes more in now, and reports whether it forgot something for
// that. mu is held.
func (r *recent) room(n int) (turned bool) {
	turned = r.now.size > 0 && r.now.size+n > recentBytes
	if turned {
		r.now, r.then = generation{}, r.now
	}
	if r.now.blocks == nil {
		r.now.blocks, r.now.views = map[blockKey][]blockPart{}, map[index.Ref]*delta.Rope{}
	}
	return turned
}

// value returns the value at loc if it is kept, not checked. Others hold it.
func (r *recent) value(loc index.Loc) (b []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, b, ok = r.now.part(loc); ok {
		return b, true
	}
	p, b, ok := r.then.part(loc)
	if ok {
		r.put(keyOf(loc), p.around(loc))
	}
	return b, ok
}

// keep keeps the block that the value at loc was found in, or a part of it from there on.
func (r *recent) keep(loc index.Loc, block []byte) {
	k, p := keyOf(loc), blockPart{bytes: block}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, _, also := r.now.part(loc); also {
		return // another read was first
	}
	if len(block) > partBytes {
		if r.decoded[k] {
			p = p.around(loc)
		}
		if r.decoded == nil || len(r.decoded) >= maxDecoded {
			r.decoded = map[blockKey]bool{}
		}
		r.decoded[k] = true
	}
	r.put(k, p)
}

// put is keep for a caller that has the lock.
func (r *recent) put(k blockKey, p blockPart) {
	n := recentEntry + len(p.bytes)
	r.room(n)
	r.now.blocks[k] = append(r.now.blocks[k], p)
	r.now.size += n
}

// has reports whether a version is kept.
func (r *recent) has(ref index.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.views[ref] != nil || r.then.views[ref] != nil
}

// view returns a version that is kept, or nil.
func (r *recent) view(ref index.Ref) *delta.Rope {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.now.views[ref]
	if v == nil {
		if v = r.then.views[ref]; v != nil {
			r.putView(ref, v, v.Memory())
		}
	}
	return v
}

// keepView keeps a version that a patch of patch bytes made from the version kept before it.
func (r *recent) keepView(ref index.Ref, v *delta.Rope, patch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putView(ref, v, patch)
}

// putView is keepView for a caller that has the lock. The version counts with more bytes beside its
// Size. It shares bytes with the one it was made of, which are counted there. So the first version of a
// generation, and one that moves here from the other, count with all that they hold.
func (r *recent) putView(ref index.Ref, v *delta.Rope, more int) {
	n := recentEntry + v.Size() + more
	if r.room(n) {
		n = recentEntry + v.Size() + v.Memory()
	}
	r.now.views[ref] = v
	r.now.size += n
}

// forget drops all that is kept, because something in it is wrong.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.then, r.decoded = generation{}, generation{}, nil
}
