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
	// chunkTarget is where a chunk is cut; a larger row has one of its own. A look
	// into a table that lies on disk reads one of them.
	chunkTarget = 16 << 10
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

// First is the key of the first row, of a chunk that a TableBuilder made or TableOf
// took.
func (c Chunk) First() string { return string(c.first(0)) }

// packed is an immutable map in the order of its keys, packed into chunks. It costs
// a row its bytes and two or three more, and the garbage collector a slice for each
// chunk. Chunks that lie on disk cost what stored says.
type packed struct {
	chunks []Chunk // in memory
	stored *stored // chunks that lie on disk instead
	bytes  int64   // of the rows, wherever they are
	n      int
}

// size is the memory it takes with all of its rows, about.
func (p *packed) size() int64 { return p.bytes + 32*int64(p.len()) }

// resident is the memory it takes now, about.
func (p *packed) resident() int64 {
	if p.stored != nil {
		return p.stored.size()
	}
	return p.size()
}

// len is the number of chunks.
func (p *packed) len() int {
	if p.stored != nil {
		return len(p.stored.list)
	}
	return len(p.chunks)
}

// below reports whether chunk i begins with a key that is not above key.
func (p *packed) below(i int, key string) bool {
	if p.stored != nil {
		return p.stored.list[i].First <= key
	}
	return string(p.chunks[i].first(0)) <= key
}

// last is the chunk that has key if any has; -1 if all keys are above it.
func (p *packed) last(key string) int {
	return sort.Search(p.len(), func(i int) bool { return !p.below(i, key) }) - 1
}

// chunk returns chunk i, read if need be. Without read, errNotRead is the answer for
// one that is not in memory.
func (p *packed) chunk(i int, read bool) (Chunk, error) {
	if p.stored != nil {
		return p.stored.chunk(i, read)
	}
	return p.chunks[i], nil
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

// packedCursor stands at a row, or behind the last one, or where a chunk could not be
// read. A row that is malformed ends the map: nothing is read beyond a chunk.
type packedCursor struct {
	p       *packed
	chunk   int
	rows    []byte // of the chunk
	at      int    // of the next row in it
	ok      bool
	err     error  // of reading a chunk; nothing is known of rows from here on
	key     []byte // overwritten by next
	payload []byte
}

// seek returns a cursor at the first row whose key is not below key.
func (p *packed) seek(key string) packedCursor {
	c := packedCursor{p: p}
	if p.n == 0 {
		return c
	}
	if c.enter(max(p.last(key), 0), key, true); c.err != nil {
		return c
	}
	for c.next(); c.ok && string(c.key) < key; c.next() {
	}
	return c
}

// near is where to begin looking for key in a chunk: at a row whose key is whole, not
// above key unless all are.
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

// enter goes to chunk i, before the last row whose key is whole and not above key.
func (c *packedCursor) enter(i int, key string, read bool) {
	ch, err := c.p.chunk(i, read)
	if err != nil {
		c.err = err
		return
	}
	c.chunk, c.rows, c.key = i, ch.rows(), c.key[:0]
	c.at = ch.near(key)
}

// next goes to the next row.
func (c *packedCursor) next() {
	c.ok = false
	if c.chunk >= c.p.len() || c.err != nil {
		return
	}
	if c.at >= len(c.rows) {
		if c.chunk+1 == c.p.len() {
			c.chunk++
			return
		}
		if c.enter(c.chunk+1, "", true); c.err != nil {
			return
		}
	}
	r, ok := parseRow(c.rows[c.at:], len(c.key))
	if !ok {
		c.chunk, c.at = c.p.len(), len(c.rows)
		return
	}
	c.key, c.payload = append(c.key[:r.shared], r.rest...), r.payload
	c.at += r.size
	c.ok = true
}

// get returns the payload of key. Keys of rows are compared as they lie, none is put
// together. It reads at most one chunk, and none without read.
func (p *packed) get(key string, read bool) ([]byte, bool, error) {
	chunk := p.last(key)
	if chunk < 0 {
		return nil, false, nil
	}
	ch, err := p.chunk(chunk, read)
	if err != nil {
		return nil, false, err
	}
	rows, at := ch.rows(), ch.near(key)
	match, prev := 0, 0 // the row before: bytes it begins with key, and its length
	for at < len(rows) {
		r, ok := parseRow(rows[at:], prev)
		if !ok {
			return nil, false, nil
		}
		at, prev = at+r.size, r.shared+len(r.rest)
		if r.shared > match {
			continue // it differs from key where the one before did, and is below it too
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

// layers is several packed maps as one, oldest first: of equal keys the newest
// counts. It is a cursor.
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
	l.settle()
	return l
}

func (l *layers) ok() bool { return l.at >= 0 }

// settle finds the current row. Where one map could not be read, no row is known to
// be the next.
func (l *layers) settle() {
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
	l.settle()
}
