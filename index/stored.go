package index

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stele-go/stele/internal/base"
)

// Stored says of a chunk that lies on disk what a look must know without reading it.
type Stored struct {
	First string // the key of its first row
	Size  int    // bytes of its rows, about: what it will take in memory
	N     int    // rows
}

// ReadChunk reads chunk i of the threads, or of the families, and checks its bytes. It
// may be called concurrently, and again for a chunk whose reading failed.
type ReadChunk func(families bool, i int) (Chunk, error)

// errNotRead is the answer of a look that may not read, for rows that lie on disk.
var errNotRead = errors.New("rows are not in memory")

// stored are chunks that are read when somebody first looks into them, and stay in
// memory then. A chunk once read is never let go: who has looked at a key can look
// again without reading.
type stored struct {
	list []Stored
	data []atomic.Pointer[Chunk]
	read func(i int) (Chunk, error)
	held atomic.Int64 // bytes of the chunks in memory
}

// storedSize is the memory a chunk takes that is not read, besides its key.
const storedSize = 48

// size is the memory it takes now, about.
func (s *stored) size() int64 {
	n := s.held.Load()
	for i := range s.list {
		n += storedSize + int64(len(s.list[i].First))
	}
	return n
}

// chunk returns chunk i. Of two that read it at once one is kept.
func (s *stored) chunk(i int, read bool) (Chunk, error) {
	if c := s.data[i].Load(); c != nil {
		return *c, nil
	}
	if !read {
		return Chunk{}, errNotRead
	}
	c, err := s.read(i)
	if err != nil {
		return Chunk{}, err
	}
	if err := s.fits(i, c); err != nil {
		return Chunk{}, err
	}
	if s.data[i].CompareAndSwap(nil, &c) {
		s.held.Add(int64(len(c.Data)))
	}
	return c, nil
}

// fits tests that c is the chunk that was announced: a bisection of the keys must
// have led to the one chunk that a key can be in.
func (s *stored) fits(i int, c Chunk) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("%w: %w", base.ErrCorrupt, err)
	}
	first := c.first(0)
	if c.N != s.list[i].N || first == nil || string(first) != s.list[i].First {
		return fmt.Errorf("%w: %w: the chunk does not begin as announced", base.ErrCorrupt, errPacked)
	}
	return nil
}

// packedAt is a map whose chunks lie on disk.
func packedAt(list []Stored, read func(i int) (Chunk, error)) (packed, error) {
	p := packed{stored: &stored{list: list, data: make([]atomic.Pointer[Chunk], len(list)), read: read}}
	for i, c := range list {
		if c.N <= 0 || c.Size < 0 || i > 0 && c.First <= list[i-1].First {
			return packed{}, errPacked
		}
		p.bytes += int64(c.Size)
		p.n += c.N
	}
	return p, nil
}

// TableAt is a table whose chunks are read when somebody first looks into them: it
// takes the memory of their first keys until then. Looks return the errors of read as
// they are, and base.ErrCorrupt for a chunk that is not the one announced.
func TableAt(threads, families []Stored, read ReadChunk) (*Table, error) {
	var t Table
	var err error
	if t.threads, err = packedAt(threads, func(i int) (Chunk, error) { return read(false, i) }); err != nil {
		return nil, fmt.Errorf("threads: %w", err)
	}
	if t.families, err = packedAt(families, func(i int) (Chunk, error) { return read(true, i) }); err != nil {
		return nil, fmt.Errorf("families: %w", err)
	}
	return &t, nil
}
