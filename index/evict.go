package index

import "github.com/stele-go/stele/base"

// Restore fills an empty index from images: tables, oldest first, each with the changes since the one
// before, up to record lsn. If partitions is below 0, their number is counted. Nothing counts as
// changed afterwards. An error is that of reading a table, and leaves the index empty.
func (ix *Index) Restore(chain []*Table, partitions int, tombs []Tombstone, lsn base.LSN) error {
	ts, err := layered(chain)
	if err == nil && partitions < 0 {
		partitions, err = ts.live()
	}
	if err != nil {
		return err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.tables, ix.n = ts, partitions
	ix.lsn, ix.imaged = lsn, lsn
	for _, m := range tombs {
		ix.tombs[m.ID] = m
	}
	return nil
}

// Install tells the index the content of an image that has become part of the store: all partitions and
// families if it is a full one, otherwise those that changed since the last image. dirty is from
// ViewDirty, lsn the record of that view. Calls must not overlap.
//
// From now on the partitions of the image can be evicted; cold ones are evicted immediately.
func (ix *Index) Install(t *Table, full bool, lsn base.LSN, dirty Dirty) {
	ix.mu.RLock()
	chain := ix.tables
	ix.mu.RUnlock()
	if full {
		chain = tables{t}
	} else {
		chain = chain.with(t)
	}
	for _, f := range ix.enter(chain, lsn, dirty) {
		ix.fams.drop(f)
	}
	// Many changed partitions may have waited to be evicted. Two rounds are enough: the first spares
	// those that were read.
	for n := 2 * (ix.inTree()/evictSteps + 1); n > 0 && ix.evictSome(); n-- {
	}
}

// enter replaces the tables and returns the families of the partitions that left the tree, for the
// caller to drop.
func (ix *Index) enter(chain tables, lsn base.LSN, dirty Dirty) (out []*Family) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.tables, ix.imaged = chain, max(ix.imaged, lsn)
	ix.own()
	key := keys.Get().(*Partition)
	defer keys.Put(key)
	for id := range dirty.Partitions {
		key.ID = id
		if t, ok := ix.partitions.Get(key); ok && t.Cold() && ix.known(t) {
			if f := ix.unset(t); f != nil {
				out = append(out, f)
			}
		}
	}
	return out
}

func (ix *Index) inTree() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.partitions.Len()
}

// evictSome is evict for a caller that does not hold the lock. It reports whether there is more to
// evict.
func (ix *Index) evictSome() bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.evict()
	return ix.resident > ix.budget
}

// known reports whether the tables have all of t, so that it can be made anew from them. It reads
// nothing: false if the row of t is not in memory.
func (ix *Index) known(t *Partition) bool {
	if t.LSN > ix.imaged || ix.dirty.Partitions[t.ID] {
		return false
	}
	if t.removed {
		_, ok, err := ix.tables.partition(t.ID, false)
		return err == nil && !ok
	}
	r := RowOf(t)
	return ix.tables.says(&r)
}

// evictSteps is how many partitions a change looks at, at most, to evict some. A change
// adds one partition or a few, so that this is enough to keep pace.
const evictSteps = 16

// evict removes partitions from the tree while it is over the budget: those that the tables have, and
// that nobody has read since the last round. It goes round in the order of ids.
func (ix *Index) evict() {
	if ix.resident <= ix.budget {
		return
	}
	ix.own()
	var out []*Partition
	freed, steps, end := int64(0), 0, true
	ix.partitions.AscendGreaterOrEqual(&Partition{ID: ix.hand}, func(t *Partition) bool {
		if steps == evictSteps || ix.resident-freed <= ix.budget {
			ix.hand, end = t.ID, false
			return false
		}
		steps++
		if !t.Cold() && ix.spares(t.Family) && ix.budget > 0 {
			return true
		}
		if ix.known(t) {
			out, freed = append(out, t), freed+t.size
		}
		return true
	})
	if end {
		ix.hand = ""
		ix.round++
	}
	for _, t := range out {
		if f := ix.unset(t); f != nil {
			ix.fams.drop(f)
		}
	}
	ix.evicted += uint64(len(out))
}

// spares reports whether the partitions of a family stay in this round because one of them was read
// since the last. All stay, as it is not known which one was read.
func (ix *Index) spares(f *Family) bool {
	if f.spared != ix.round && f.used.Swap(false) {
		f.spared = ix.round
	}
	return f.spared == ix.round
}

// Evict removes t from memory if the tables have all of it. A caller that has loaded a partition to
// read it once calls it.
func (ix *Index) Evict(t *Partition) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if cur, ok := ix.partitions.Get(t); ok && cur == t && ix.known(t) {
		ix.own()
		if f := ix.unset(t); f != nil {
			ix.fams.drop(f)
		}
	}
}

// Memory returns about how many bytes the index takes: loaded is for partitions that are loaded or
// newer than the tables, tables for the tables. evicted counts the partitions evicted so far.
func (ix *Index) Memory() (loaded, tables int64, evicted uint64) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, t := range ix.tables {
		tables += t.Resident()
	}
	return ix.resident, tables, ix.evicted
}
