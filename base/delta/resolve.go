package delta

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// piece is a part of the result that is still missing: n bytes at out, which are at src in the
// target of the next patch.
type piece struct{ out, src, n uint32 }

// pieces are the scratch lists of a Resolve.
type pieces struct{ cur, next []piece }

var piecePool = sync.Pool{New: func() any { return new(pieces) }}

// maxPooled bounds the scratch that is kept.
const maxPooled = 1 << 14

// Resolve returns the target of chain[0], in a fresh slice. The base of each patch
// is the target of the next; the last one's is root. The patches' runs are
// composed, so that each byte is copied once. The caller checks the result against
// chain[0].Sum. An error wraps ErrChain.
func Resolve(chain []*Patch, root []byte) ([]byte, error) {
	if len(chain) == 0 {
		return slices.Clone(root), nil
	}
	for i, p := range chain {
		have := len(root)
		if i+1 < len(chain) {
			have = chain[i+1].Len()
		}
		if p.BaseLen != have {
			return nil, fmt.Errorf("%w: base of %d bytes, the patch is against %d", ErrChain, have, p.BaseLen)
		}
	}
	out := make([]byte, chain[0].Len())
	s := piecePool.Get().(*pieces)
	s.cur = append(s.cur[:0], piece{0, 0, uint32(len(out))})
	for _, p := range chain {
		s.next = p.descend(out, s.cur, s.next[:0])
		s.cur, s.next = s.next, s.cur
	}
	for _, q := range s.cur {
		copy(out[q.out:q.out+q.n], root[q.src:])
	}
	if cap(s.cur)+cap(s.next) <= maxPooled {
		piecePool.Put(s)
	}
	return out, nil
}

// descend finds the wanted pieces of p's target. It copies their literal bytes to out, and
// appends to next the pieces that come from the base.
func (p *Patch) descend(out []byte, wanted, next []piece) []piece {
	runs := p.script.runs
	at := 0
	for _, w := range wanted {
		if w.n == 0 {
			continue
		}
		// Pieces mostly ascend. If this one does not, its run must be searched.
		if at >= len(runs) || runs[at].out > w.src || p.script.end(at) <= int(w.src) {
			at = p.find(w.src)
		}
		for w.n > 0 {
			r, end := runs[at], uint32(p.script.end(at))
			skip := w.src - r.out
			n := min(w.n, end-w.src)
			if r.src&litBit != 0 {
				from := r.src&^litBit + skip
				copy(out[w.out:w.out+n], p.lits[from:])
			} else {
				next = appendPiece(next, piece{w.out, r.src + skip, n})
			}
			w.out, w.src, w.n = w.out+n, w.src+n, w.n-n
			if w.src == end {
				at++
			}
		}
	}
	return next
}

// appendPiece adds a piece, or extends the last one.
func appendPiece(to []piece, q piece) []piece {
	if k := len(to) - 1; k >= 0 && to[k].out+to[k].n == q.out && to[k].src+to[k].n == q.src {
		to[k].n += q.n
		return to
	}
	return append(to, q)
}

// find is the run that holds the byte at off of the target.
func (p *Patch) find(off uint32) int {
	i, ok := slices.BinarySearchFunc(p.script.runs, off, func(r run, off uint32) int { return cmp.Compare(r.out, off) })
	if !ok {
		i--
	}
	return i
}
