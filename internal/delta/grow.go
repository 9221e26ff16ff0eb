package delta

import "github.com/stele-go/stele/internal/base"

// Grow returns the encoded patch that makes head + from[at:] + tail, whose XXH64 is
// sum, out of a value from of size bytes; nil if it would take more than limit bytes,
// or if at lies outside of from. The caller knows what changed, so nothing is compared.
func Grow(size int, head []byte, at int, tail []byte, sum uint64, limit int) []byte {
	if at < 0 || at > size || len(head)+size-at+len(tail) > base.MaxStored || size > base.MaxStored {
		return nil
	}
	var s script
	if len(head) > 0 {
		s = s.literal(len(head))
	}
	if at < size {
		s = s.copied(at, size-at)
	}
	if len(tail) > 0 {
		s = s.literal(len(tail))
	}
	lits := append(append(make([]byte, 0, s.lits), head...), tail...)
	p := Patch{BaseLen: size, Sum: sum, script: s, lits: lits}
	if b := p.encode(true); len(b) <= limit {
		return b
	}
	return nil
}
