package index

import (
	"errors"
	"fmt"
	"sort"
	"sync/atomic"

	"github.com/stele-go/stele/base/fault"
)

// Stored describes a chunk on disk, or a list of such chunks, so that a lookup need not read it.
type Stored struct {
	First string // the key of its first row
	Off   uint64 // where it lies, for Disk
	Size  int64  // bytes of the rows, about: what they will take in memory
	N     int    // rows
	Len   uint32 // its length there, for Disk
	List  bool   // a list: of chunks, or of lists that lie below it
}

// Holds tests whether list is the one that s describes: it begins with the same key, keys ascend and
// stay below end ("" is no bound), and rows and bytes add up. Then a bisection of keys leads to the one
// chunk that a key can be in.
func (s *Stored) Holds(list []Stored, end string) error {
	n, size, err := sumOf(list)
	if err != nil || len(list) == 0 || list[0].First != s.First || end != "" && list[len(list)-1].First >= end || n != s.N || size != s.Size {
		return fmt.Errorf("%w: the list is not the one announced", errPacked)
	}
	return nil
}

// sumOf adds up the rows and bytes of a list, and tests the order of its keys.
func sumOf(list []Stored) (n int, size int64, err error) {
	for i := range list {
		s := &list[i]
		if s.N <= 0 || s.Size < int64(s.N) || i > 0 && s.First <= list[i-1].First {
			return 0, 0, errPacked
		}
		n += s.N
		size += s.Size
	}
	return n, size, nil
}

// Disk reads chunks and lists, and checks their bytes. It may be called concurrently, and again after
// an error.
type Disk interface {
	// Chunk reads a chunk of the partitions, or of the families.
	Chunk(families bool, at *Stored) (Chunk, error)
	// List reads a list, whose keys are below end unless that is "".
	List(families bool, at *Stored, end string) ([]Stored, error)
}

// errNotRead is the error of a lookup that may not read, for rows that lie on disk.
var errNotRead = errors.New("rows are not in memory")

// MaxDepth is how many steps lead to a chunk at most: lists, and the last to the chunk.
// Lists of two would lead to more rows than there can be.
const MaxDepth = 32

// stored are chunks and lists of chunks on disk. They are read when first needed, and stay in memory
// from then on: a lookup of the same key reads nothing again.
type stored struct {
	disk     Disk
	families bool
	top      *level
	held     atomic.Int64 // bytes in memory
}

// level is one list, and those of its items that were read.
type level struct {
	list  []Stored
	below []atomic.Pointer[loaded]
	end   string // all keys are below it; "" is no bound
	depth int
}

// loaded is a chunk, or a list if there is a level.
type loaded struct {
	chunk Chunk
	level *level
}

// storedSize is the memory that an unread item takes beside its key.
const storedSize = 56

func newLevel(list []Stored, end string, depth int) *level {
	return &level{list: list, below: make([]atomic.Pointer[loaded], len(list)), end: end, depth: depth}
}

// size returns the memory that the list takes, without the items that were read.
func (l *level) size() int64 {
	n := int64(0)
	for i := range l.list {
		n += storedSize + int64(len(l.list[i].First))
	}
	return n
}

// last returns the item that has key if any has; -1 if all keys are above it.
func (l *level) last(key string) int {
	return sort.Search(len(l.list), func(i int) bool { return l.list[i].First > key }) - 1
}

// get returns the item i of l. With mayRead it is read if need be. If two callers read it concurrently,
// one result is kept.
func (s *stored) get(l *level, i int, mayRead bool) (*loaded, error) {
	if r := l.below[i].Load(); r != nil {
		return r, nil
	}
	if !mayRead {
		return nil, errNotRead
	}
	r, size, err := s.read(l, i)
	if err != nil {
		return nil, err
	}
	if !l.below[i].CompareAndSwap(nil, r) {
		return l.below[i].Load(), nil
	}
	s.held.Add(size)
	return r, nil
}

// read reads item i of l, and returns it and the memory it takes.
func (s *stored) read(l *level, i int) (*loaded, int64, error) {
	at := &l.list[i]
	if !at.List {
		c, err := s.disk.Chunk(s.families, at)
		if err == nil {
			err = at.fits(c)
		}
		return &loaded{chunk: c}, int64(len(c.Data)), err
	}
	end := l.end
	if i+1 < len(l.list) {
		end = l.list[i+1].First
	}
	list, err := s.disk.List(s.families, at, end)
	if err != nil {
		return nil, 0, err
	}
	if err = at.Holds(list, end); err == nil && l.depth == MaxDepth {
		err = errPacked
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	below := newLevel(list, end, l.depth+1)
	return &loaded{level: below}, below.size(), nil
}

// fits tests whether c is the chunk that s describes, so that a bisection of the keys has led to the
// one chunk that a key can be in.
func (s *Stored) fits(c Chunk) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	first := c.first(0)
	if c.N != s.N || first == nil || string(first) != s.First {
		return fmt.Errorf("%w: %w: the chunk does not begin as announced", fault.ErrCorrupt, errPacked)
	}
	return nil
}

// at goes down from item i of l to the chunk that has key if any has, or to the first one if all keys
// are above it.
func (s *stored) at(l *level, i int, key string, mayRead bool) (spot, error) {
	for {
		r, err := s.get(l, i, mayRead)
		if err != nil {
			return spot{}, err
		}
		if r.level == nil {
			return spot{chunk: r.chunk, first: l.list[i].First}, nil
		}
		l = r.level
		i = max(l.last(key), 0)
	}
}

// after returns the chunk in l, or below it, behind the one that begins with first; false if that is
// the last.
func (s *stored) after(l *level, first string) (next spot, ok bool, err error) {
	i := l.last(first)
	if l.list[i].List {
		r, err := s.get(l, i, true)
		if err != nil {
			return next, false, err
		}
		if next, ok, err = s.after(r.level, first); ok || err != nil {
			return next, ok, err
		}
	}
	if i+1 == len(l.list) {
		return next, false, nil
	}
	next, err = s.at(l, i+1, "", true)
	return next, err == nil, err
}

// packedAt returns a map whose chunks lie on disk.
func packedAt(list []Stored, families bool, disk Disk) (packed, error) {
	n, size, err := sumOf(list)
	if err != nil {
		return packed{}, err
	}
	s := &stored{disk: disk, families: families, top: newLevel(list, "", 1)}
	s.held.Add(s.top.size())
	return packed{stored: s, n: n, bytes: size}, nil
}

// TableAt returns a table whose chunks and lists lie on disk. partitions and families describe
// them; at first only these descriptions are in memory. A chunk or list is read when it is first
// needed. A lookup returns the errors of disk unchanged, and fault.ErrCorrupt if a chunk or list
// does not match its description.
func TableAt(partitions, families []Stored, disk Disk) (*Table, error) {
	var t Table
	var err error
	if t.partitions, err = packedAt(partitions, false, disk); err != nil {
		return nil, fmt.Errorf("threads: %w", err)
	}
	if t.families, err = packedAt(families, true, disk); err != nil {
		return nil, fmt.Errorf("families: %w", err)
	}
	return &t, nil
}
