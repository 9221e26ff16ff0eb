package index

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

const (
	// packedEvery is how many rows share a key that is written whole: a look reads
	// half as many on average.
	packedEvery = 16
	// chunkTarget is where a chunk is cut; a larger row has one of its own.
	chunkTarget = 64 << 10
	startSize   = 4
	rowExtra    = 3*binary.MaxVarintLen32 + startSize // a row takes at most besides key and payload
)

// errPacked is the error for a chunk that no packer wrote.
var errPacked = errors.New("malformed rows")

// Chunk is a run of rows, as they are in memory and in an image: each key without
// what it shares with the one before, and its payload; then the places of every
// sixteenth row, whose key is whole. Its bytes are shared and never change.
type Chunk struct {
	Data []byte
	N    int // rows
}

func (c Chunk) starts() int { return (c.N + packedEvery - 1) / packedEvery }

func (c Chunk) rows() []byte { return c.Data[:len(c.Data)-startSize*c.starts()] }

// start is where row i*packedEvery begins.
func (c Chunk) start(i int) int {
	at := len(c.Data) - startSize*(c.starts()-i)
	return int(binary.LittleEndian.Uint32(c.Data[at:]))
}

// check tests what a look relies on not to leave the chunk; rows are tested as they
// are read.
func (c Chunk) check() error {
	if c.N <= 0 || c.N > len(c.Data) || startSize*c.starts() > len(c.Data) || c.start(0) != 0 {
		return errPacked
	}
	last := len(c.rows())
	for i := c.starts() - 1; i >= 0; i-- {
		at := c.start(i)
		if at >= last {
			return errPacked
		}
		last = at
	}
	return nil
}

// first is the key of row i*packedEvery; nil if it is malformed.
func (c Chunk) first(i int) []byte {
	b := c.rows()[c.start(i):]
	if b[0] != 0 {
		return nil
	}
	n, w := binary.Uvarint(b[1:])
	if w <= 0 || n > uint64(len(b)-1-w) {
		return nil
	}
	return b[1+w : 1+w+int(n)]
}

// packed is an immutable map in the order of its keys, packed into chunks. It costs
// a row its bytes and two or three more, and the garbage collector a slice for each
// chunk.
type packed struct {
	chunks []Chunk
	bytes  int64
	n      int
}

// size is the memory it takes, about.
func (p *packed) size() int64 { return p.bytes + 32*int64(len(p.chunks)) }

// packedOf is a map of chunks that were written before.
func packedOf(chunks []Chunk) (packed, error) {
	p := packed{chunks: chunks}
	for i, c := range chunks {
		if err := c.check(); err != nil {
			return packed{}, err
		}
		first := c.first(0)
		if first == nil || i > 0 && string(first) <= string(chunks[i-1].first(0)) {
			return packed{}, errPacked
		}
		p.bytes += int64(len(c.Data))
		p.n += c.N
	}
	return p, nil
}

// check reads every row.
func (p *packed) check(payload func([]byte) bool) error {
	n := 0
	var prev []byte
	c := packedCursor{p: p}
	for c.next(); c.ok; c.next() {
		if n > 0 && string(c.key) <= string(prev) || !payload(c.payload) {
			return errPacked
		}
		n++
		prev = append(prev[:0], c.key...)
	}
	if n != p.n {
		return errPacked
	}
	return nil
}

// packer makes a packed map. Keys come in ascending order.
type packer struct {
	p      packed
	prev   []byte
	rows   []byte // of the chunk begun
	starts []byte
	n      int
}

func (w *packer) add(key, payload []byte) {
	if w.n > 0 && len(w.rows)+len(w.starts)+len(key)+len(payload)+rowExtra > chunkTarget {
		w.cut()
	}
	shared := 0
	if w.n%packedEvery == 0 {
		w.starts = binary.LittleEndian.AppendUint32(w.starts, uint32(len(w.rows)))
	} else {
		shared = commonPrefix(w.prev, key)
	}
	w.n++
	b := binary.AppendUvarint(w.rows, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(key)-shared))
	b = append(b, key[shared:]...)
	b = binary.AppendUvarint(b, uint64(len(payload)))
	w.rows = append(b, payload...)
	w.prev = append(w.prev[:shared], key[shared:]...)
}

// cut ends the chunk begun.
func (w *packer) cut() {
	if w.n == 0 {
		return
	}
	c := Chunk{Data: slices.Concat(w.rows, w.starts), N: w.n}
	w.p.chunks = append(w.p.chunks, c)
	w.p.bytes += int64(len(c.Data))
	w.p.n += w.n
	w.rows, w.starts, w.n = w.rows[:0], w.starts[:0], 0
}

// done returns the map.
func (w *packer) done() packed {
	w.cut()
	return w.p
}

// packedCursor stands at a row, or behind the last one. A row that is malformed
// ends the map: nothing is read beyond a chunk.
type packedCursor struct {
	p       *packed
	chunk   int
	at      int // of the next row in the chunk
	ok      bool
	key     []byte // overwritten by next
	payload []byte
}

// seek returns a cursor at the first row whose key is not below key.
func (p *packed) seek(key string) packedCursor {
	c := packedCursor{p: p}
	c.seek(key)
	return c
}

// seek goes to the first row whose key is not below key. The cursor is a new one.
func (c *packedCursor) seek(key string) {
	p := c.p
	if p.n == 0 {
		return
	}
	c.chunk, c.at = p.near(key)
	for c.next(); c.ok && string(c.key) < key; c.next() {
	}
}

// near is where to begin looking for key: at a row whose key is whole, not above key
// unless all are. p is not empty.
func (p *packed) near(key string) (chunk, at int) {
	chunk = max(sort.Search(len(p.chunks), func(i int) bool { return string(p.chunks[i].first(0)) > key })-1, 0)
	ch := p.chunks[chunk]
	i := sort.Search(ch.starts(), func(i int) bool { return string(ch.first(i)) > key })
	return chunk, ch.start(max(i-1, 0))
}

// packedRow is a row as it lies in a chunk.
type packedRow struct {
	shared  int // bytes of the key that are those of the one before
	rest    []byte
	payload []byte
	size    int // of the row
}

// parseRow reads the row that b begins with; prev is the length of the key before.
// It is not ok if the row is malformed.
func parseRow(b []byte, prev int) (r packedRow, ok bool) {
	shared, n1 := binary.Uvarint(b)
	rest, n2 := binary.Uvarint(b[max(n1, 0):])
	if n1 <= 0 || n2 <= 0 || shared > uint64(prev) || rest > uint64(len(b)-n1-n2) {
		return r, false
	}
	at := n1 + n2
	r.shared, r.rest = int(shared), b[at:at+int(rest)]
	at += int(rest)
	size, n3 := binary.Uvarint(b[at:])
	if n3 <= 0 || size > uint64(len(b)-at-n3) {
		return r, false
	}
	at += n3
	r.size = at + int(size)
	r.payload = b[at:r.size:r.size]
	return r, true
}

// next goes to the next row.
func (c *packedCursor) next() {
	c.ok = false
	if c.chunk >= len(c.p.chunks) {
		return
	}
	rows := c.p.chunks[c.chunk].rows()
	if c.at >= len(rows) {
		if c.chunk++; c.chunk == len(c.p.chunks) {
			return
		}
		c.at, c.key = 0, c.key[:0]
		rows = c.p.chunks[c.chunk].rows()
	}
	r, ok := parseRow(rows[c.at:], len(c.key))
	if !ok {
		c.chunk = len(c.p.chunks)
		return
	}
	c.key, c.payload = append(c.key[:r.shared], r.rest...), r.payload
	c.at += r.size
	c.ok = true
}

// get returns the payload of key. Keys of rows are compared as they lie, none is put
// together.
func (p *packed) get(key string) ([]byte, bool) {
	if p.n == 0 {
		return nil, false
	}
	chunk, at := p.near(key)
	rows := p.chunks[chunk].rows()
	match, prev := 0, 0 // the row before: bytes it begins with key, and its length
	for at < len(rows) {
		r, ok := parseRow(rows[at:], prev)
		if !ok {
			return nil, false
		}
		at, prev = at+r.size, r.shared+len(r.rest)
		if r.shared > match {
			continue // it differs from key where the one before did, and is below it too
		}
		match = r.shared + commonPrefix(r.rest, key[r.shared:])
		switch below := match < prev && match < len(key) && r.rest[match-r.shared] < key[match]; {
		case match == len(key) && match == prev:
			return r.payload, true
		case match < prev && !below:
			return nil, false
		}
	}
	return nil, false
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
