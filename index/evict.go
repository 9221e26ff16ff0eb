package index

import "github.com/stele-go/stele/internal/base"

// Restore fills an empty index with what images say: tables, oldest first, each with
// what changed since the one before, up to record lsn. The number of threads is
// counted if it is below 0. Nothing of it counts as changed.
func (ix *Index) Restore(chain []*Table, threads int, memos []Memo, lsn base.LSN) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.tables = layered(chain)
	if ix.n = threads; threads < 0 {
		ix.n = ix.tables.live()
	}
	ix.lsn, ix.imaged = lsn, lsn
	for _, m := range memos {
		ix.memos[m.ID] = m
	}
}

// Install tells the index what an image holds that has become part of the store: all
// threads and families if it is a full one, else what changed since the last. The
// dirty set is the one ViewDirty gave, lsn the record of that view. Calls are one at
// a time.
//
// From now on the threads of the image can be evicted: what is cold goes at once.
func (ix *Index) Install(t *Table, full bool, lsn base.LSN, dirty Dirty) {
	ix.mu.RLock()
	chain := ix.tables
	ix.mu.RUnlock()
	if full {
		chain = tables{t}
	} else {
		chain = chain.with(t)
	}
	ix.enter(chain, lsn, dirty)
	// Much of what changed may have waited for this. Twice round is enough: the
	// first time forgives what has been read.
	for n := 2 * (ix.inTree()/evictSteps + 1); n > 0 && ix.evictSome(); n-- {
	}
}

func (ix *Index) enter(chain tables, lsn base.LSN, dirty Dirty) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.tables, ix.imaged = chain, max(ix.imaged, lsn)
	ix.own()
	for id := range dirty.Threads {
		if t, ok := ix.threads.Get(&Thread{ID: id}); ok && t.Cold() && ix.known(t) {
			ix.unset(t)
		}
	}
}

func (ix *Index) inTree() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.threads.Len()
}

// evictSome is evict for who does not hold the lock; it reports whether there is
// more to do.
func (ix *Index) evictSome() bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.evict()
	return ix.resident > ix.budget
}

// known reports whether the tables say the same of t, so that it can be made anew.
func (ix *Index) known(t *Thread) bool {
	if t.LSN > ix.imaged || ix.dirty.Threads[t.ID] {
		return false
	}
	if t.removed {
		_, ok := ix.tables.thread(t.ID)
		return !ok
	}
	r := RowOf(t)
	return ix.tables.says(&r)
}

// evictSteps is how many threads a change looks at, at most, to evict some. A change
// adds one thread or a few, so that this is enough to keep pace.
const evictSteps = 16

// evict takes threads out of the tree while it is over the budget: those that the
// tables know, and that nobody has read since the evicter last came by. It goes
// round in the order of ids.
func (ix *Index) evict() {
	if ix.resident <= ix.budget {
		return
	}
	ix.own()
	var out []*Thread
	freed, steps, end := int64(0), 0, true
	ix.threads.AscendGreaterOrEqual(&Thread{ID: ix.hand}, func(t *Thread) bool {
		if steps == evictSteps || ix.resident-freed <= ix.budget {
			ix.hand, end = t.ID, false
			return false
		}
		steps++
		if t.used != nil && t.used.Swap(false) && ix.budget > 0 {
			return true
		}
		if ix.known(t) {
			out, freed = append(out, t), freed+t.size
		}
		return true
	})
	if end {
		ix.hand = ""
	}
	for _, t := range out {
		ix.unset(t)
	}
	ix.evicted += uint64(len(out))
}

// Evict takes t out of memory if the tables know all of it. Who has loaded a thread
// for a single look calls it.
func (ix *Index) Evict(t *Thread) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if cur, ok := ix.threads.Get(t); ok && cur == t && ix.known(t) {
		ix.own()
		ix.unset(t)
	}
}

// Memory is what the index holds, in bytes, about: loaded threads and what is newer
// than the tables, and the tables. Evicted counts the threads evicted so far.
func (ix *Index) Memory() (loaded, tables int64, evicted uint64) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, t := range ix.tables {
		tables += t.Size()
	}
	return ix.resident, tables, ix.evicted
}
