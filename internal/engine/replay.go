package engine

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// replayer applies records of the log to the index, one after the other. What it
// needs for a record it keeps for the next.
type replayer struct {
	e   *Engine
	rec *decodedRecord
	c   index.Change

	// The threads as the record leaves them, nil if they are gone, and their memos.
	// Most records are of one thread: the first has a place of its own.
	firstID  string
	first    *index.Thread
	hasFirst bool
	threads  map[string]*index.Thread
	memos    map[string]index.Memo
	begun    int

	item [1]*index.Item
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
	if e.upTo > 0 && rec.lsn > e.upTo {
		return nil
	}
	if errors.Is(rec.err, fault.ErrVersion) {
		return fmt.Errorf("record %d: %w", rec.lsn, rec.err)
	}
	if rec.err != nil {
		return e.pastDamage(&fault.CorruptionError{File: wal.FileName(rec.file), Kind: "record", Offset: rec.offset, Len: int64(rec.len), Err: rec.err})
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
	for id, t := range r.threads {
		r.change(id, t)
	}
	for _, m := range r.memos {
		r.c.Remember = append(r.c.Remember, m)
	}
	e.ix.Apply(r.c)
	e.unflushed.add(r.c.Put, rec.lsn)
	e.logBytes.Add(int64(rec.len))
	e.imageBytes.Add(int64(rec.len))
	e.report.Replayed++
	return nil
}

// begin forgets the record before.
func (r *replayer) begin(rec *decodedRecord) {
	r.rec, r.begun = rec, 0
	r.c = index.Change{LSN: rec.lsn, Put: r.c.Put[:0], Remove: r.c.Remove[:0], Remember: r.c.Remember[:0]}
	r.firstID, r.first, r.hasFirst = "", nil, false
	clear(r.threads)
	clear(r.memos)
}

// change adds a thread to what the record changes.
func (r *replayer) change(id string, t *index.Thread) {
	if t == nil {
		r.c.Remove = append(r.c.Remove, id)
		return
	}
	r.c.Put = append(r.c.Put, t)
}

func (r *replayer) memo(id string) (index.Memo, bool) {
	if m, ok := r.memos[id]; ok {
		return m, true
	}
	return r.e.ix.Memo(id)
}

func (r *replayer) remember(id string, m index.Memo) {
	if r.memos == nil {
		r.memos = map[string]index.Memo{}
	}
	r.memos[id] = m
}

// thread returns a thread as it is before the next operation, and whether nobody else has
// it, so that it can be changed.
func (r *replayer) thread(id string) (t *index.Thread, own bool, err error) {
	if r.hasFirst && r.firstID == id {
		return r.first, false, nil
	}
	if t, ok := r.threads[id]; ok {
		return t, false, nil
	}
	return r.e.ix.ThreadOrRow(id)
}

func (r *replayer) set(id string, t *index.Thread) {
	switch {
	case !r.hasFirst || r.firstID == id:
		r.firstID, r.first, r.hasFirst = id, t, true
		return
	case r.threads == nil:
		r.threads = map[string]*index.Thread{}
	}
	r.threads[id] = t
}

func (r *replayer) op(o *decodedOp, values []index.ValueLoc) error {
	t, own, err := r.thread(o.id)
	if err != nil {
		return err
	}
	lsn, time := r.rec.lsn, r.rec.time
	if t == nil && o.kind != opPut {
		err := &fault.CorruptionError{File: wal.FileName(r.rec.file), Kind: "record", Offset: r.rec.offset,
			Detail: fmt.Sprintf("changes partition %q, which does not exist", o.id)}
		return r.e.pastDamage(err) // the record that began the thread was skipped
	}
	switch o.kind {
	case opPut:
		r.put(t, own, o, values)
	case opDelete:
		if t, err = r.withHeads(t, o.key); err != nil {
			return err
		}
		r.set(o.id, t.With([]*index.Item{{Key: o.key, LSN: lsn, Flags: index.FlagDeleted}}, lsn, t.Updated))
	case opDrop:
		r.e.noteDropped(t)
		r.set(o.id, nil)
		r.remember(o.id, dropMemo(r.memo, o.id, lsn, time, o.memo))
	case opCopy:
		return r.copy(t, o)
	case opFlags:
		n := *t
		n.Flags = o.flags
		r.set(o.id, &n)
	}
	return nil
}

func (r *replayer) put(t *index.Thread, own bool, o *decodedOp, values []index.ValueLoc) {
	lsn := r.rec.lsn
	if t == nil {
		t = index.NewThread(o.id, index.NewFamily(familyID(lsn, r.begun)), lsn)
		r.begun++
		own = true
	}
	t.Family.Add(values)
	if r.item[0] = o.item; own {
		t.Add(r.item[:], lsn, r.rec.time)
	} else {
		t = t.With(r.item[:], lsn, r.rec.time)
	}
	r.set(o.id, t)
}

func (r *replayer) copy(t *index.Thread, o *decodedOp) error {
	if _, _, err := r.thread(o.key); err != nil { // see index.Apply
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
	if _, ok := r.memo(o.key); ok {
		r.remember(o.key, copyMemo(o.key, r.rec.lsn, r.rec.time))
	}
	return nil
}

// withHeads loads a cold thread that is about to lose its head, because only its
// items tell which one comes next. A thread whose pages are damaged stays cold,
// with the old head: whoever reads it will be told.
func (r *replayer) withHeads(t *index.Thread, key string) (*index.Thread, error) {
	if !t.Cold() || key != t.Head {
		return t, nil
	}
	loaded, _, err := r.e.load(t, nil)
	if errors.Is(err, fault.ErrCorrupt) {
		return t, nil
	}
	return loaded, err
}
