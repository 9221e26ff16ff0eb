package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/delta"
)

const cacheShards = 8

// blockCache keeps decoded segment blocks, and of the log the patches and what they
// are against, least recently used out, bounded by bytes. Blocks are immutable and
// shared with readers.
type blockCache struct {
	shards       [cacheShards]cacheShard
	flights      *flights
	hits, misses atomic.Uint64
}

type blockKey struct {
	file base.FileNum
	off  uint64
	// inner tells the values of one record of an encrypted log file apart; 0 for a
	// block of a segment.
	inner uint32
}

// logKey is the key of a value in the log.
func logKey(loc index.Loc) blockKey { return blockKey{loc.File, loc.Off, loc.Inner} }

type cacheShard struct {
	mu    sync.Mutex
	max   int64
	size  int64
	items map[blockKey]*list.Element
	order list.List
}

type cacheEntry struct {
	key   blockKey
	block []byte
	patch *delta.Patch // instead of block
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
	for i := range c.shards {
		c.shards[i].max = max(bytes, 0) / cacheShards
		c.shards[i].items = map[blockKey]*list.Element{}
	}
	return c
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
	s.order.MoveToFront(e)
	return e.Value.(*cacheEntry), true
}

// add keeps a block, unless it alone would fill half of the shard.
func (c *blockCache) add(k blockKey, block []byte) { c.keep(&cacheEntry{key: k, block: block}) }

// addPatch is add for a patch of the log.
func (c *blockCache) addPatch(k blockKey, p *delta.Patch) { c.keep(&cacheEntry{key: k, patch: p}) }

func (c *blockCache) keep(e *cacheEntry) {
	s := c.shard(e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[e.key]; ok || e.size() > s.max/2 {
		return
	}
	s.items[e.key] = s.order.PushFront(e)
	s.size += e.size()
	for s.size > s.max {
		last := s.order.Back()
		old := s.order.Remove(last).(*cacheEntry)
		delete(s.items, old.key)
		s.size -= old.size()
	}
}
