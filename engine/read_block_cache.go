package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

const cacheShards = 8

// blockCache keeps decoded segment blocks, and patches of the log and their bases, bounded by bytes.
// New entries are in one part of it; an entry that is used again after others came moves to the other
// part. Each part drops the least recently used. So reading many blocks once takes no more memory than
// the part for new entries, and drops nothing from the other. Blocks are immutable and shared with
// readers.
type blockCache struct {
	shards       [cacheShards]cacheShard
	flights      *flights
	hits, misses atomic.Uint64
}

type blockKey struct {
	file base.FileNum
	off  uint64
	// inner distinguishes the values of one record of an encrypted log file; 0 for a block of a
	// segment.
	inner uint32
}

// keyOf returns the key of the block that a value lies in, or of the value itself if it is in the log.
func keyOf(loc index.Loc) blockKey {
	if loc.InLog() {
		return blockKey{loc.File, loc.Off, loc.Inner}
	}
	return blockKey{file: loc.File, off: loc.Off}
}

type cacheShard struct {
	mu         sync.Mutex
	items      map[blockKey]*list.Element
	young, old cachePart
	last       blockKey // of the entry used last
	turns      uint64   // how often the entry used differed from the one used before
}

// cachePart is a list of entries, the least recently used last, bounded by bytes.
type cachePart struct {
	max, size int64
	order     list.List
}

func (p *cachePart) put(e *cacheEntry) *list.Element {
	p.size += e.size()
	return p.order.PushFront(e)
}

func (p *cachePart) take(el *list.Element) *cacheEntry {
	e := p.order.Remove(el).(*cacheEntry)
	p.size -= e.size()
	return e
}

// overfull returns the entry that is to leave; nil if none is.
func (p *cachePart) overfull() *list.Element {
	if p.size <= p.max {
		return nil
	}
	return p.order.Back()
}

const (
	// youngShare is how many eighths of the cache are for new entries.
	youngShare = 3
	// youngTurns is how many turns an entry counts as new, however often it is used: a call uses a
	// block once for each value in it, and a few calls may alternate.
	youngTurns = 32
)

type cacheEntry struct {
	key   blockKey
	block []byte
	patch *delta.Patch // instead of block
	came  uint64       // the turn
	old   bool         // in which part it is
}

// cacheEntrySize is about what an entry takes besides its bytes.
const cacheEntrySize = 224

func (e *cacheEntry) size() int64 {
	if e.patch != nil {
		return cacheEntrySize + int64(e.patch.Size())
	}
	return cacheEntrySize + int64(len(e.block))
}

func newBlockCache(bytes int64) *blockCache {
	c := &blockCache{flights: newFlights()}
	each := max(bytes, 0) / cacheShards
	for i := range c.shards {
		s := &c.shards[i]
		s.items = map[blockKey]*list.Element{}
		s.young.max = each * youngShare / 8
		s.old.max = each - s.young.max
	}
	return c
}

// largest is the size of the largest entry that is kept.
func (c *blockCache) largest() int64 { return c.shards[0].young.max }

// bytes is how much the cache holds.
func (c *blockCache) bytes() (n int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.young.size + s.old.size
		s.mu.Unlock()
	}
	return n
}

func (c *blockCache) shard(k blockKey) *cacheShard {
	h := uint64(k.file)*0x9e3779b97f4a7c15 ^ k.off*0xbf58476d1ce4e5b9
	return &c.shards[h>>61]
}

func (c *blockCache) get(k blockKey) ([]byte, bool) {
	e, ok := c.entry(k)
	if !ok {
		return nil, false
	}
	return e.block, e.patch == nil
}

// getPatch is get for a patch of the log.
func (c *blockCache) getPatch(k blockKey) (*delta.Patch, bool) {
	e, ok := c.entry(k)
	if !ok {
		return nil, false
	}
	return e.patch, e.patch != nil
}

// has reports whether a block is kept. It does not count as a use.
func (c *blockCache) has(k blockKey) bool {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.items[k]
	return ok
}

func (c *blockCache) entry(k blockKey) (*cacheEntry, bool) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.items[k]
	if !ok {
		c.misses.Add(1)
		return nil, false
	}
	c.hits.Add(1)
	return s.use(e), true
}

// use makes an entry the one used last.
func (s *cacheShard) use(el *list.Element) *cacheEntry {
	e := el.Value.(*cacheEntry)
	if s.last != e.key {
		s.last = e.key
		s.turns++
	}
	switch {
	case e.old:
		s.old.order.MoveToFront(el)
	case s.turns-e.came <= youngTurns:
		s.young.order.MoveToFront(el)
	default:
		s.young.take(el)
		e.old = true
		s.items[e.key] = s.old.put(e)
		for el := s.old.overfull(); el != nil; el = s.old.overfull() {
			s.enter(s.old.take(el))
		}
		s.trim()
	}
	return e
}

// enter puts an entry among the new ones.
func (s *cacheShard) enter(e *cacheEntry) {
	s.last = e.key
	s.turns++
	e.old, e.came = false, s.turns
	s.items[e.key] = s.young.put(e)
}

// trim drops new entries that are too many.
func (s *cacheShard) trim() {
	for el := s.young.overfull(); el != nil; el = s.young.overfull() {
		delete(s.items, s.young.take(el).key)
	}
}

// add keeps a block, unless it is larger than largest.
func (c *blockCache) add(k blockKey, block []byte) { c.keep(&cacheEntry{key: k, block: block}) }

// addPatch is add for a patch of the log.
func (c *blockCache) addPatch(k blockKey, p *delta.Patch) { c.keep(&cacheEntry{key: k, patch: p}) }

func (c *blockCache) keep(e *cacheEntry) {
	s := c.shard(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[e.key]; ok || e.size() > s.young.max {
		return
	}
	s.enter(e)
	s.trim()
}

// flights makes concurrent misses of one block read it once.
type flights struct {
	mu sync.Mutex
	m  map[blockKey]*flight
}

// flight is a read in progress. The block may be read once done is closed; it is nil
// if the read failed.
type flight struct {
	done    chan struct{} // made by the first who waits; guarded by the lock of flights
	block   []byte
	waiters int // guarded by the lock of flights
}

func newFlights() *flights { return &flights{m: map[blockKey]*flight{}} }

// read returns the block that fn reads, or that another call is already reading for key. If that read
// fails, each waiting caller calls its own fn, so that the error is its own. shared says that other
// callers hold the block too.
func (f *flights) read(key blockKey, fn func() ([]byte, error)) (block []byte, shared bool, err error) {
	f.mu.Lock()
	if fl := f.m[key]; fl != nil {
		if fl.waiters++; fl.done == nil {
			fl.done = make(chan struct{})
		}
		done := fl.done
		f.mu.Unlock()
		<-done
		if fl.block != nil {
			return fl.block, true, nil
		}
		block, err = fn()
		return block, false, err
	}
	fl := new(flight)
	f.m[key] = fl
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.m, key)
		shared = fl.waiters > 0
		f.mu.Unlock()
		if shared {
			close(fl.done)
		}
	}()
	if block, err = fn(); err == nil {
		fl.block = block
	}
	return block, false, err
}
