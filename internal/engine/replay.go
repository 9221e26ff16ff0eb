package engine

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/wal"
)

// replay applies one record of the log to the index, as the commit did.
func (e *Engine) replay(en wal.Entry) error {
	if e.upTo > 0 && en.LSN > e.upTo {
		return nil
	}
	rec, err := decodeRecord(en.Payload)
	if errors.Is(err, base.ErrVersion) {
		return fmt.Errorf("record %d: %w", en.LSN, err)
	}
	if err != nil {
		return e.pastDamage(&base.CorruptionError{File: wal.FileName(en.File), Kind: "record", Offset: en.Offset, Len: int64(len(en.Payload)), Err: err})
	}
	r := replayer{e: e, en: en, time: rec.time, c: index.Change{LSN: en.LSN}, threads: map[string]*index.Thread{}, memos: map[string]index.Memo{}}
	for i := range rec.ops {
		if err := r.op(&rec.ops[i]); err != nil {
			return err
		}
	}
	for id, t := range r.threads {
		if t == nil {
			r.c.Remove = append(r.c.Remove, id)
			continue
		}
		r.c.Put = append(r.c.Put, t)
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

// replayer applies the operations of one record.
type replayer struct {
	e       *Engine
	en      wal.Entry
	time    int64
	c       index.Change
	threads map[string]*index.Thread
	memos   map[string]index.Memo
	begun   int
}

func (r *replayer) memo(id string) (index.Memo, bool) {
	if m, ok := r.memos[id]; ok {
		return m, true
	}
	return r.e.ix.Memo(id)
}

func (r *replayer) thread(id string) *index.Thread {
	if t, ok := r.threads[id]; ok {
		return t
	}
	return r.e.ix.Thread(id)
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
		r.threads[o.id] = t.With([]*index.Item{{Key: o.key, LSN: r.en.LSN, Flags: index.FlagDeleted}}, r.en.LSN, t.Updated)
	case opDrop:
		r.threads[o.id] = nil
		r.memos[o.id] = dropMemo(r.memo, o.id, r.en.LSN, r.time, o.memo)
	case opCopy:
		return r.copy(t, o)
	case opFlags:
		n := *t
		n.Flags = o.flags
		r.threads[o.id] = &n
	}
	return nil
}

func (r *replayer) put(t *index.Thread, o *op) error {
	if t == nil {
		t = index.NewThread(o.id, index.NewFamily(familyID(r.en.LSN, r.begun)), r.en.LSN)
		r.begun++
	}
	it := &index.Item{Key: o.key, LSN: r.en.LSN, Flags: o.flags, Slots: make([]index.Slot, len(o.slots))}
	var refs []index.Ref
	var locs []index.Loc
	for i, s := range o.slots {
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
			refs, locs = append(refs, ref), append(locs, loc)
		}
	}
	t.Family.Add(refs, locs)
	r.threads[o.id] = t.With([]*index.Item{it}, r.en.LSN, r.time)
	return nil
}

func (r *replayer) copy(t *index.Thread, o *op) error {
	if t.Cold() {
		loaded, err := r.e.load(t, index.Now)
		if err != nil {
			return err
		}
		t = loaded
	}
	r.threads[o.key] = t.Forked(o.key, r.en.LSN, r.en.LSN, r.time)
	if _, ok := r.memo(o.key); ok {
		r.memos[o.key] = copyMemo(o.key, r.en.LSN, r.time)
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
	loaded, err := r.e.load(t, index.Now)
	if errors.Is(err, base.ErrCorrupt) {
		return t, nil
	}
	return loaded, err
}
