package engine

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// replayer applies records of the log to the index, one after the other. It reuses its buffers for the
// next record.
type replayer struct {
	e   *Engine
	rec *decodedRecord
	c   index.Change

	// The partitions as the record leaves them, nil if they are removed, and their tombstones. Most
	// records change one partition, so the first is not in the maps.
	firstID    string
	first      *index.Partition
	hasFirst   bool
	partitions map[string]*index.Partition
	tombs      map[string]index.Tombstone
	begun      int

	entry [1]*index.Entry
}

// batch applies the records of a batch, as the commits did.
func (r *replayer) batch(b *recordBatch) error {
	ops, values := b.ops, b.values
	for i := range b.records {
		rec := &b.records[i]
		n := 0
		for j := range ops[:rec.ops] {
			n += ops[j].values
		}
		if err := r.replay(rec, ops[:rec.ops], values[:n]); err != nil {
			return err
		}
		ops, values = ops[rec.ops:], values[n:]
	}
	return nil
}

// replay applies one record.
func (r *replayer) replay(rec *decodedRecord, ops []decodedOp, values []index.ValueLoc) error {
	e := r.e
	if rec.lsn > e.upTo {
		return nil
	}
	if errors.Is(rec.err, fault.ErrVersion) {
		return fmt.Errorf("record %d: %w", rec.lsn, rec.err)
	}
	if rec.err != nil {
		return e.pastDamage(&fault.CorruptionError{File: base.LogFile.Name(rec.file), Kind: "record", Offset: rec.offset, Len: int64(rec.len), Err: rec.err})
	}
	r.begin(rec)
	for i := range ops {
		o := &ops[i]
		if err := r.op(o, values[:o.values]); err != nil {
			return err
		}
		values = values[o.values:]
	}
	if r.hasFirst {
		r.change(r.firstID, r.first)
	}
	for id, t := range r.partitions {
		r.change(id, t)
	}
	for _, m := range r.tombs {
		r.c.Remember = append(r.c.Remember, m)
	}
	e.Index.Apply(r.c)
	e.flusher.committed(r.c.Put, rec.lsn, int64(rec.len))
	if !e.isOpen.Load() { // else it is followed
		e.report.Replayed++
	}
	return nil
}

// begin forgets the previous record.
func (r *replayer) begin(rec *decodedRecord) {
	r.rec, r.begun = rec, 0
	r.c = index.Change{LSN: rec.lsn, Put: r.c.Put[:0], Remove: r.c.Remove[:0], Remember: r.c.Remember[:0]}
	r.firstID, r.first, r.hasFirst = "", nil, false
	clear(r.partitions)
	clear(r.tombs)
}

// change adds a partition to those that the record changes.
func (r *replayer) change(id string, t *index.Partition) {
	if t == nil {
		r.c.Remove = append(r.c.Remove, id)
		return
	}
	r.c.Put = append(r.c.Put, t)
}

func (r *replayer) tomb(id string) (index.Tombstone, bool) {
	if m, ok := r.tombs[id]; ok {
		return m, true
	}
	return r.e.Index.Tombstone(id)
}

func (r *replayer) remember(id string, m index.Tombstone) {
	if r.tombs == nil {
		r.tombs = map[string]index.Tombstone{}
	}
	r.tombs[id] = m
}

// partition returns a partition as it is before the next operation, and whether nobody else has
// it, so that it can be changed.
func (r *replayer) partition(id string) (t *index.Partition, own bool, err error) {
	if r.hasFirst && r.firstID == id {
		return r.first, false, nil
	}
	if t, ok := r.partitions[id]; ok {
		return t, false, nil
	}
	return r.e.Index.PartitionOrRow(id)
}

func (r *replayer) set(id string, t *index.Partition) {
	switch {
	case !r.hasFirst || r.firstID == id:
		r.firstID, r.first, r.hasFirst = id, t, true
		return
	case r.partitions == nil:
		r.partitions = map[string]*index.Partition{}
	}
	r.partitions[id] = t
}

func (r *replayer) op(o *decodedOp, values []index.ValueLoc) error {
	t, own, err := r.partition(o.id)
	if err != nil {
		return err
	}
	lsn, time := r.rec.lsn, r.rec.time
	if t == nil && o.kind != opPut {
		err := &fault.CorruptionError{File: base.LogFile.Name(r.rec.file), Kind: "record", Offset: r.rec.offset,
			Detail: fmt.Sprintf("changes partition %q, which does not exist", o.id)}
		return r.e.pastDamage(err) // the record that began the partition was skipped
	}
	switch o.kind {
	case opPut:
		r.put(t, own, o, values)
	case opDelete:
		if t, err = r.withHeads(t, o.key); err != nil {
			return err
		}
		r.set(o.id, t.With([]*index.Entry{{Key: o.key, LSN: lsn, Flags: index.FlagDeleted}}, lsn, t.Updated))
	case opDrop:
		r.e.garbage.noteDropped(t, lsn)
		r.set(o.id, nil)
		r.remember(o.id, dropTombstone(r.tomb, o.id, lsn, time, o.tomb))
	case opCopy:
		return r.copy(t, o)
	case opFlags:
		n := *t
		n.Flags = o.flags
		r.set(o.id, &n)
	}
	return nil
}

// put puts an entry into t, which may be changed in place if the record being replayed owns it, and into a new
// partition if t is nil.
func (r *replayer) put(t *index.Partition, own bool, o *decodedOp, values []index.ValueLoc) {
	lsn := r.rec.lsn
	if t == nil {
		t = index.NewPartition(o.id, index.NewFamily(index.FamilyID(lsn, r.begun)), lsn)
		r.begun++
		own = true
	}
	t.Family.Add(values)
	if r.entry[0] = o.entry; own {
		t.Add(r.entry[:], lsn, r.rec.time)
	} else {
		t = t.With(r.entry[:], lsn, r.rec.time)
	}
	r.set(o.id, t)
}

func (r *replayer) copy(t *index.Partition, o *decodedOp) error {
	if _, _, err := r.partition(o.key); err != nil { // see index.Apply
		return err
	}
	if t.Cold() {
		loaded, _, err := r.e.load(t, nil)
		if err != nil {
			return err
		}
		t = loaded
	}
	r.set(o.key, t.Forked(o.key, r.rec.lsn, r.rec.lsn, r.rec.time))
	if _, ok := r.tomb(o.key); ok {
		r.remember(o.key, copyTombstone(o.key, r.rec.lsn, r.rec.time))
	}
	return nil
}

// withHeads loads a cold partition that is about to lose its head, because only the entries tell which
// one comes next. A partition whose pages are damaged stays cold, with the old head: reading it returns
// the damage.
func (r *replayer) withHeads(t *index.Partition, key string) (*index.Partition, error) {
	if !t.Cold() || key != t.Head {
		return t, nil
	}
	loaded, _, err := r.e.load(t, nil)
	if errors.Is(err, fault.ErrCorrupt) {
		return t, nil
	}
	return loaded, err
}

// slotLoc returns the ref and the place of the bytes of a slot of the record en. An error means that no
// valid record has such a slot.
func slotLoc(s *recordSlot, en *wal.Entry) (index.Ref, index.Loc, error) {
	lsn := en.LSN
	ref := index.Ref{LSN: lsn, Ord: s.ord}
	loc := index.Loc{File: en.File, Len: s.len, Sum: s.sum}
	loc.Off, loc.Inner = sealedPlace(en.Sealed, en.Offset, s.off)
	if s.encoding != slotPatch {
		return ref, loc, nil
	}
	loc, ok := loc.Against(ref, s.base)
	if !ok || loc.Back < 0 {
		return ref, loc, fmt.Errorf("record: value %d.%d is a patch against %d.%d", lsn, s.ord, s.base.LSN, s.base.Ord)
	}
	return ref, loc, nil
}
