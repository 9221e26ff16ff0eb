package engine

import (
	"fmt"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/delta"
)

// Last is the last published value of a line, as far as it is in memory.
type Last struct{ v *version }

// Last returns the last published value of a line; false if it is not at hand, as
// after Open, for a line whose values have little in common, or when the memory for
// last values was needed for others.
func (e *Engine) Last(l Line) (Last, bool) {
	v := e.versions.get(l)
	return Last{v}, v != nil && v.data != nil
}

// Bytes are the value's. They must not be changed. If it is not held in one piece they
// are a copy.
func (l Last) Bytes() []byte { return l.v.data.Bytes() }

// Ref names the value.
func (l Last) Ref() index.Ref { return l.v.ref }

// NewGrown is NewVersion for head + last[from:] + tail. The patch is made from that
// alone where it may be one against last: nothing is compared. It also returns the
// bytes of the value, which must not be changed.
func (e *Engine) NewGrown(last Last, head []byte, from int, tail []byte) (v Value, whole []byte, err error) {
	prev := last.v
	if from < 0 || from > prev.data.Len() {
		return Value{}, nil, fmt.Errorf("value grown from byte %d of %d", from, prev.data.Len())
	}
	size := len(head) + prev.data.Len() - from + len(tail)
	whole = append(prev.data.Append(append(make([]byte, 0, size), head...), from), tail...)
	d := &draft{line: prev.line, prev: prev, run: e.opts.PatchRun, data: delta.HoldOne(whole)}
	v, err = NewValue(whole)
	if err != nil || e.opts.NoPatches || v.size < int64(e.opts.PatchMin) || v.size > e.versions.largest() {
		return v, whole, err
	}
	v.draft = d
	if !e.mayBeBase(prev.ref) {
		return v, whole, nil
	}
	if prev.runs[0].n < d.run {
		most := size - size/4
		if p := delta.Grow(prev.data.Len(), head, from, tail, v.sum, most); p != nil && prev.runs[0].bytes+int64(len(p)) <= chainCost*v.size {
			d.tried = true
			d.base, d.patch, d.sum = prev, p, base.Checksum(0, p)
			return v, whole, nil
		}
	}
	d.against(prev, v.sum)
	return v, whole, nil
}
