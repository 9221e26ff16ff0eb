package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// Value is a value to be stored, measured and checksummed by the caller so that
// the committer does not have to touch its bytes. The bytes must not change any more: the
// log may still read them after ErrOutcomeUnknown, and a series may keep them.
type Value struct {
	parts     [][]byte
	size      int64
	sum       uint64
	candidate *candidate // of a version of a series; see NewRevision
}

// NewValue is the value made of parts, one after the other.
func NewValue(parts ...[]byte) (Value, error) {
	v := Value{parts: parts, size: sizeOf(parts)}
	if v.size > base.MaxStored {
		return Value{}, fmt.Errorf("value of %d bytes, the limit is %d: %w", v.size, base.MaxStored, fault.ErrTooLarge)
	}
	v.sum = valueSum(parts...)
	return v, nil
}

func sizeOf(parts [][]byte) int64 {
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// Size is the value's length in bytes.
func (v Value) Size() int64 { return v.size }

// LogSize is about how many bytes the value takes in the log.
func (v Value) LogSize() int64 {
	if v.candidate != nil && v.candidate.patch != nil {
		return int64(len(v.candidate.patch))
	}
	return v.size
}

// SlotIn is a slot to be put: a new value, a slot made empty, a value (or an
// emptiness) stored before, or nothing.
type SlotIn struct {
	Name, Tag string
	Ref       index.Ref
	Value     *Value
	Empty     bool
}

// Tx is one commit being made. Its methods may be called only by the function
// given to Commit, which runs in commit order: what it reads is what every
// earlier commit left, whether visible yet or not.
type Tx struct {
	e    *Engine
	lsn  base.LSN
	now  int64
	did  logRecord
	head []byte   // of the record in the log
	body [][]byte // of the record in the log: the head, and the values in the order of ordinals, each in one or more parts
	size int64    // of the values

	loaded     byID[*index.Partition] // as they were before the commit was queued
	partitions byID[*index.Partition] // changed by this commit; nil: removed
	tombs      byID[index.Tombstone]
	values     []txValue
	patches    int   // of values
	err        error // of loading a partition
	begun      int   // families begun
	answer     any   // for the Rider

	fn     func(*Tx) error
	record wal.Record // what the log is given
	// Most commits are about one partition or two.
	loadedRoom, partitionsRoom [2]withID[*index.Partition]
}

// txs are finished transactions, whose memory is reused.
var txs = sync.Pool{New: func() any {
	tx := new(Tx)
	tx.record.User, tx.record.Prepare = tx, tx.prepare
	return tx
}}

func (e *Engine) newTx(fn func(*Tx) error) *Tx {
	tx := txs.Get().(*Tx)
	tx.e, tx.fn = e, fn
	tx.body = append(tx.body, nil)
	tx.loaded.list, tx.partitions.list = tx.loadedRoom[:0], tx.partitionsRoom[:0]
	return tx
}

// Larger buffers than these are not reused by the next transaction; most transactions need less.
const (
	maxReusedValues = 64
	maxReusedHead   = 16 << 10
)

// release ends the use of tx. Only a commit that the log has answered with success may be
// released: after any other answer the log may still read and prepare it.
func (tx *Tx) release() {
	kept := Tx{record: wal.Record{User: tx.record.User, Prepare: tx.record.Prepare}}
	if cap(tx.body) <= maxReusedValues && cap(tx.values) <= maxReusedValues {
		clear(tx.body)
		clear(tx.values)
		kept.body, kept.values = tx.body[:0], tx.values[:0]
	}
	if cap(tx.head) <= maxReusedHead {
		kept.head = tx.head[:0]
	}
	*tx = kept
	txs.Put(tx)
}

// txValue is a value this commit stores, and how.
type txValue struct {
	fam  *index.Family
	ref  index.Ref
	val  *Value
	size int64     // of the bytes stored
	loc  index.Loc // but for file and offset
}

func (s *txValue) patched() bool { return s.loc.Patched() }

// LSN is the number this commit will have.
func (tx *Tx) LSN() base.LSN { return tx.lsn }

// Now is the commit's time in unix µs.
func (tx *Tx) Now() int64 { return tx.now }

// Partition returns the partition as this commit finds and changes it, or nil.
func (tx *Tx) Partition(id string) *index.Partition {
	t := tx.row(id)
	if t == nil || !t.Cold() {
		return t
	}
	// Commit loads the partitions it is told of. This one it was not told of, or the
	// partition was evicted since.
	if held, _ := tx.loaded.get(id); held != nil && index.RowOf(held) == index.RowOf(t) {
		return held
	}
	loaded, _, err := tx.e.load(t, nil)
	if err != nil {
		tx.err = err
		return nil
	}
	tx.partitions.set(id, loaded)
	return loaded
}

// Birth is the record that began the partition as this commit finds and changes it, or 0 if there is
// none. It loads nothing.
func (tx *Tx) Birth(id string) base.LSN {
	if t := tx.row(id); t != nil {
		return t.Birth
	}
	return 0
}

// row is Partition, which may be cold.
func (tx *Tx) row(id string) *index.Partition {
	if t, ok := tx.partitions.get(id); ok {
		return t
	}
	t, err := tx.e.unpublished.partition(tx.e.Index, id)
	if err != nil {
		tx.err = err
		return nil
	}
	return t
}

// Tombstone returns what is remembered of a deleted partition, unless that was longer
// ago than the store remembers.
func (tx *Tx) Tombstone(id string) (index.Tombstone, bool) {
	m, ok := tx.anyTombstone(id)
	if !ok || len(m.Data) == 0 || tx.now-m.At > tx.e.Opts.DeletedMemory.Microseconds() {
		return index.Tombstone{}, false
	}
	return m, true
}

// RemembersAny reports whether there may be a partition of which Tombstone knows something.
func (tx *Tx) RemembersAny() bool {
	return len(tx.tombs.list) > 0 || len(tx.e.unpublished.tombs) > 0 || tx.e.Index.Remembers()
}

// anyTombstone is Tombstone, including those without data and those that are too old.
func (tx *Tx) anyTombstone(id string) (index.Tombstone, bool) {
	if m, ok := tx.tombs.get(id); ok {
		return m, true
	}
	return tx.e.unpublished.tomb(tx.e.Index, id)
}

// dropTombstone returns the tombstone of a partition that record lsn drops. Without data, the data
// remembered before stays.
func dropTombstone(tomb func(string) (index.Tombstone, bool), id string, lsn base.LSN, now int64, data []byte) index.Tombstone {
	m := index.Tombstone{ID: id, LSN: lsn, At: now, Data: data}
	if before, ok := tomb(id); ok && len(data) == 0 {
		m.At, m.Data = before.At, before.Data
	}
	return m
}

// copyTombstone returns the tombstone of a partition that record lsn makes a copy of another: its data
// is forgotten, and an empty tombstone says so, as segments may still have the old one.
func copyTombstone(id string, lsn base.LSN, now int64) index.Tombstone {
	return index.Tombstone{ID: id, LSN: lsn, At: now}
}

// maxEntryNames bounds the names and tags of one entry, so that a page that
// holds nothing else is below snapshot.MaxPage.
const maxEntryNames = 8 << 20

// Put stores an entry, replacing the one at key. A partition that does not exist
// begins with it.
func (tx *Tx) Put(id, key string, flags uint8, slots []SlotIn) error {
	if err := checkKeys(id, key); err != nil {
		return err
	}
	if len(slots) > base.MaxSlots {
		return fmt.Errorf("entry of %d slots, the limit is %d: %w", len(slots), base.MaxSlots, fault.ErrTooLarge)
	}
	t := tx.Partition(id)
	if t == nil {
		t = index.NewPartition(id, index.NewFamily(index.FamilyID(tx.lsn, tx.begun)), tx.lsn)
		tx.begun++
	}
	it := &index.Entry{Key: key, LSN: tx.lsn, Flags: flags &^ index.FlagDeleted}
	o := recordOp{kind: opPut, id: id, key: key, flags: it.Flags, slots: tx.e.scratch.room(len(slots))}
	packed := tx.e.scratch.packed[:0]
	names := 0
	tx.expect(slots)
	for i := range slots {
		s := &slots[i]
		if names += len(s.Name) + len(s.Tag); names > maxEntryNames {
			return fmt.Errorf("entry with more than %d bytes of names: %w", maxEntryNames, fault.ErrTooLarge)
		}
		o.slots[i] = recordSlot{name: s.Name, tag: s.Tag}
		ref := s.Ref
		switch {
		case s.Value != nil:
			if len(tx.values) >= int(index.EmptyOrd) {
				return fmt.Errorf("more than %d values in one commit: %w", base.MaxSlots, fault.ErrTooLarge)
			}
			ref = tx.store(t, key, s.Value, &o.slots[i])
		case s.Empty:
			o.slots[i].encoding = slotEmpty
			ref = index.Ref{LSN: tx.lsn, Ord: index.EmptyOrd}
		case s.Ref != (index.Ref{}):
			o.slots[i].encoding, o.slots[i].lsn, o.slots[i].ord = slotRef, s.Ref.LSN, s.Ref.Ord
		}
		packed = append(packed, index.Slot{Name: s.Name, Tag: s.Tag, Ref: ref})
	}
	it.Slots = index.PackSlots(packed)
	clear(packed)
	tx.e.scratch.packed = packed
	tx.did.ops = append(tx.did.ops, o)
	tx.own(t).Add([]*index.Entry{it}, tx.lsn, tx.now)
	return nil
}

// own returns a partition that this commit may change in place: t itself, if the commit has already
// made its own version of it, or else a new version.
func (tx *Tx) own(t *index.Partition) *index.Partition {
	if t.LSN == tx.lsn {
		return t
	}
	n := *t
	tx.set(&n)
	return &n
}

// expect makes room for the values of slots.
func (tx *Tx) expect(slots []SlotIn) {
	values, parts := 0, 0
	for i := range slots {
		if v := slots[i].Value; v != nil {
			values, parts = values+1, parts+max(1, len(v.parts))
		}
	}
	tx.values, tx.body = slices.Grow(tx.values, values), slices.Grow(tx.body, parts)
}

// store takes a value into the record: as the patch that was made of it, if its
// base still may be one, else whole.
func (tx *Tx) store(t *index.Partition, key string, v *Value, o *recordSlot) index.Ref {
	ref := index.Ref{LSN: tx.lsn, Ord: uint16(len(tx.values))}
	s := txValue{fam: t.Family, ref: ref, val: v}
	o.encoding, o.len, o.sum = slotInline, uint32(v.size), v.sum
	parts := v.parts
	if d := v.candidate; d != nil && d.patch != nil && tx.e.liveBase(t, d.base) {
		var ok bool
		if s.loc, ok = s.loc.Against(ref, d.base.ref); ok {
			o.encoding, o.len, o.sum, o.base = slotPatch, uint32(len(d.patch)), d.sum, d.base.ref
			parts = [][]byte{d.patch}
			tx.patches++
		}
	}
	if d := v.candidate; d != nil {
		d.stored(t.Family.ID, ref, key, s.patched())
	}
	s.loc.Len, s.loc.Sum, s.size = o.len, o.sum, int64(o.len)
	tx.body = append(tx.body, parts...)
	tx.values = append(tx.values, s)
	tx.size += s.size
	return ref
}

// Delete removes the entries at keys, which need not exist.
func (tx *Tx) Delete(id string, keys ...string) error {
	t := tx.Partition(id)
	if t == nil || len(keys) == 0 {
		return nil
	}
	entries := make([]*index.Entry, len(keys))
	for i, key := range keys {
		if err := checkKeys(id, key); err != nil {
			return err
		}
		entries[i] = &index.Entry{Key: key, LSN: tx.lsn, Flags: index.FlagDeleted}
		tx.did.ops = append(tx.did.ops, recordOp{kind: opDelete, id: id, key: key})
	}
	tx.set(t.With(entries, tx.lsn, t.Updated).Cleared(tx.e.lastFlushed))
	return nil
}

// Drop deletes a partition. Data that is not nil is remembered; see Tombstone.
func (tx *Tx) Drop(id string, data []byte) error {
	if tx.Partition(id) == nil {
		return nil
	}
	tx.did.ops = append(tx.did.ops, recordOp{kind: opDrop, id: id, tombstone: data})
	tx.partitions.set(id, nil)
	tx.tombs.set(id, dropTombstone(tx.anyTombstone, id, tx.lsn, tx.now, data))
	return nil
}

// Copy makes dst a copy of src, which shares its stored values. dst must not
// exist; what is remembered of it no longer counts.
func (tx *Tx) Copy(src, dst string) error {
	if err := checkKeys(dst, ""); err != nil {
		return err
	}
	t := tx.Partition(src)
	if t == nil {
		return nil
	}
	if tx.Partition(dst) != nil {
		return fmt.Errorf("copy to partition %q: it exists", dst)
	}
	tx.did.ops = append(tx.did.ops, recordOp{kind: opCopy, id: src, key: dst})
	tx.set(t.Forked(dst, tx.lsn, tx.lsn, tx.now))
	if _, ok := tx.anyTombstone(dst); ok {
		tx.tombs.set(dst, copyTombstone(dst, tx.lsn, tx.now))
	}
	return nil
}

// SetFlags replaces the flags of a partition, which must exist.
func (tx *Tx) SetFlags(id string, flags uint8) {
	t := tx.Partition(id)
	if t == nil || t.Flags == flags {
		return
	}
	tx.did.ops = append(tx.did.ops, recordOp{kind: opFlags, id: id, flags: flags})
	tx.own(t).Flags = flags
}

func (tx *Tx) set(t *index.Partition) { tx.partitions.set(t.ID, t) }

func checkKeys(id, key string) error {
	if id == "" {
		return fmt.Errorf("partition id is empty")
	}
	if len(id) > base.MaxKey || len(key) > base.MaxKey {
		return fmt.Errorf("key of %d bytes in a partition with an id of %d, the limit is %d: %w", len(key), len(id), base.MaxKey, fault.ErrTooLarge)
	}
	return nil
}

// byID is a map from ids for what has few of them as a rule: a commit changes one
// partition or two, for which a list is cheaper than a map. The zero value is empty.
type byID[T any] struct {
	list []withID[T] // in the order they were first set
	at   map[string]int
}

type withID[T any] struct {
	id string
	v  T
}

// fewIDs is how many ids are searched for one by one.
const fewIDs = 8

func (b *byID[T]) find(id string) int {
	if b.at != nil {
		if i, ok := b.at[id]; ok {
			return i
		}
		return -1
	}
	for i := range b.list {
		if b.list[i].id == id {
			return i
		}
	}
	return -1
}

// get returns what id was set to.
func (b *byID[T]) get(id string) (v T, ok bool) {
	if i := b.find(id); i >= 0 {
		return b.list[i].v, true
	}
	return v, false
}

// set replaces what id was set to.
func (b *byID[T]) set(id string, v T) {
	if i := b.find(id); i >= 0 {
		b.list[i].v = v
		return
	}
	b.list = append(b.list, withID[T]{id, v})
	switch n := len(b.list); {
	case b.at != nil:
		b.at[id] = n - 1
	case n > fewIDs:
		b.at = make(map[string]int, 2*n)
		for i := range b.list {
			b.at[b.list[i].id] = i
		}
	}
}

// scratch holds the operations of a commit until its record is encoded. It is reused for the next
// commit, and used by the committer only.
type scratch struct {
	ops    []recordOp
	slots  []recordSlot // of ops
	packed []index.Slot // room for those of an entry
}

// keptScratch is for how many slots, or operations, memory is kept.
const keptScratch = 4096

// room returns n more slots, all of them zero.
func (s *scratch) room(n int) []recordSlot {
	at := len(s.slots)
	s.slots = slices.Grow(s.slots, n)[:at+n]
	return s.slots[at : at+n : at+n]
}

// reset forgets the commit, whose operations are ops. It keeps neither its strings nor more memory than
// most commits need.
func (s *scratch) reset(ops []recordOp) {
	clear(ops)
	clear(s.slots)
	s.ops, s.slots = ops[:0], s.slots[:0]
	if cap(s.ops) > keptScratch {
		s.ops = nil
	}
	if cap(s.slots) > keptScratch {
		s.slots = nil
	}
	if cap(s.packed) > keptScratch {
		s.packed = nil
	}
}
