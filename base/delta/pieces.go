package delta

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base"
)

const (
	// onePiece: a value up to this size is held in one piece. Handling pieces would cost
	// about as much as copying it.
	onePiece = 8 << 10
	// pieceShift and largeShift are the sizes of pieces, as powers of two: 4 KiB, and 64 KiB
	// for values of at least largeValue bytes, which would otherwise have too many.
	pieceShift, largeShift = 12, 16
	largeValue             = 1 << 20
	// pieceCost is about the memory of a piece in addition to its bytes.
	pieceCost = 24
)

// Pieces is a value in memory with which the next version of it is compared. A large value is
// divided into pieces. If a piece is equal in two versions, they share it. So for the next
// version of a list that grew, only the first piece and the last are copied. Where two
// versions share pieces they are equal, which is known without comparing bytes.
//
// It is immutable and safe for concurrent use.
type Pieces struct {
	one    []byte   // the value, if pieces is nil
	pieces [][]byte // all of 1<<shift bytes but the last, which is not empty
	shift  uint8
	size   int
}

// OnePiece holds b itself, in one piece. b must not be changed afterwards.
func OnePiece(b []byte) *Pieces { return &Pieces{one: b, size: len(b)} }

// Divide holds the concatenation of parts and returns its XXH64, seed 0. It does both in one pass,
// because reading memory dominates the cost. It shares pieces with was, the previous version,
// if they are equal at the same place; was may be nil. A single part of at most 8 KiB is held
// itself and must not be changed afterwards. All other parts are copied.
func Divide(was *Pieces, parts ...[]byte) (*Pieces, uint64) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size <= onePiece {
		var b []byte
		if len(parts) == 1 {
			b = parts[0]
		} else {
			b = slices.Concat(parts...)
		}
		return OnePiece(b), base.Checksum(0, b)
	}
	h := &Pieces{shift: pieceShift, size: size}
	if size >= largeValue {
		h.shift = largeShift
	}
	step := 1 << h.shift
	h.pieces = make([][]byte, 0, (size+step-1)/step)
	if was == nil || was.shift != h.shift {
		was = &Pieces{}
	}
	var sum xxhash.Digest
	sum.Reset()
	rest := reader{parts: parts}
	for off := 0; off < size; off += step {
		b, fresh := rest.next(min(step, size-off))
		_, _ = sum.Write(b) // xxhash never returns an error
		if k := len(h.pieces); k < len(was.pieces) && string(was.pieces[k]) == string(b) {
			b = was.pieces[k]
		} else if !fresh {
			b = slices.Clone(b)
		}
		h.pieces = append(h.pieces, b)
	}
	return h, sum.Sum64()
}

// reader cuts parts into pieces.
type reader struct {
	parts [][]byte
	off   int // in the first
}

// next returns the next n bytes, which must exist. fresh: they were not contiguous, so b is a
// copy.
func (r *reader) next(n int) (b []byte, fresh bool) {
	for {
		p := r.parts[0][r.off:]
		if len(b) == 0 && len(p) >= n {
			r.off += n
			return p[:n:n], false
		}
		if b == nil {
			b = make([]byte, 0, n)
		}
		take := min(n-len(b), len(p))
		b, r.off = append(b, p[:take]...), r.off+take
		if len(b) == n {
			return b, true
		}
		r.parts, r.off = r.parts[1:], 0
	}
}

// Len is the length of the value in bytes.
func (h *Pieces) Len() int { return h.size }

// Size returns about how many bytes of memory the value takes, without those that it shares with other,
// which may be nil.
func (h *Pieces) Size(other *Pieces) int {
	if h.pieces == nil {
		if other != nil && h.size > 0 && other.size > 0 && other.pieces == nil && &h.one[0] == &other.one[0] {
			return 0
		}
		return h.size
	}
	n := h.size + pieceCost*len(h.pieces)
	if other != nil {
		for k := range min(len(h.pieces), len(other.pieces)) {
			if &h.pieces[k][0] == &other.pieces[k][0] {
				n -= len(h.pieces[k])
			}
		}
	}
	return n
}

// Parts are the pieces of the value, in order. They must not be changed.
func (h *Pieces) Parts() [][]byte {
	if h.pieces == nil {
		return [][]byte{h.one}
	}
	return h.pieces
}

// Append appends the value from off on to dst.
func (h *Pieces) Append(dst []byte, off int) []byte {
	return h.appendTo(slices.Grow(dst, h.size-off), off, h.size)
}

// appendTo appends the bytes from off to end to dst.
func (h *Pieces) appendTo(dst []byte, off, end int) []byte {
	for off < end {
		b := h.at(off)
		b = b[:min(len(b), end-off)]
		dst, off = append(dst, b...), off+len(b)
	}
	return dst
}

// at is the contiguous bytes from i on: at least one if i < h.size.
func (h *Pieces) at(i int) []byte {
	if h.pieces == nil {
		return h.one[i:]
	}
	return h.pieces[i>>h.shift][i&(1<<h.shift-1):]
}

// before is the contiguous bytes up to i: at least one if i > 0.
func (h *Pieces) before(i int) []byte {
	if h.pieces == nil {
		return h.one[:i]
	}
	return h.pieces[(i-1)>>h.shift][:(i-1)&(1<<h.shift-1)+1]
}

// window is n bytes at i. If they are not contiguous, they are copied to buf.
func (h *Pieces) window(i, n int, buf []byte) []byte {
	if n == 0 {
		return nil
	}
	if b := h.at(i); len(b) >= n {
		return b[:n]
	}
	return h.appendTo(buf[:0], i, i+n)
}

// prefix returns how many bytes a[i:iEnd] and b[j:jEnd] have in common at their beginning.
func prefix(a *Pieces, i, iEnd int, b *Pieces, j, jEnd int) int {
	most := min(iEnd-i, jEnd-j)
	n := 0
	for n < most {
		x, y := a.at(i+n), b.at(j+n)
		m := min(len(x), len(y), most-n)
		if &x[0] != &y[0] {
			if k := commonPrefix(x[:m], y[:m]); k < m {
				return n + k
			}
		}
		n += m
	}
	return max(n, 0)
}

// suffix returns how many bytes a[i:] and b[j:] have in common at their end.
func suffix(a *Pieces, i int, b *Pieces, j int) int {
	most := min(a.size-i, b.size-j)
	n := 0
	for n < most {
		x, y := a.before(a.size-n), b.before(b.size-n)
		m := min(len(x), len(y), most-n)
		x, y = x[len(x)-m:], y[len(y)-m:]
		if &x[0] != &y[0] {
			if k := commonSuffix(x, y); k < m {
				return n + k
			}
		}
		n += m
	}
	return n
}
