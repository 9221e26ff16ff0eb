package index

import (
	"encoding/binary"
	"slices"
	"sort"
)

// packedEvery is how many rows share a key that is written whole: a look reads
// half as many on average.
const packedEvery = 16

// packed is an immutable map in the order of its keys, packed into one slice: keys
// without what they share with the one before, and payloads. It costs a row its
// bytes and two or three more, and the garbage collector nothing. It lives in memory
// alone.
type packed struct {
	data []byte
	offs []uint64 // where every packedEvery-th row begins
	n    int
}

// size is the memory it takes.
func (p *packed) size() int64 { return int64(len(p.data) + 8*len(p.offs)) }

// packer makes a packed map. Keys come in ascending order.
type packer struct {
	p    packed
	prev []byte
}

// room makes room for what two maps become together.
func (w *packer) room(a, b *packed) {
	w.p.data = make([]byte, 0, len(a.data)+len(b.data))
	w.p.offs = make([]uint64, 0, len(a.offs)+len(b.offs))
}

func (w *packer) add(key, payload []byte) {
	shared := 0
	if w.p.n%packedEvery == 0 {
		w.p.offs = append(w.p.offs, uint64(len(w.p.data)))
	} else {
		shared = commonPrefix(w.prev, key)
	}
	w.p.n++
	b := binary.AppendUvarint(w.p.data, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	b = append(b, key[shared:]...)
	b = binary.AppendUvarint(b, uint64(len(payload)))
	w.p.data = append(b, payload...)
	w.prev = append(w.prev[:shared], key[shared:]...)
}

// done returns the map, without the room left for more.
func (w *packer) done() packed {
	if len(w.p.data) > cap(w.p.data)/8*7 {
		return w.p
	}
	return packed{data: slices.Clone(w.p.data), offs: slices.Clone(w.p.offs), n: w.p.n}
}

// packedCursor stands at a row, or behind the last one.
type packedCursor struct {
	p       *packed
	at      uint64 // of the next row
	ok      bool
	key     []byte // overwritten by next
	payload []byte
}

// block is a cursor before the first row of block i.
func (p *packed) block(i int) packedCursor { return packedCursor{p: p, at: p.offs[i]} }

// first is the key of the first row of block i.
func (p *packed) first(i int) []byte {
	b := p.data[p.offs[i]+1:] // shares nothing: one byte
	n, w := binary.Uvarint(b)
	return b[w : w+int(n)]
}

// seek returns a cursor at the first row whose key is not below key.
func (p *packed) seek(key string) packedCursor {
	if p.n == 0 {
		return packedCursor{p: p}
	}
	i := sort.Search(len(p.offs), func(i int) bool { return string(p.first(i)) > key })
	c := p.block(max(i-1, 0))
	for c.next(); c.ok && string(c.key) < key; c.next() {
	}
	return c
}

// next goes to the next row.
func (c *packedCursor) next() {
	if c.at >= uint64(len(c.p.data)) {
		c.ok = false
		return
	}
	b := c.p.data[c.at:]
	shared, n1 := binary.Uvarint(b)
	rest, n2 := binary.Uvarint(b[n1:])
	b = b[n1+n2:]
	c.key = append(c.key[:shared], b[:rest]...)
	size, n3 := binary.Uvarint(b[rest:])
	from := rest + uint64(n3)
	c.payload = b[from : from+size]
	c.at += uint64(n1+n2) + from + size
	c.ok = true
}

// get returns the payload of key.
func (p *packed) get(key string) ([]byte, bool) {
	c := p.seek(key)
	if !c.ok || string(c.key) != key {
		return nil, false
	}
	return c.payload, true
}

// layers is several packed maps as one, oldest first: of equal keys the newest
// counts. It is a cursor.
type layers struct {
	cs      []packedCursor
	at      int // the cursor that is at the current row; -1 behind the last one
	key     []byte
	payload []byte
}

func newLayers(ps []*packed, from string) *layers {
	l := &layers{cs: make([]packedCursor, len(ps))}
	for i, p := range ps {
		l.cs[i] = p.seek(from)
	}
	l.settle()
	return l
}

func (l *layers) ok() bool { return l.at >= 0 }

// settle finds the current row.
func (l *layers) settle() {
	l.at = -1
	for i := range l.cs {
		if c := &l.cs[i]; c.ok && (l.at < 0 || string(c.key) <= string(l.cs[l.at].key)) {
			l.at = i
		}
	}
	if l.at >= 0 {
		l.key, l.payload = append(l.key[:0], l.cs[l.at].key...), l.cs[l.at].payload
	}
}

func (l *layers) next() {
	for i := range l.cs {
		if c := &l.cs[i]; c.ok && string(c.key) == string(l.key) {
			c.next()
		}
	}
	l.settle()
}
