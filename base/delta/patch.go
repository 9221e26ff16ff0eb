package delta

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// run is a piece of a target: a copy of base bytes, or literal bytes. It ends
// where the next one begins, or where the target does.
type run struct {
	out uint32 // where it begins in the target
	src uint32 // where it comes from: in the base, or, with litBit, in the literals
}

const litBit = 1 << 31

// script is the runs of a target in order, and how long the target is so far.
type script struct {
	runs []run
	len  int // of the target
	lits int // of the literals
}

// copied is s with n more bytes of the target, which are those of the base from src on.
func (s script) copied(src, n int) script {
	if k := len(s.runs) - 1; k >= 0 {
		if r := s.runs[k]; r.src&litBit == 0 && int(r.src)+s.len-int(r.out) == src {
			s.len += n
			return s // it continues where the last one ended
		}
	}
	s.runs = append(s.runs, run{uint32(s.len), uint32(src)})
	s.len += n
	return s
}

// literal is s with n more bytes of the target, which are the next literals.
func (s script) literal(n int) script {
	if k := len(s.runs) - 1; k < 0 || s.runs[k].src&litBit == 0 {
		s.runs = append(s.runs, run{uint32(s.len), uint32(s.lits) | litBit})
	}
	s.len += n
	s.lits += n
	return s
}

// end returns where the i-th run ends in the target.
func (s *script) end(i int) int {
	if i+1 < len(s.runs) {
		return int(s.runs[i+1].out)
	}
	return s.len
}

// Patch is a decoded patch. It makes a target of Len bytes from a base of BaseLen bytes. It is
// immutable.
type Patch struct {
	BaseLen int
	Sum     uint64 // XXH64, seed 0, of the target

	script script
	lits   []byte
}

// Len is the length of the target in bytes.
func (p *Patch) Len() int { return p.script.len }

// Size is about how much memory the patch takes, in bytes.
func (p *Patch) Size() int { return 96 + 8*len(p.script.runs) + len(p.lits) }

// Between returns the encoded patch that makes target from base. sum is the XXH64 of target.
// It returns nil if the patch would take more than limit bytes. The result is a new slice. It
// compresses literals if that is worth it.
func Between(base, target *Pieces, sum uint64, limit int) []byte {
	return makePatch(base, target, sum, limit, true)
}

// MakeRaw is Between without compression, for patches in a block that is compressed as a whole.
func MakeRaw(base, target []byte, sum uint64, limit int) []byte {
	return makePatch(OnePiece(base), OnePiece(target), sum, limit, false)
}

func makePatch(from, target *Pieces, sum uint64, limit int, compress bool) []byte {
	if from.size > base.MaxStored || target.size > base.MaxStored {
		return nil
	}
	d := differs.Get().(*differ)
	defer differs.Put(d)
	*d = differ{base: from, target: target, limit: limit, index: d.index[:0], room: d.room[:0], literals: d.literals, script: script{runs: d.script.runs[:0]}}
	if compress {
		d.limit = limit + limit/2 // a guess of its size after compression
	}
	ok := d.diff()
	d.release()
	if !ok {
		return nil
	}
	lits := slices.Grow(d.literals[:0], d.script.lits)
	for i, r := range d.script.runs {
		if r.src&litBit != 0 {
			lits = target.appendTo(lits, int(r.out), d.script.end(i))
		}
	}
	if cap(lits) <= maxRoom {
		d.literals = lits
	}
	p := Patch{BaseLen: from.size, Sum: sum, script: d.script, lits: lits}
	if b := p.encode(compress); len(b) <= limit {
		return b
	}
	return nil
}

// encode returns the bytes of p.
func (p *Patch) encode(compress bool) []byte {
	codec, lits := codecRaw, p.lits
	if compress {
		codec, lits = pack(p.lits)
	}
	b := make([]byte, 0, 24+6*len(p.script.runs)+len(lits))
	b = append(b, codec)
	b = binary.AppendUvarint(b, uint64(p.BaseLen))
	b = binary.AppendUvarint(b, uint64(p.script.len))
	b = binary.LittleEndian.AppendUint64(b, p.Sum)
	b = p.script.appendPairs(b)
	return append(b, lits...)
}

// appendPairs writes the number of pairs and then the runs as pairs of a literal and a copy,
// either of which may be empty.
func (s *script) appendPairs(b []byte) []byte {
	pairs, afterLit := 0, false
	for _, r := range s.runs {
		lit := r.src&litBit != 0
		if lit || !afterLit {
			pairs++
		}
		afterLit = lit
	}
	b = binary.AppendUvarint(b, uint64(pairs))
	next := 0 // where the next copy of the base is expected to begin
	for i := 0; i < len(s.runs); i++ {
		lit, n := 0, 0
		if s.runs[i].src&litBit != 0 {
			lit = s.end(i) - int(s.runs[i].out)
			i++
		}
		if i < len(s.runs) && s.runs[i].src&litBit == 0 {
			n = s.end(i) - int(s.runs[i].out)
		} else {
			i--
		}
		b = binary.AppendUvarint(b, uint64(lit))
		b = binary.AppendUvarint(b, uint64(n))
		if n > 0 {
			b = binary.AppendVarint(b, int64(s.runs[i].src)-int64(next+lit))
			next = int(s.runs[i].src) + n
		}
	}
	return b
}

// minPair is the smallest number of bytes that a pair of runs takes.
const minPair = 2

// Decode reads an encoded patch. Any input gives a patch or an error. It needs at most a small
// multiple of the input's length of memory, plus base.MaxStored if literals are compressed.
// The patch refers to b. An unknown codec is a VersionError.
func Decode(b []byte) (*Patch, error) {
	d := decoder{base.Cursor{What: "patch", Left: b}}
	codec := d.Byte()
	if d.Err == nil && codec > codecZstd {
		return nil, &fault.VersionError{File: "patch", Have: uint32(codec), Supported: uint32(codecZstd)}
	}
	p := &Patch{BaseLen: d.size("base"), script: script{len: d.size("target")}}
	if sum := d.Bytes(8); sum != nil {
		p.Sum = binary.LittleEndian.Uint64(sum)
	}
	d.pairs(p)
	if d.Err != nil {
		return nil, d.Err
	}
	var err error
	if p.lits, err = unpack(codec, d.Left, p.script.lits); err != nil {
		return nil, err
	}
	return p, nil
}

type decoder struct{ base.Cursor }

func (d *decoder) size(what string) int {
	n := d.Uvarint()
	if n > base.MaxStored {
		d.Fail("%s of %d bytes", what, n)
		return 0
	}
	return int(n)
}

// pairs reads the runs. It checks that they make exactly the target, and copy only bytes in the
// base.
func (d *decoder) pairs(p *Patch) {
	n := d.Count(minPair)
	if d.Err != nil {
		return
	}
	s := script{runs: make([]run, 0, 2*n)}
	next := int64(0)
	for range n {
		lit, cp := d.size("literal"), d.size("copy")
		var src int64
		if cp > 0 {
			shift := d.Varint()
			if d.Err != nil {
				return
			}
			src = next + int64(lit) + shift
			if shift > base.MaxStored || shift < -2*base.MaxStored || src < 0 || src+int64(cp) > int64(p.BaseLen) {
				d.Fail("copies %d bytes at %d of a base of %d", cp, src, p.BaseLen)
				return
			}
			next = src + int64(cp)
		}
		if lit+cp == 0 || s.len+lit+cp > p.script.len {
			d.Fail("runs do not make a target of %d bytes", p.script.len)
			return
		}
		if lit > 0 {
			s = s.literal(lit)
		}
		if cp > 0 {
			s = s.copied(int(src), cp)
		}
	}
	if d.Err == nil && s.len != p.script.len {
		d.Fail("runs make %d bytes of %d", s.len, p.script.len)
	}
	p.script = s
}

// ErrChain is returned by Resolve for patches and a base that do not fit together.
var ErrChain = errors.New("patch does not fit its base")
