package index

import (
	"maps"
	"sync"

	"github.com/google/btree"

	"github.com/stele-go/stele/internal/base"
)

// Memo remembers a deleted thread: as a tombstone until a segment holds it, and,
// if there is data, so that what hangs on the thread is refused.
type Memo struct {
	ID   string
	LSN  base.LSN // the record that deleted it
	At   int64    // unix µs
	Data []byte   // the caller's; empty in a mere tombstone
}

// Index is the root: the threads by id, and the memory of deleted ones. Readers
// are concurrent; writers are one at a time, by the index's own lock.
type Index struct {
	mu      sync.RWMutex
	threads *btree.BTreeG[*Thread]
	shared  bool // the tree is held by a view and must be cloned before a change
	memos   map[string]Memo
	lsn     base.LSN
	dirty   Dirty
	cold    int // of threads
}

// Dirty is what changed since the last image was written.
type Dirty struct {
	Threads  map[string]bool    // put or removed
	Memos    map[string]bool    // remembered or forgotten
	Families map[uint64]*Family // with a thread that changed
}

func newDirty() Dirty {
	return Dirty{Threads: map[string]bool{}, Memos: map[string]bool{}, Families: map[uint64]*Family{}}
}

// Empty reports whether nothing changed.
func (d Dirty) Empty() bool { return len(d.Threads)+len(d.Memos)+len(d.Families) == 0 }

// New is an empty index.
func New() *Index {
	return &Index{
		threads: btree.NewG(degree, func(a, b *Thread) bool { return a.ID < b.ID }),
		memos:   map[string]Memo{},
		dirty:   newDirty(),
	}
}

// Thread returns the thread as it is now, or nil.
func (ix *Index) Thread(id string) *Thread {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	t, _ := ix.threads.Get(&Thread{ID: id})
	return t
}

// Memo returns what is remembered of a deleted thread.
func (ix *Index) Memo(id string) (Memo, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	m, ok := ix.memos[id]
	return m, ok
}

// LSN is the last record applied.
func (ix *Index) LSN() base.LSN {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.lsn
}

// Len is the number of threads.
func (ix *Index) Len() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.threads.Len()
}

// Resident is the number of threads whose items are in memory.
func (ix *Index) Resident() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.threads.Len() - ix.cold
}

// Change is one step of the index: threads to put and to remove, and what to
// remember of those removed.
type Change struct {
	LSN      base.LSN // last record of the step; 0 leaves the index's LSN
	Put      []*Thread
	Remove   []string
	Remember []Memo
}

// Apply makes a change visible in one step.
func (ix *Index) Apply(c Change) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.own()
	for _, id := range c.Remove {
		if t, ok := ix.threads.Delete(&Thread{ID: id}); ok {
			ix.count(t, -1)
			ix.dirty.Threads[id] = true
			ix.dirty.Families[t.Family.ID] = t.Family
		}
	}
	for _, t := range c.Put {
		ix.put(t)
		ix.dirty.Threads[t.ID] = true
		ix.dirty.Families[t.Family.ID] = t.Family
	}
	for _, m := range c.Remember {
		ix.memos[m.ID] = m
		ix.dirty.Memos[m.ID] = true
	}
	if c.LSN > ix.lsn {
		ix.lsn = c.LSN
	}
}

// put inserts t, or replaces the thread with its id.
func (ix *Index) put(t *Thread) {
	if old, ok := ix.threads.ReplaceOrInsert(t); ok {
		ix.count(old, -1)
	}
	ix.count(t, 1)
}

func (ix *Index) count(t *Thread, n int) {
	if t.Cold() {
		ix.cold += n
	}
}

// own makes the tree of threads the index's own again after a view took it.
func (ix *Index) own() {
	if ix.shared {
		ix.threads = ix.threads.Clone()
		ix.shared = false
	}
}

// Swap replaces old by loaded if the index still holds old, and returns what the
// index holds then. It installs a thread read from disk without losing a commit
// that came between.
func (ix *Index) Swap(old, loaded *Thread) *Thread {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	cur, ok := ix.threads.Get(old)
	if !ok || cur != old {
		return cur
	}
	ix.own()
	ix.put(loaded)
	return loaded
}

// View is the index at one moment.
type View struct {
	LSN     base.LSN
	threads *btree.BTreeG[*Thread]
	memos   []Memo
}

// View returns the index as it is now. It costs nothing until the next change,
// which then copies one path of the tree.
func (ix *Index) View() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.shared = true
	return View{LSN: ix.lsn, threads: ix.threads}
}

// ViewMemos is View with the memory of deleted threads.
func (ix *Index) ViewMemos() View {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.viewLocked()
}

func (ix *Index) viewLocked() View {
	ix.shared = true
	v := View{LSN: ix.lsn, threads: ix.threads, memos: make([]Memo, 0, len(ix.memos))}
	for _, m := range ix.memos {
		v.memos = append(v.memos, m)
	}
	return v
}

// ViewDirty is View with the memory of deleted threads, and what changed since
// the last ViewDirty, which is then no longer counted as changed. It is for the
// writer of images, who gives the changes back with MarkDirty if it fails.
func (ix *Index) ViewDirty() (View, Dirty) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	v := ix.viewLocked()
	dirty := ix.dirty
	ix.dirty = newDirty()
	return v, dirty
}

// MarkDirty adds to what counts as changed.
func (ix *Index) MarkDirty(d Dirty) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	maps.Copy(ix.dirty.Threads, d.Threads)
	maps.Copy(ix.dirty.Memos, d.Memos)
	maps.Copy(ix.dirty.Families, d.Families)
}

// Thread returns the thread as it was, or nil.
func (v View) Thread(id string) *Thread {
	t, _ := v.threads.Get(&Thread{ID: id})
	return t
}

// Len is the number of threads.
func (v View) Len() int { return v.threads.Len() }

// Memos are the deleted threads remembered; only of a
// ViewMemos or ViewDirty.
func (v View) Memos() []Memo { return v.memos }

// Ascend calls fn for the threads from id on, in the order of ids, until fn
// returns false.
func (v View) Ascend(from string, fn func(*Thread) bool) {
	v.threads.AscendGreaterOrEqual(&Thread{ID: from}, fn)
}

// DropTombstones forgets memos of records up to last that have no data, or are
// older than oldest (unix µs): segments hold them as tombstones now. The full image
// that comes with them has none without data, so that no delta need take it back,
// which would name a thread that may have been erased.
func (ix *Index) DropTombstones(last base.LSN, oldest int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for id, m := range ix.memos {
		if m.LSN <= last && (len(m.Data) == 0 || m.At < oldest) {
			delete(ix.memos, id)
			if len(m.Data) > 0 {
				ix.dirty.Memos[id] = true
			}
		}
	}
}

// Load is Apply for what comes from an image: nothing of it counts as changed.
func (ix *Index) Load(c Change) {
	ix.Apply(c)
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.dirty = newDirty()
}
