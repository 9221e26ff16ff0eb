package index

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

const (
	// packedEvery is how many rows share a key that is written whole: a lookup reads half as many on
	// average.
	packedEvery = 16
	// chunkTarget is the size at which a chunk is cut; a larger row has a chunk of its own. A lookup in
	// a table on disk reads one chunk.
	chunkTarget = 16 << 10
	startSize   = 4
	rowExtra    = 3*binary.MaxVarintLen32 + startSize // a row takes at most besides key and payload
)

// errPacked is the error for a chunk that no packer wrote.
var errPacked = errors.New("malformed rows")

// Chunk is a run of rows, encoded as they are in memory and in an image: each key without the prefix
// that it shares with the key before, and its payload; then the places of every sixteenth row, whose
// key is whole. Its bytes are shared and never change.
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

// check tests the places of rows, so that no lookup leaves the chunk. Rows are tested as they are read.
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

// First is the key of the first row, of a chunk that a TableBuilder made or TableOf
// took.
func (c Chunk) First() string { return string(c.first(0)) }

// packed is an immutable map in the order of its keys, packed into chunks. A row costs two or three
// bytes beside its own, and the garbage collector sees one slice for each chunk. For the cost of chunks
// on disk see stored.
type packed struct {
	chunks []Chunk // in memory
	stored *stored // chunks that lie on disk instead
	bytes  int64   // of the rows, wherever they are
	n      int     // rows
}

// chunkSize is the memory a chunk takes besides its bytes.
const chunkSize = 32

// resident returns about how much memory the map takes now.
func (p *packed) resident() int64 {
	if p.stored != nil {
		return p.stored.held.Load()
	}
	return p.bytes + chunkSize*int64(len(p.chunks))
}

// spot is a chunk of a map, and its position in the map.
type spot struct {
	chunk Chunk
	i     int    // among those in memory
	first string // key of its first row, of one that lies on disk
}

// last returns the chunk, or the list that leads to it, that has key if any has; -1 if all keys are
// above it.
func (p *packed) last(key string) int {
	if p.stored != nil {
		return p.stored.top.last(key)
	}
	return sort.Search(len(p.chunks), func(i int) bool { return string(p.chunks[i].first(0)) > key }) - 1
}

// at returns the chunk that last leads to. With read it is read if need be; otherwise a chunk that is
// not in memory is errNotRead.
func (p *packed) at(last int, key string, read bool) (spot, error) {
	if p.stored != nil {
		return p.stored.at(p.stored.top, last, key, read)
	}
	return spot{chunk: p.chunks[last], i: last}, nil
}

// after returns the chunk behind one; false if that is the last.
func (p *packed) after(s spot) (spot, bool, error) {
	if p.stored != nil {
		return p.stored.after(p.stored.top, s.first)
	}
	i := s.i + 1
	if i == len(p.chunks) {
		return spot{}, false, nil
	}
	return spot{chunk: p.chunks[i], i: i}, true, nil
}

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
	c := p.seek("")
	for ; c.ok; c.next() {
		if n > 0 && string(c.key) <= string(prev) || !payload(c.payload) {
			return errPacked
		}
		n++
		prev = append(prev[:0], c.key...)
	}
	if c.err != nil {
		return c.err
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

// packedCursor stands at a row, or behind the last one. At a malformed row it ends, as if that row were
// behind the last one: no later chunk is read, and err stays nil. If a chunk cannot be read it ends
// with err.
type packedCursor struct {
	p       *packed
	spot    spot
	rows    []byte // of the chunk
	at      int    // of the next row in it
	end     bool   // there is no row behind
	ok      bool
	err     error  // of reading a chunk; nothing is known of rows from here on
	key     []byte // overwritten by next
	payload []byte
}

// seek returns a cursor at the first row whose key is not below key.
func (p *packed) seek(key string) packedCursor {
	c := packedCursor{p: p, end: p.n == 0}
	if c.end {
		return c
	}
	var in spot
	if in, c.err = p.at(max(p.last(key), 0), key, true); c.err != nil {
		return c
	}
	c.enter(in, key)
	for c.next(); c.ok && string(c.key) < key; c.next() {
	}
	return c
}

// near returns the row from which to search for key in a chunk: the last row with a whole key that is
// not above key, or the first row.
func (c Chunk) near(key string) int {
	i := sort.Search(c.starts(), func(i int) bool { return string(c.first(i)) > key })
	return c.start(max(i-1, 0))
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

// enter goes into a chunk, before the last row whose key is whole and not above key.
func (c *packedCursor) enter(in spot, key string) {
	c.spot, c.rows, c.key = in, in.chunk.rows(), c.key[:0]
	c.at = in.chunk.near(key)
}

// next goes to the next row.
func (c *packedCursor) next() {
	c.ok = false
	if c.end || c.err != nil {
		return
	}
	if c.at >= len(c.rows) {
		next, ok, err := c.p.after(c.spot)
		if c.end, c.err = !ok, err; !ok {
			return
		}
		c.enter(next, "")
	}
	r, ok := parseRow(c.rows[c.at:], len(c.key))
	if !ok {
		c.end = true
		return
	}
	c.key, c.payload = append(c.key[:r.shared], r.rest...), r.payload
	c.at += r.size
	c.ok = true
}

// get returns the payload of key. It compares keys in their encoded form, without allocating. It reads
// at most one chunk and the lists that lead to it, and nothing without read.
func (p *packed) get(key string, read bool) ([]byte, bool, error) {
	last := p.last(key)
	if last < 0 {
		return nil, false, nil
	}
	in, err := p.at(last, key, read)
	if err != nil {
		return nil, false, err
	}
	rows, at := in.chunk.rows(), in.chunk.near(key)
	match, prev := 0, 0 // of the row before: how many bytes its key shares with key, and its key's length
	for at < len(rows) {
		r, ok := parseRow(rows[at:], prev)
		if !ok {
			return nil, false, nil
		}
		at, prev = at+r.size, r.shared+len(r.rest)
		if r.shared > match {
			continue // it differs from key at the same byte as the row before, so it is below key, too
		}
		match = r.shared + commonPrefix(r.rest, key[r.shared:])
		switch below := match < prev && match < len(key) && r.rest[match-r.shared] < key[match]; {
		case match == len(key) && match == prev:
			return r.payload, true, nil
		case match < prev && !below:
			return nil, false, nil
		}
	}
	return nil, false, nil
}

// layers is a cursor over several packed maps, oldest first: of rows with equal keys it shows that of
// the newest map.
type layers struct {
	cs      []packedCursor
	at      int // the cursor that is at the current row; -1 behind the last one
	err     error
	key     []byte
	payload []byte
}

func newLayers(ps []*packed, from string) *layers {
	l := &layers{cs: make([]packedCursor, len(ps))}
	for i, p := range ps {
		l.cs[i] = p.seek(from)
	}
	l.position()
	return l
}

func (l *layers) ok() bool { return l.at >= 0 }

// position finds the current row. If one map could not be read, there is no current row, as the next
// one may be missing.
func (l *layers) position() {
	l.at = -1
	for i := range l.cs {
		c := &l.cs[i]
		if c.err != nil {
			l.at, l.err = -1, c.err
			return
		}
		if c.ok && (l.at < 0 || string(c.key) <= string(l.cs[l.at].key)) {
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
	l.position()
}
