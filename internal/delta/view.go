package delta

import (
	"bytes"
	"fmt"
	"slices"
)

// View is a version of a value as pieces of bytes that others own: what the next
// version of a chain is made of without copying this one. It is immutable and safe
// for concurrent use; the bytes it was made of must not be changed.
type View struct {
	parts [][]byte // none is empty
	ends  []uint32 // where each ends in the value
	size  int
	own   int // bytes that are in memory for the view's sake
	holds int // bytes that are in memory as long as the view is, at most: its own, and those it was made of
	sum   uint64
	known bool // sum is the value's: it was made by a patch
	open  bool // the last part is the view's own and may be appended to
}

const (
	// smallView: a value up to here is one piece of its own. Copying it costs less
	// than looking after pieces.
	smallView = 2 << 10
	// maxParts bounds the pieces of a larger one.
	maxParts = 512
	// maxHeld is how many times its size a view may hold in memory: a piece of a large
	// value keeps all of that.
	maxHeld = 2
	// smallPart: pieces below it that follow each other are copied into one. What is
	// new in a version is often made of many.
	smallPart = 1 << 10
)

// Whole is the view of a value stored whole.
func Whole(b []byte) *View {
	v := &View{size: len(b)}
	v.whole(b)
	return v
}

// whole makes b, which is v's to share, the only piece.
func (v *View) whole(b []byte) {
	v.parts, v.ends, v.own, v.holds, v.open = nil, nil, len(b), len(b), false
	if len(b) > 0 {
		v.parts, v.ends = [][]byte{b}, []uint32{uint32(len(b))}
	}
}

// Len is the length of the value in bytes.
func (v *View) Len() int { return v.size }

// Size is about how much memory the view keeps, in bytes, the literals of patches
// left out.
func (v *View) Size() int {
	return 96 + 28*cap(v.parts) + v.own
}

// Held is how much memory cannot be given back as long as the view is there, in bytes, at
// most: what Size is, and the versions and patches that it shares bytes with. It is at most
// twice the value's, and what Size is.
func (v *View) Held() int { return 96 + 28*cap(v.parts) + v.holds }

// Sum is the XXH64, seed 0, that the value must have; not ok if no patch says so.
func (v *View) Sum() (sum uint64, ok bool) { return v.sum, v.known }

// Bytes returns the value in a fresh slice.
func (v *View) Bytes() []byte {
	// Join does not clear the memory it is about to fill.
	return bytes.Join(v.parts, nil)
}

// Single returns the value if it is one piece; not ok if it is several. Others hold
// the piece, so it must not be changed.
func (v *View) Single() (b []byte, ok bool) {
	if len(v.parts) != 1 {
		return nil, len(v.parts) == 0
	}
	b = v.parts[0]
	return b[:len(b):len(b)], true
}

func (v *View) add(b []byte) {
	if len(b) == 0 {
		return
	}
	end := uint32(len(b))
	if k := len(v.ends); k > 0 {
		end += v.ends[k-1]
	}
	if len(b) >= smallPart {
		v.open = false
	} else if v.own += len(b); v.open {
		last := &v.parts[len(v.parts)-1]
		*last = append(*last, b...)
		v.ends[len(v.ends)-1] = end
		return
	} else {
		b = append(make([]byte, 0, 2*len(b)), b...)
		v.open = true
	}
	v.parts, v.ends = append(v.parts, b), append(v.ends, end)
}

// On returns the view of p's target, p being a patch against v. It does one step of
// what Resolve does for a chain, for callers that want the versions in between too.
// An error wraps ErrChain. The caller checks the value against its sum.
func (p *Patch) On(v *View) (*View, error) {
	if p.BaseLen != v.size {
		return nil, fmt.Errorf("%w: base of %d bytes, the patch is against %d", ErrChain, v.size, p.BaseLen)
	}
	out := &View{size: p.Len(), sum: p.Sum, known: true}
	if out.size <= smallView && len(v.parts) <= 1 {
		out.whole(p.flat(v))
		return out, nil
	}
	most := len(v.parts) + 4
	out.parts, out.ends = make([][]byte, 0, most), make([]uint32, 0, most)
	for i, r := range p.script.runs {
		n := uint32(p.script.end(i)) - r.out
		if r.src&litBit != 0 {
			from := r.src &^ litBit
			out.add(p.lits[from : from+n])
			continue
		}
		v.pieces(r.src, n, out)
	}
	out.holds = v.holds + p.Size() + out.own
	if len(out.parts) > maxParts || out.size <= smallView || out.holds > maxHeld*out.size {
		out.whole(out.Bytes())
	}
	return out, nil
}

// flat is p's target made of a value of one piece.
func (p *Patch) flat(v *View) []byte {
	var from []byte
	if len(v.parts) > 0 {
		from = v.parts[0]
	}
	out := make([]byte, 0, p.Len())
	for i, r := range p.script.runs {
		n := uint32(p.script.end(i)) - r.out
		src := from
		if r.src&litBit != 0 {
			src = p.lits
		}
		at := r.src &^ litBit
		out = append(out, src[at:at+n]...)
	}
	return out
}

// pieces adds n bytes at off of v to out.
func (v *View) pieces(off, n uint32, out *View) {
	i, found := slices.BinarySearch(v.ends, off)
	if found {
		i++ // ends there: the next one begins there
	}
	for n > 0 {
		part := v.parts[i]
		skip := off - (v.ends[i] - uint32(len(part)))
		take := min(n, uint32(len(part))-skip)
		out.add(part[skip : skip+take])
		off, n, i = off+take, n-take, i+1
	}
}
