package metrics

import "sync/atomic"

// Beside counts what is read from the stores of items and caches beside the
// checkpoints of a saver. The zero value is ready; a nil one counts nothing.
type Beside struct {
	ItemSearches             Latency
	itemHits, itemMisses     atomic.Uint64
	resultHits, resultMisses atomic.Uint64
}

// Item counts an item that was asked for by its key.
func (b *Beside) Item(found bool) {
	if b != nil {
		count(found, &b.itemHits, &b.itemMisses)
	}
}

// Searched counts a search that began then.
func (b *Beside) Searched(begin Time) {
	if b != nil {
		b.ItemSearches.Since(begin)
	}
}

// Results counts entries of a cache: so many asked for, so many found.
func (b *Beside) Results(asked, found int) {
	if b != nil {
		b.resultHits.Add(uint64(found))
		b.resultMisses.Add(uint64(asked - found))
	}
}

// Items are the items found and not found so far.
func (b *Beside) Items() (hits, misses uint64) { return b.itemHits.Load(), b.itemMisses.Load() }

// ResultsRead are the entries of caches found and not found so far.
func (b *Beside) ResultsRead() (hits, misses uint64) {
	return b.resultHits.Load(), b.resultMisses.Load()
}

func count(yes bool, hits, misses *atomic.Uint64) {
	if yes {
		hits.Add(1)
		return
	}
	misses.Add(1)
}
