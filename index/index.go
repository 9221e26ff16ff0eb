package index

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/btree"

	"github.com/stele-go/stele/base"
)

// Tombstone says that a partition was deleted. It is kept until a segment holds it; with
// data, also for Options.DeletedMemory, so that late writes are refused.
type Tombstone struct {
	ID   string
	LSN  base.LSN // the record that deleted it
	At   int64    // unix µs
	Data []byte   // the caller's; empty in a mere tombstone
}

// Index is the root: the partitions by id, and the memory of deleted ones. Readers
// are concurrent; writers are one at a time, by the index's own lock.
type Index struct {
	mu         sync.RWMutex
	partitions *btree.BTreeG[*Partition] // what is loaded, or newer than the tables
	shared     bool                      // the tree is held by a view and must be cloned before a change
	tables     tables                    // all partitions, as of the images
	imaged     base.LSN                  // the last record the tables know
	n          int                       // partitions
	tombs      map[string]Tombstone
	lsn        base.LSN
	dirty      Dirty
	fams       *families

	budget   int64  // of resident
	resident int64  // memory of the partitions in the tree, about
	hand     string // where the evicter goes on
	round    uint32 // how often it went round, from 1 on
	evicted  uint64
	cold     int // of partitions
}

// Dirty is what changed since the last image was written.
type Dirty struct {
	Partitions map[string]bool // put or removed
	Tombstones map[string]bool // remembered or forgotten
	Families   map[uint64]bool // with a partition that changed
}

func newDirty() Dirty {
	return Dirty{Partitions: map[string]bool{}, Tombstones: map[string]bool{}, Families: map[uint64]bool{}}
}

// Empty reports whether nothing changed.
func (d Dirty) Empty() bool { return len(d.Partitions)+len(d.Tombstones)+len(d.Families) == 0 }

// New is an empty index. Loaded partitions that the tables know as well are evicted,
// least used first, while what is in memory besides the tables takes more than
// budget bytes, about; what is newer than the tables stays.
func New(budget int64) *Index {
	return &Index{
		partitions: btree.NewG(degree, func(a, b *Partition) bool { return a.ID < b.ID }),
		tombs:      map[string]Tombstone{},
		dirty:      newDirty(),
		fams:       newFamilies(),
		budget:     max(budget, 0),
		round:      1,
	}
}

// Partition returns the partition as it is now, or nil. An error is that of reading its row,
// if that lies on disk and nobody has looked at it: then it is not known whether there
// is such a partition. The answer is kept: a second call does not read.
func (ix *Index) Partition(id string) (*Partition, error) {
	t, _, err := ix.PartitionOrRow(id)
	return t, err
}

// PartitionOrRow is Partition, and reports whether the partition was made from its row just now, so
// that nobody else has it.
func (ix *Index) PartitionOrRow(id string) (t *Partition, made bool, err error) {
	key := keys.Get().(*Partition)
	key.ID = id
	ix.mu.RLock()
	found, _ := ix.partitions.Get(key)
	ts := ix.tables
	ix.mu.RUnlock()
	keys.Put(key)
	t, err = resolve(found, ts, ix.fams, id)
	if err != nil && ix.moved(ts) { // and the files of the old ones are gone, perhaps
		return ix.PartitionOrRow(id)
	}
	return t, t != nil && found == nil, err
}

// moved reports whether the tables are others by now.
func (ix *Index) moved(from tables) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return !from.same(ix.tables)
}

// keys are partitions to search the tree with, which are large to make for that.
var keys = sync.Pool{New: func() any { return new(Partition) }}

// resolve is the partition found in the tree, or else made from its row.
func resolve(t *Partition, ts tables, fams *families, id string) (*Partition, error) {
	if t != nil {
		if t.removed {
			return nil, nil
		}
		t.touch()
		return t, nil
	}
	r, ok, err := ts.partition(id, true)
	if err != nil || !ok {
		return nil, err
	}
	return r.cold(fams), nil
}

// cold is the row as a partition.
func (r *Row) cold(fams *families) *Partition {
	t := ColdPartition(r.ID, fams.get(r.Family), r.Birth)
	t.LSN, t.Head, t.Updated, t.Flags = r.LSN, r.Head, r.Updated, r.Flags
	return t
}

// Parts returns where the pages of a family lie; none if no image knows it. Errors are
// those of Partition.
func (ix *Index) Parts(family uint64) ([]Part, error) {
	ix.mu.RLock()
	ts := ix.tables
	ix.mu.RUnlock()
	parts, err := ts.parts(family)
	if err != nil && ix.moved(ts) {
		return ix.Parts(family)
	}
	return parts, err
}

// Held returns the families that somebody holds, or KeepFamilies: all of which
// anything is in memory.
func (ix *Index) Held() []*Family { return ix.fams.all() }

// KeepFamilies keeps the families that come into memory from now on there, whether
// anybody holds them or not: about n, or more. To be ready to forget them, by a weak
// pointer and a cleanup each, took a sixth of the time of a replay.
func (ix *Index) KeepFamilies(n int) {
	ix.fams.keep()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.dirty.Empty() {
		ix.dirty.Partitions, ix.dirty.Families = make(map[string]bool, n), make(map[uint64]bool, n)
	}
}

// ReleaseFamilies ends KeepFamilies. It may be called beside everything else.
func (ix *Index) ReleaseFamilies() { ix.fams.release() }

// HeldFamily returns a family if somebody holds it, or nil.
func (ix *Index) HeldFamily(id uint64) *Family { return ix.fams.inMemory(id) }

// Tombstone returns what is remembered of a deleted partition.
func (ix *Index) Tombstone(id string) (Tombstone, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	m, ok := ix.tombs[id]
	return m, ok
}

// Remembers reports whether anything is remembered of any deleted partition.
func (ix *Index) Remembers() bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return len(ix.tombs) > 0
}

// LSN is the last record applied.
func (ix *Index) LSN() base.LSN {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.lsn
}

// Len is the number of partitions.
func (ix *Index) Len() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.n
}

// Resident is the number of partitions whose entries are in memory.
func (ix *Index) Resident() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.partitions.Len() - ix.cold
}

// Change is one step of the index: partitions to put and to remove, and what to
// remember of those removed.
type Change struct {
	LSN      base.LSN // last record of the step; 0 leaves the index's LSN
	Put      []*Partition
	Remove   []string
	Remember []Tombstone
}

// Apply makes a change visible in one step. It reads no table: Partition must have been called before,
// without an error, for each partition put or removed.
func (ix *Index) Apply(c Change) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.own()
	for _, id := range c.Remove {
		ix.remove(id, max(c.LSN, ix.lsn))
	}
	for _, t := range c.Put {
		// A life that began before this step is there already. The step may be of
		// several records.
		if t.Birth > ix.lsn || c.LSN == 0 {
			if _, exists := ix.row(t.ID); !exists {
				ix.n++
			}
		}
		ix.set(t)
		ix.dirty.Partitions[t.ID] = true
		ix.dirty.Families[t.Family.ID] = true
	}
	for _, m := range c.Remember {
		ix.tombs[m.ID] = m
		ix.dirty.Tombstones[m.ID] = true
	}
	if c.LSN > ix.lsn {
		ix.lsn = c.LSN
	}
	ix.evict()
}

// row is a partition as it is, whether in the tree or not; false if it is not there. It
// reads nothing.
func (ix *Index) row(id string) (Row, bool) {
	key := keys.Get().(*Partition)
	key.ID = id
	t, ok := ix.partitions.Get(key)
	keys.Put(key)
	if ok {
		return RowOf(t), !t.removed
	}
	r, ok, err := ix.tables.partition(id, false)
	return r, ok && err == nil
}

// set puts a partition into the tree.
func (ix *Index) set(t *Partition) {
	ix.resident += t.size
	ix.count(t, 1)
	old, ok := ix.partitions.ReplaceOrInsert(t)
	if ok {
		ix.resident -= old.size
		ix.count(old, -1)
	}
	if ok && old.Family == t.Family {
		return // held already
	}
	if !t.removed { // whose family is but a name
		ix.fams.hold(t.Family)
	}
	if ok && !old.removed {
		ix.fams.drop(old.Family)
	}
}

// unset takes a partition out of the tree; the tables know it. The caller drops the family it
// returns, or nil, with or without the lock.
func (ix *Index) unset(t *Partition) *Family {
	old, ok := ix.partitions.Delete(t)
	if !ok {
		return nil
	}
	ix.resident -= old.size
	ix.count(old, -1)
	if old.removed {
		return nil
	}
	return old.Family
}

// remove marks a partition as gone. The mark hides what the tables know, or will know
// when an image that is being written now is part of the store.
func (ix *Index) remove(id string, lsn base.LSN) {
	r, ok := ix.row(id)
	if !ok {
		return
	}
	ix.n--
	ix.dirty.Partitions[id] = true
	ix.dirty.Families[r.Family] = true
	ix.set(&Partition{ID: id, Family: NewFamily(r.Family), LSN: lsn, removed: true, size: partitionSize})
}

func (ix *Index) count(t *Partition, n int) {
	if t.Cold() {
		ix.cold += n
	}
}

// own makes the tree of partitions the index's own again after a view took it.
func (ix *Index) own() {
	if ix.shared {
		ix.partitions = ix.partitions.Clone()
		ix.shared = false
	}
}

// Swap replaces old by loaded, if the index still holds old, or if old came from
// the tables and they say the same now; it reports whether. It installs a partition read
// from disk without losing a commit that came between.
func (ix *Index) Swap(old, loaded *Partition) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	switch cur, ok := ix.partitions.Get(old); {
	case ok && cur != old:
		return false
	case !ok:
		if r := RowOf(old); !ix.tables.says(&r) {
			return false
		}
	}
	ix.own()
	ix.set(loaded)
	ix.evict()
	return true
}

// Current reports whether t, which Partition returned, is what it would return now; false
// if it would have to read.
func (ix *Index) Current(t *Partition) bool {
	ix.mu.RLock()
	cur, ok := ix.partitions.Get(t)
	ts := ix.tables
	ix.mu.RUnlock()
	if ok {
		return cur == t
	}
	r := RowOf(t)
	return ts.says(&r)
}

// View is the index at one moment. Its tables may lie on disk: whoever holds a view
// keeps the files of the tables.
type View struct {
	LSN        base.LSN
	partitions *btree.BTreeG[*Partition]
	tables     tables
	fams       *families
	n          int
	tombs      []Tombstone
}

// View returns the index as it is now. It costs nothing until the next change,
// which then copies one path of the tree.
func (ix *Index) View() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.viewLocked()
}

// ViewTombstones is View with the memory of deleted partitions.
func (ix *Index) ViewTombstones() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	v := ix.viewLocked()
	v.tombs = slices.AppendSeq(make([]Tombstone, 0, len(ix.tombs)), maps.Values(ix.tombs))
	return v
}

func (ix *Index) viewLocked() View {
	ix.shared = true
	return View{LSN: ix.lsn, partitions: ix.partitions, tables: ix.tables, fams: ix.fams, n: ix.n}
}

// ViewDirty is View with the memory of deleted partitions, and what changed since
// the last ViewDirty, which is then no longer counted as changed. It is for the
// writer of images, who gives the changes back with MarkDirty if it fails, and else
// calls Install.
func (ix *Index) ViewDirty() (View, Dirty) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	v := ix.viewLocked()
	v.tombs = slices.AppendSeq(make([]Tombstone, 0, len(ix.tombs)), maps.Values(ix.tombs))
	dirty := ix.dirty
	ix.dirty = newDirty()
	return v, dirty
}

// MarkDirty adds to what counts as changed.
func (ix *Index) MarkDirty(d Dirty) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	maps.Copy(ix.dirty.Partitions, d.Partitions)
	maps.Copy(ix.dirty.Tombstones, d.Tombstones)
	maps.Copy(ix.dirty.Families, d.Families)
}

// DropTombstones forgets tombstones of records up to last that have no data, or are
// older than oldest (unix µs): segments hold them as tombstones now. The full image
// that comes with them has none without data, so that no delta need take it back,
// which would name a partition that may have been erased.
func (ix *Index) DropTombstones(last base.LSN, oldest int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for id, m := range ix.tombs {
		if m.LSN <= last && (len(m.Data) == 0 || m.At < oldest) {
			delete(ix.tombs, id)
			if len(m.Data) > 0 {
				ix.dirty.Tombstones[id] = true
			}
		}
	}
}
