package engine

import "sync/atomic"

// ReadCounts counts reads of items and cached results in a saver's store. The zero value is ready; a
// nil one counts nothing.
type ReadCounts struct {
	ItemSearches             Latency
	itemHits, itemMisses     atomic.Uint64
	resultHits, resultMisses atomic.Uint64
}

// Item counts a read of an item by its key.
func (c *ReadCounts) Item(found bool) {
	if c != nil {
		count(found, &c.itemHits, &c.itemMisses)
	}
}

// Searched counts a search that began at begin.
func (c *ReadCounts) Searched(begin Time) {
	if c != nil {
		c.ItemSearches.Since(begin)
	}
}

// Results counts cache entries that were asked for and found.
func (c *ReadCounts) Results(asked, found int) {
	if c != nil {
		c.resultHits.Add(uint64(found))
		c.resultMisses.Add(uint64(asked - found))
	}
}

// Items returns how many items were found and not found so far.
func (c *ReadCounts) Items() (hits, misses uint64) { return c.itemHits.Load(), c.itemMisses.Load() }

// ResultsRead returns how many cache entries were found and not found so far.
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
