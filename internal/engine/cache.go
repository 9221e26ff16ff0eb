package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/internal/base"
)

const cacheShards = 8

// blockCache keeps decoded segment blocks, least recently used out, bounded by
// bytes. Blocks are immutable and shared with readers.
type blockCache struct {
	shards       [cacheShards]cacheShard
	hits, misses atomic.Uint64
}

type blockKey struct {
	file base.FileNum
	off  uint64
}

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
}

func newBlockCache(bytes int64) *blockCache {
	c := &blockCache{}
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
	return e.Value.(*cacheEntry).block, true
}

// add keeps a block, unless it alone would fill half of the shard.
func (c *blockCache) add(k blockKey, block []byte) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[k]; ok || int64(len(block)) > s.max/2 {
		return
	}
	s.items[k] = s.order.PushFront(&cacheEntry{k, block})
	s.size += int64(len(block))
	for s.size > s.max {
		last := s.order.Back()
		old := s.order.Remove(last).(*cacheEntry)
		delete(s.items, old.key)
		s.size -= int64(len(old.block))
	}
}
