package engine

import "sync/atomic"

// ReadCounts counts what is read from the stores of items and caches beside the
// checkpoints of a saver. The zero value is ready; a nil one counts nothing.
type ReadCounts struct {
	ItemSearches             Latency
	itemHits, itemMisses     atomic.Uint64
	resultHits, resultMisses atomic.Uint64
}

// Item counts an item that was asked for by its key.
func (c *ReadCounts) Item(found bool) {
	if c != nil {
		count(found, &c.itemHits, &c.itemMisses)
	}
}

// Searched counts a search that began then.
func (c *ReadCounts) Searched(begin Time) {
	if c != nil {
		c.ItemSearches.Since(begin)
	}
}

// Results counts entries of a cache: so many asked for, so many found.
func (c *ReadCounts) Results(asked, found int) {
	if c != nil {
		c.resultHits.Add(uint64(found))
		c.resultMisses.Add(uint64(asked - found))
	}
}

// Items are the items found and not found so far.
func (c *ReadCounts) Items() (hits, misses uint64) { return c.itemHits.Load(), c.itemMisses.Load() }

// ResultsRead are the entries of caches found and not found so far.
func (c *ReadCounts) ResultsRead() (hits, misses uint64) {
	return c.resultHits.Load(), c.resultMisses.Load()
}

func count(yes bool, hits, misses *atomic.Uint64) {
	if yes {
		hits.Add(1)
		return
	}
	misses.Add(1)
}
