package engine

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/wal"
)

// replayer applies records of the log to the index, one after the other. What it
// needs for a record it keeps for the next.
type replayer struct {
	e    *Engine
	dec  recordDecoder
	en   wal.Entry
	time int64
	c    index.Change

	// The threads as the record leaves them, nil if they are gone, and their memos.
	// Most records are of one thread: the first has a place of its own.
	firstID  string
	first    *index.Thread
	hasFirst bool
	threads  map[string]*index.Thread
	memos    map[string]index.Memo
	begun    int

	values []index.ValueLoc
}

// replay applies one record, as the commit did.
func (r *replayer) replay(en wal.Entry) error {
	e := r.e
	if e.upTo > 0 && en.LSN > e.upTo {
		return nil
	}
	rec, err := r.dec.decode(en.Payload)
	if errors.Is(err, base.ErrVersion) {
		return fmt.Errorf("record %d: %w", en.LSN, err)
	}
	if err != nil {
		return e.pastDamage(&base.CorruptionError{File: wal.FileName(en.File), Kind: "record", Offset: en.Offset, Len: int64(len(en.Payload)), Err: err})
	}
	r.begin(en, rec.time)
	for i := range rec.ops {
		if err := r.op(&rec.ops[i]); err != nil {
			return err
		}
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
	e.unflushed.add(r.c.Put, en.LSN)
	e.logBytes.Add(int64(len(en.Payload)))
	e.imageBytes.Add(int64(len(en.Payload)))
	e.report.Replayed++
	return nil
}

// begin forgets the record before.
func (r *replayer) begin(en wal.Entry, time int64) {
	r.en, r.time, r.begun = en, time, 0
	r.c = index.Change{LSN: en.LSN, Put: r.c.Put[:0], Remove: r.c.Remove[:0], Remember: r.c.Remember[:0]}
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

func (r *replayer) thread(id string) *index.Thread {
	if r.hasFirst && r.firstID == id {
		return r.first
	}
	if t, ok := r.threads[id]; ok {
		return t
	}
	return r.e.ix.Thread(id)
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

func (r *replayer) op(o *op) error {
	t := r.thread(o.id)
	if t == nil && o.kind != opPut {
		err := &base.CorruptionError{File: wal.FileName(r.en.File), Kind: "record", Offset: r.en.Offset,
			Detail: fmt.Sprintf("changes thread %q, which does not exist", o.id)}
		return r.e.pastDamage(err) // the record that began the thread was skipped
	}
	switch o.kind {
	case opPut:
		return r.put(t, o)
	case opDelete:
		t, err := r.withHeads(t, o.key)
		if err != nil {
			return err
		}
		r.set(o.id, t.With([]*index.Item{{Key: o.key, LSN: r.en.LSN, Flags: index.FlagDeleted}}, r.en.LSN, t.Updated))
	case opDrop:
		r.e.noteDropped(t)
		r.set(o.id, nil)
		r.remember(o.id, dropMemo(r.memo, o.id, r.en.LSN, r.time, o.memo))
	case opCopy:
		return r.copy(t, o)
	case opFlags:
		n := *t
		n.Flags = o.flags
		r.set(o.id, &n)
	}
	return nil
}

func (r *replayer) put(t *index.Thread, o *op) error {
	if t == nil {
		t = index.NewThread(o.id, index.NewFamily(familyID(r.en.LSN, r.begun)), r.en.LSN)
		r.begun++
	}
	it := &index.Item{Key: o.key, LSN: r.en.LSN, Flags: o.flags, Slots: make([]index.Slot, len(o.slots))}
	r.values = r.values[:0]
	for i := range o.slots {
		s := &o.slots[i]
		it.Slots[i] = index.Slot{Name: s.name, Tag: s.tag}
		switch s.enc {
		case slotEmpty:
			it.Slots[i].Ref = index.Ref{LSN: r.en.LSN, Ord: index.EmptyOrd}
		case slotRef:
			it.Slots[i].Ref = index.Ref{LSN: s.lsn, Ord: s.ord}
		case slotInline, slotPatch:
			ref, loc, err := s.loc(&r.en)
			if err != nil {
				return &base.CorruptionError{File: wal.FileName(r.en.File), Kind: "record", Offset: r.en.Offset, Err: err}
			}
			it.Slots[i].Ref = ref
			r.values = append(r.values, index.ValueLoc{Ref: ref, Loc: loc})
		}
	}
	t.Family.Add(r.values)
	r.set(o.id, t.With([]*index.Item{it}, r.en.LSN, r.time))
	return nil
}

func (r *replayer) copy(t *index.Thread, o *op) error {
	if t.Cold() {
		loaded, _, err := r.e.load(t, nil)
		if err != nil {
			return err
		}
		t = loaded
	}
	r.set(o.key, t.Forked(o.key, r.en.LSN, r.en.LSN, r.time))
	if _, ok := r.memo(o.key); ok {
		r.remember(o.key, copyMemo(o.key, r.en.LSN, r.time))
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
	if errors.Is(err, base.ErrCorrupt) {
		return t, nil
	}
	return loaded, err
}
