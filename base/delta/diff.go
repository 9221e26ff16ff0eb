package delta

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// Parameters of the search for runs that base and target share.
const (
	window   = 8       // bytes compared to find a place to go on
	stride   = 16      // distance of the places of the base that are in the index
	minCopy  = 24      // shorter runs found elsewhere cost about what they save
	hurry    = 128     // number of bytes not found after which the search takes larger steps
	maxStep  = 7       // at most so fast, in bytes: odd
	resync   = 16      // how far a change of equal length is skipped in place
	maxIndex = 1 << 16 // entries of the index at most; a larger base is indexed in larger strides
	chunk    = 512     // bytes compared in one step as long as they are equal
	maxRoom  = 1 << 20 // bytes that a differ keeps to flatten values in
	hashMul  = 0x9e3779b97f4a7c15
)

// differ finds the runs that make target from base: copies of bytes of base, and literal bytes.
// Differs are pooled, so that their tables are used again.
type differ struct {
	base, target *Pieces
	script       script
	limit        int // literal bytes after which it is not worth it
	lits         int
	index        []uint32 // by hash: place in base, plus 1
	shift        uint
	indexed      bool

	// Both values in one piece each, for search. They are copied to room if they are not in
	// one piece. Set on the first search.
	flatBase, flatTarget []byte
	room                 []byte

	literals []byte // room for those of the patch, until it is encoded
}

var differs = sync.Pool{New: func() any { return new(differ) }}

// diff fills d.script with the runs that make target from base. It returns false if more than
// d.limit bytes of target are literal.
func (d *differ) diff() bool {
	p := prefix(d.base, 0, d.base.size, d.target, 0, d.target.size)
	s := suffix(d.base, p, d.target, p)
	d.copy(0, p)
	end := d.target.size - s
	if !d.middle(p, p, d.base.size-s, end) {
		return false
	}
	d.copy(d.base.size-s, s)
	return d.lits <= d.limit
}

// middle makes target[j:jEnd], mostly from base[i:iEnd].
func (d *differ) middle(i, j, iEnd, jEnd int) bool {
	for j < jEnd {
		if n := prefix(d.base, i, iEnd, d.target, j, jEnd); n >= window || n > 0 && j+n == jEnd {
			d.copy(i, n)
			i, j = i+n, j+n
			continue
		}
		if k := d.inPlace(i, iEnd, j, jEnd); k > 0 {
			d.literal(k)
			i, j = i+k, j+k
			continue
		}
		src, at, n := d.search(i, j, iEnd, jEnd)
		d.literal(at - j)
		if d.lits > d.limit {
			return false
		}
		d.copy(src, n)
		i, j = src+n, at+n
		if i > iEnd {
			iEnd = d.base.size // it went on into the common end
		}
	}
	return true
}

// inPlace returns how many bytes were replaced by the same number of bytes; 0 if the change is of
// another kind.
func (d *differ) inPlace(i, iEnd, j, jEnd int) int {
	var room [2][resync + window]byte
	n := min(resync+window, iEnd-i, jEnd-j)
	base, target := d.base.window(i, n, room[0][:]), d.target.window(j, n, room[1][:])
	for k := 1; k+window <= n; k++ {
		if load(base[k:]) == load(target[k:]) {
			return k
		}
	}
	return 0
}

// search finds the next run of target[j:jEnd] that is anywhere in the base: n bytes at at, which
// are at src in the base. If there is none, n is 0 and at is jEnd.
func (d *differ) search(i, j, iEnd, jEnd int) (src, at, n int) {
	if i == iEnd && !d.indexed {
		// The whole base was found in order, so the rest of the target was appended.
		// It may resemble earlier parts, but runs that refer to every version of a
		// chain cost reading more than they save.
		return i, jEnd, 0
	}
	if !d.indexed {
		d.build()
	}
	base, target := d.flatBase, d.flatTarget
	budget := d.limit - d.lits
	for at = j; at+window <= jEnd && at-j <= budget; at += step(at - j) {
		e := d.index[load(target[at:])*hashMul>>d.shift]
		if e == 0 {
			continue
		}
		src = int(e - 1)
		n = commonPrefix(base[src:], target[at:jEnd])
		back := 0
		for back < at-j && back < src && base[src-back-1] == target[at-back-1] {
			back++
		}
		if n > 0 && n+back >= minCopy {
			return src - back, at - back, n + back
		}
	}
	return i, jEnd, 0
}

// step returns how far the search moves after missed bytes that were not found: the longer nothing is
// found, the less is likely to follow. A step is odd and the stride of the index a power of two, so
// `stride` steps visit each place modulo the stride once. So runs of a few hundred bytes are found as
// with single steps, and then extended back to their beginning.
func step(missed int) int { return min(1+2*(missed/hurry), maxStep) }

// build indexes the base.
func (d *differ) build() {
	d.indexed = true
	d.flatten()
	base := d.flatBase
	every := max(stride, 1<<bits.Len(uint(len(base)/maxIndex))) // see step
	size := max(64, 2*(len(base)/every+1))
	log := bits.Len(uint(size - 1))
	if cap(d.index) < 1<<log {
		d.index = make([]uint32, 1<<log)
	} else {
		d.index = d.index[:1<<log]
		clear(d.index)
	}
	d.shift = uint(64 - log)
	for i := 0; i+window <= len(base); i += every {
		d.index[load(base[i:])*hashMul>>d.shift] = uint32(i + 1)
	}
}

// flatten sets flatBase and flatTarget.
func (d *differ) flatten() {
	d.flatBase, d.flatTarget = d.base.one, d.target.one
	need := 0
	for _, h := range [...]*Pieces{d.base, d.target} {
		if h.pieces != nil {
			need += h.size
		}
	}
	d.room = slices.Grow(d.room[:0], need)
	if d.base.pieces != nil {
		d.room = d.base.Append(d.room, 0)
		d.flatBase = d.room
	}
	if d.target.pieces != nil {
		d.room = d.target.Append(d.room, 0)
		d.flatTarget = d.room[need-d.target.size:]
	}
}

// release drops the references to the values, and a room that is too large for the pool.
func (d *differ) release() {
	d.base, d.target, d.flatBase, d.flatTarget = nil, nil, nil, nil
	if cap(d.room) > maxRoom {
		d.room = nil
	}
}

func (d *differ) copy(src, n int) {
	if n > 0 {
		d.script = d.script.copied(src, n)
	}
}

func (d *differ) literal(n int) {
	if n > 0 {
		d.lits += n
		d.script = d.script.literal(n)
	}
}

func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+chunk <= n && string(a[i:i+chunk]) == string(b[i:i+chunk]) { // vectorised
		i += chunk
	}
	for ; i+8 <= n; i += 8 {
		if x := load(a[i:]) ^ load(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for ; i < n && a[i] == b[i]; i++ {
	}
	return i
}

func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	i := n
	for i >= chunk && string(a[i-chunk:i]) == string(b[i-chunk:i]) { // vectorised
		i -= chunk
	}
	for ; i >= 8; i -= 8 {
		if x := load(a[i-8:]) ^ load(b[i-8:]); x != 0 {
			return n - i + bits.LeadingZeros64(x)/8
		}
	}
	for ; i > 0 && a[i-1] == b[i-1]; i-- {
	}
	return n - i
}
