package delta

import (
	"bytes"
	"fmt"
	"slices"
)

// Rope is a version of a value, as a list of parts that it shares with other versions and with
// patches. So the next version of a chain is made without copying this one. It is immutable
// and safe for concurrent use. The bytes that it was made from must not be changed.
type Rope struct {
	parts [][]byte // none is empty
	ends  []uint32 // where each ends in the value
	size  int
	own   int // bytes that only this rope uses
	holds int // upper bound for the bytes that the rope keeps in memory: its own, and those that it shares
	sum   uint64
	known bool // sum is set, because a patch made the value
	open  bool // the last part belongs to this rope and may be appended to
}

const (
	// smallRope: a value up to this size is copied into one part. That costs less than
	// handling parts.
	smallRope = 2 << 10
	// maxParts bounds the number of parts.
	maxParts = 512
	// maxMemory bounds the memory that a rope keeps, as a multiple of its size. A part of a
	// large value keeps the whole value in memory.
	maxMemory = 2
	// smallPart: adjacent parts below this size are copied into one. What is new in a
	// version often consists of many of them.
	smallPart = 1 << 10
)

// Whole is the rope of a value that was stored as a whole.
func Whole(b []byte) *Rope {
	v := &Rope{size: len(b)}
	v.whole(b)
	return v
}

// whole makes b the only part. v owns b.
func (v *Rope) whole(b []byte) {
	v.parts, v.ends, v.own, v.holds, v.open = nil, nil, len(b), len(b), false
	if len(b) > 0 {
		v.parts, v.ends = [][]byte{b}, []uint32{uint32(len(b))}
	}
}

// Size is about how much memory the rope takes, in bytes, without the literals of patches.
func (v *Rope) Size() int {
	return 96 + 28*cap(v.parts) + v.own
}

// Memory is an upper bound for the memory that the rope keeps from being freed, in bytes: its
// Size, and the versions and patches with which it shares bytes. It is at most Size plus
// twice the size of the value.
func (v *Rope) Memory() int { return 96 + 28*cap(v.parts) + v.holds }

// Sum is the XXH64, seed 0, that the value must have. ok is false if no patch made the value.
func (v *Rope) Sum() (sum uint64, ok bool) { return v.sum, v.known }

// Bytes returns the value in a fresh slice.
func (v *Rope) Bytes() []byte {
	// Join does not clear the memory it is about to fill.
	return bytes.Join(v.parts, nil)
}

// Single returns the value if it is one part; ok is false if it has several. It must not be
// changed, because others share it.
func (v *Rope) Single() (b []byte, ok bool) {
	if len(v.parts) != 1 {
		return nil, len(v.parts) == 0
	}
	b = v.parts[0]
	return b[:len(b):len(b)], true
}

func (v *Rope) add(b []byte) {
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

// On returns the rope of p's target. p is a patch against v. It does one step of Resolve, for
// callers that need the intermediate versions too. An error wraps ErrChain. The caller checks
// the value against its sum.
func (p *Patch) On(v *Rope) (*Rope, error) {
	if p.BaseLen != v.size {
		return nil, fmt.Errorf("%w: base of %d bytes, the patch is against %d", ErrChain, v.size, p.BaseLen)
	}
	out := &Rope{size: p.Len(), sum: p.Sum, known: true}
	if out.size <= smallRope && len(v.parts) <= 1 {
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
	if len(out.parts) > maxParts || out.size <= smallRope || out.holds > maxMemory*out.size {
		out.whole(out.Bytes())
	}
	return out, nil
}

// flat is p's target for a v with at most one part.
func (p *Patch) flat(v *Rope) []byte {
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

// pieces adds n bytes of v at off to out.
func (v *Rope) pieces(off, n uint32, out *Rope) {
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
