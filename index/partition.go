package index

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/stele-go/stele/base"
)

const (
	degree = 32
	// recentMax bounds the entries that a resident partition keeps beside its tree. Folding an entry
	// copies a path of the tree; a linear search of this many is cheaper. A partition with no more
	// entries than that has none in its tree.
	recentMax = 32
	// lateFrom is the number of entries from which a tree has late beside it. late has at most as many
	// entries, or a quarter of those in the tree if that is more.
	lateFrom = 512
)

// Partition is one partition at one moment. It is immutable: each commit
// makes a new one, which shares everything old.
//
// The slice recent is shared between a Partition and its successors. That is safe
// because (1) elements below a Partition's own length are never rewritten, (2) one
// goroutine, the committer, appends, always to the newest Partition, and (3) a
// Partition is published by the index's lock.
type Partition struct {
	ID      string
	Family  *Family
	Birth   base.LSN // record that began this life of the partition
	LSN     base.LSN // last record that touched it
	Head    string   // greatest key with FlagHead
	Updated int64    // unix µs of the last record
	Flags   uint8    // the caller's flags, replaced by the last record that set them

	tree    *btree.BTreeG[*Entry] // nil while cold; noEntries, which all share, while it is empty
	recent  []*Entry              // newer than tree, in the order of records; while cold, newer than what is on disk
	folded  base.LSN              // nothing in tree is of a later record
	deleted int                   // deletions in tree
	cleared base.LSN              // deletions up to here were dropped from it
	// late are the entries of records behind early that were folded into a large tree, in the order of
	// records: so an image finds the newest entries without walking the whole tree. It is shared in the
	// way that recent is.
	late  []*Entry
	early base.LSN

	size    int64 // about how much memory the partition takes
	removed bool  // the partition is deleted, which the tables do not know yet
}

// Sizes of what a partition takes in memory, about.
const (
	partitionSize = 400 // with its family and its place in the index
	entrySize     = 96  // with its place in the tree
	valueSize     = 80  // a place in the family
)

// sizeOf returns about how much memory an entry and the values that it stored take.
func sizeOf(it *Entry) int64 {
	n := entrySize + len(it.Key) + it.Slots.Size()
	for _, r := range it.Slots.Refs() {
		if r.LSN == it.LSN {
			n += valueSize
		}
	}
	return int64(n)
}

// Visited, if a test sets it before there is a partition, counts the entries that walks through
// partitions visit, deletions included. It measures the cost of a call without a clock.
var Visited *atomic.Int64

func visited() {
	if Visited != nil {
		Visited.Add(1)
	}
}

// touch notes that the partition is read, which keeps it and its copies from being evicted for a while.
// It does nothing for a cold one.
func (t *Partition) touch() {
	if !t.Cold() && !t.Family.used.Load() {
		t.Family.used.Store(true)
	}
}

func lessEntry(a, b *Entry) bool { return a.Key < b.Key }

// freeNodes is shared by the trees of all partitions: most partitions have one node, and a
// list of their own would be larger than that.
var freeNodes = btree.NewFreeListG[*Entry](btree.DefaultFreeListSize)

func newTree() *btree.BTreeG[*Entry] { return btree.NewWithFreeListG(degree, lessEntry, freeNodes) }

// noEntries is the tree of all partitions with few entries: most have a few, and an index of
// many would be trees for the most part, which the garbage collector goes through. It is
// never changed, and not cloned, which would change it.
var noEntries = newTree()

// NewPartition is an empty, resident partition.
func NewPartition(id string, fam *Family, birth base.LSN) *Partition {
	return &Partition{ID: id, Family: fam, Birth: birth, tree: noEntries, size: partitionSize}
}

// ColdPartition is a partition whose entries are still on disk.
func ColdPartition(id string, fam *Family, birth base.LSN) *Partition {
	return &Partition{ID: id, Family: fam, Birth: birth, size: partitionSize}
}

// Cold reports whether the partition's entries must be loaded before it is read.
func (t *Partition) Cold() bool { return t.tree == nil }

// Loaded returns t made resident with the entries read from disk, which may be in any order and repeat
// keys: the one with the greatest LSN wins. Deletions up to floor are in segments, so they are dropped
// after they have removed older entries.
func (t *Partition) Loaded(entries []*Entry, floor base.LSN) *Partition {
	n := *t
	all := oneEach(slices.Concat(entries, t.recent))
	all = slices.DeleteFunc(all, func(it *Entry) bool { return it.Deleted() && it.LSN <= floor })
	n.Head, n.size = "", partitionSize
	for _, it := range all {
		n.size += sizeOf(it)
		if it.Flags&FlagHead != 0 && !it.Deleted() {
			n.Head = it.Key
		}
	}
	n.tree, n.recent, n.deleted, n.cleared = noEntries, all, 0, floor
	if len(all) > recentMax {
		n.fold()
	} else {
		slices.SortFunc(all, func(a, b *Entry) int { return cmp.Compare(a.LSN, b.LSN) })
	}
	n.late, n.early = nil, n.LSN
	return &n
}

func (t *Partition) replace(it *Entry) {
	if old, ok := t.tree.ReplaceOrInsert(it); ok && old.Deleted() {
		t.deleted--
	}
	if it.Deleted() {
		t.deleted++
	}
}

func (t *Partition) dropDeletions(floor base.LSN) {
	t.cleared = floor
	if t.deleted == 0 {
		return
	}
	var gone []*Entry
	t.tree.Ascend(func(it *Entry) bool {
		if it.Deleted() && it.LSN <= floor {
			gone = append(gone, it)
		}
		return true
	})
	for _, it := range gone {
		t.tree.Delete(it)
	}
	t.deleted -= len(gone)
}

// clearMin is how many deletions a partition has before Cleared looks for those that may be dropped.
const clearMin = 64

// Cleared returns t without the deletions up to floor, which are in segments, if most of the
// partition's entries are deletions. It walks the partition at most once for each floor. It is called
// by the committer only, on the newest Partition.
func (t *Partition) Cleared(floor func() base.LSN) *Partition {
	if t.Cold() || t.deleted < clearMin || 2*t.deleted < t.tree.Len() {
		return t
	}
	to := floor()
	if to <= t.cleared {
		return t
	}
	n := *t
	n.fold()
	n.dropDeletions(to)
	return &n
}

// With returns t after a commit of entries, which are newer than everything in t. It is called by the
// committer only, on the newest Partition.
func (t *Partition) With(entries []*Entry, lsn base.LSN, updated int64) *Partition {
	n := *t
	n.Add(entries, lsn, updated)
	return &n
}

// Add is With, but changes the partition itself: only for a partition that nobody else has yet.
func (t *Partition) Add(entries []*Entry, lsn base.LSN, updated int64) {
	t.LSN, t.Updated = lsn, updated
	t.recent = append(t.recent, entries...)
	rescan := false
	for _, it := range entries {
		t.size += sizeOf(it)
		switch head := !it.Deleted() && it.Flags&FlagHead != 0; {
		case head && it.Key > t.Head:
			t.Head = it.Key
		case !head && it.Key == t.Head:
			rescan = true // the new head is a smaller key
		}
	}
	if !t.Cold() && len(t.recent) > recentMax {
		t.fold()
	}
	if rescan && !t.Cold() {
		t.Head = t.greatestHead()
	}
}

// fold moves recent into a copy of the tree. The old tree stays as it is for
// those who hold it.
func (t *Partition) fold() {
	if t.tree == noEntries {
		t.tree = newTree()
	} else {
		t.tree = t.tree.Clone()
	}
	for _, it := range t.recent {
		t.replace(it)
	}
	t.noteLate()
	t.recent, t.folded = nil, t.LSN
}

// noteLate adds recent, which was folded, to late. If there are too many, the older half goes.
func (t *Partition) noteLate() {
	n := t.tree.Len()
	if n < lateFrom {
		t.late, t.early = nil, t.LSN
		return
	}
	t.late = append(t.late, t.recent...)
	if len(t.late) > max(lateFrom, n/4) {
		half := len(t.late) / 2
		t.early = t.late[half-1].LSN
		t.late = slices.Clone(t.late[half:])
	}
}

// Forked returns a copy of t under another id, in the same family. t must be resident.
func (t *Partition) Forked(id string, birth, lsn base.LSN, updated int64) *Partition {
	n := *t
	n.ID, n.Birth, n.LSN, n.Updated = id, birth, lsn, updated
	n.recent, n.late = slices.Clip(n.recent), slices.Clip(n.late) // the copy must not append to the original's
	return &n
}

// Get returns the entry at key, or nil.
func (t *Partition) Get(key string) *Entry {
	for _, it := range slices.Backward(t.recent) {
		if it.Key == key {
			return live(it)
		}
	}
	pivot := pivotAt(key)
	defer pivots.Put(pivot)
	if it, ok := t.tree.Get(pivot); ok {
		return live(it)
	}
	return nil
}

// pivots are reused entries with which trees are searched.
var pivots = sync.Pool{New: func() any { return new(Entry) }}

func pivotAt(key string) *Entry {
	it := pivots.Get().(*Entry)
	it.Key = key
	return it
}

func live(it *Entry) *Entry {
	if it.Deleted() {
		return nil
	}
	return it
}

// Last returns the entry with the greatest key that begins with prefix, or nil.
func (t *Partition) Last(prefix string) *Entry {
	last := t.lastInTree(prefix)
	for _, it := range t.recent {
		if strings.HasPrefix(it.Key, prefix) && (last == nil || it.Key >= last.Key) {
			last = it // of equal keys the later commit counts
		}
	}
	if last == nil || !last.Deleted() {
		return last
	}
	// If the greatest entry is a deletion, the next lower key is needed.
	last = nil
	t.Descend(prefix, "", func(it *Entry) bool { last = it; return false })
	return last
}

func (t *Partition) lastInTree(prefix string) (last *Entry) {
	visit := func(it *Entry) bool {
		if strings.HasPrefix(it.Key, prefix) {
			last = it
			return false
		}
		return it.Key > prefix
	}
	if from := upperBound(prefix, ""); from != "" {
		pivot := pivotAt(from)
		defer pivots.Put(pivot)
		t.tree.DescendLessOrEqual(pivot, visit)
	} else {
		t.tree.Descend(visit)
	}
	return last
}

// Descend calls fn for the entries whose key begins with prefix and, unless before
// is empty, is smaller than before, greatest key first, until fn returns false.
func (t *Partition) Descend(prefix, before string, fn func(*Entry) bool) {
	recent := t.newest(prefix, before)
	stop := false
	emit := func(it *Entry) bool {
		visited()
		if !it.Deleted() && !fn(it) {
			stop = true
		}
		return !stop
	}
	from := upperBound(prefix, before)
	visit := func(it *Entry) bool {
		if !strings.HasPrefix(it.Key, prefix) {
			return it.Key > prefix
		}
		if before != "" && it.Key >= before {
			return true
		}
		for len(recent) > 0 && recent[0].Key >= it.Key {
			r := recent[0]
			recent = recent[1:]
			if !emit(r) {
				return false
			}
			if r.Key == it.Key {
				return true
			}
		}
		return emit(it)
	}
	if from == "" {
		t.tree.Descend(visit)
	} else {
		pivot := pivotAt(from)
		defer pivots.Put(pivot)
		t.tree.DescendLessOrEqual(pivot, visit)
	}
	for _, r := range recent {
		if stop || !emit(r) {
			return
		}
	}
}

// Ascend calls fn for the entries whose key begins with prefix, smallest key
// first, until fn returns false.
func (t *Partition) Ascend(prefix string, fn func(*Entry) bool) {
	recent := t.newest(prefix, "")
	slices.Reverse(recent)
	stop := false
	emit := func(it *Entry) bool {
		visited()
		if !it.Deleted() && !fn(it) {
			stop = true
		}
		return !stop
	}
	pivot := pivotAt(prefix)
	defer pivots.Put(pivot)
	t.tree.AscendGreaterOrEqual(pivot, func(it *Entry) bool {
		if !strings.HasPrefix(it.Key, prefix) {
			return false
		}
		for len(recent) > 0 && recent[0].Key <= it.Key {
			r := recent[0]
			recent = recent[1:]
			if !emit(r) {
				return false
			}
			if r.Key == it.Key {
				return true
			}
		}
		return emit(it)
	})
	for _, r := range recent {
		if stop || !emit(r) {
			return
		}
	}
}

// newest returns the entries of recent within prefix and before, one for each key, greatest key first.
func (t *Partition) newest(prefix, before string) []*Entry {
	var out []*Entry
	for _, it := range t.recent {
		if strings.HasPrefix(it.Key, prefix) && (before == "" || it.Key < before) {
			out = append(out, it)
		}
	}
	out = oneEach(out)
	slices.Reverse(out)
	return out
}

// oneEach sorts entries by key and keeps the newest one of each key. Those of one record must be in
// their order. It changes the slice.
func oneEach(entries []*Entry) []*Entry {
	if len(entries) < 2 {
		return entries
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return cmp.Compare(a.LSN, b.LSN)
	})
	kept := entries[:1]
	for _, it := range entries[1:] {
		if it.Key == kept[len(kept)-1].Key {
			kept[len(kept)-1] = it // stable: the later commit comes last
			continue
		}
		kept = append(kept, it)
	}
	return kept
}

// upperBound is a key not smaller than every key with prefix that is below
// before; "" if there is no such bound.
func upperBound(prefix, before string) string {
	if before != "" {
		return before
	}
	b := []byte(prefix)
	for len(b) > 0 {
		if b[len(b)-1] < 0xff {
			b[len(b)-1]++
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}

func (t *Partition) greatestHead() string {
	head := ""
	t.Descend("", "", func(it *Entry) bool {
		if it.Flags&FlagHead != 0 {
			head = it.Key
			return false
		}
		return true
	})
	return head
}

// Forgot reports whether deletions of records from first on may have been dropped, so that Entries
// lacks them.
func (t *Partition) Forgot(first base.LSN) bool { return t.cleared >= first }

// Entries calls fn for every entry of the records from first on, deletions included, in the
// order of keys.
func (t *Partition) Entries(first base.LSN, fn func(*Entry)) {
	from := len(t.recent) // recent is in the order of records, all later than those in the tree
	for from > 0 && t.recent[from-1].LSN >= first {
		from--
	}
	if t.tree != nil && t.folded >= first && first > t.early {
		t.lateEntries(first, fn)
		return
	}
	recent := oneEach(slices.Clone(t.recent[from:]))
	if t.tree != nil && t.folded >= first {
		t.tree.Ascend(func(it *Entry) bool {
			for len(recent) > 0 && recent[0].Key < it.Key {
				fn(recent[0])
				recent = recent[1:]
			}
			if it.LSN >= first && (len(recent) == 0 || recent[0].Key != it.Key) {
				fn(it)
			}
			return true
		})
	}
	for _, it := range recent {
		fn(it)
	}
}

// lateEntries is Entries for a record behind early: all such entries are in recent or late.
func (t *Partition) lateEntries(first base.LSN, fn func(*Entry)) {
	from := len(t.late)
	for from > 0 && t.late[from-1].LSN >= first {
		from--
	}
	at := len(t.recent)
	for at > 0 && t.recent[at-1].LSN >= first {
		at--
	}
	for _, it := range oneEach(slices.Concat(t.late[from:], t.recent[at:])) {
		if !it.Deleted() || it.LSN > t.cleared {
			fn(it)
		}
	}
}
