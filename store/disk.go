package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
)

// An item of a store is an item of the engine. Its first slot holds the value; the slot's
// name is the encoded meta and its tag the summary. A second slot, if there is one, holds
// the vectors. So the index has everything that a search compares except the vectors, and
// renewing an item writes no value.

// flagExpiring is the partition flag of a namespace in which items may expire.
const flagExpiring uint8 = 1

// durable is the backend of On: items on the engine of a durable saver.
type durable struct {
	e     *engine.Engine
	codec serde.Serializer
	index *Index
	last  recent

	mu       sync.Mutex // guards tables and searches; held while vectors are read
	tables   map[string]*vectorTable
	searches uint64
	budget   int64
}

func newDurable(e *engine.Engine, o *Options) *durable {
	d := &durable{e: e, codec: o.Serializer, index: o.Index, tables: map[string]*vectorTable{}, budget: o.VectorBytes}
	if d.budget == 0 {
		d.budget = defaultVectorBytes
	}
	return d
}

func (d *durable) now() int64 { return d.e.Now() }

// partitionOf is the id of the partition that holds a namespace.
func partitionOf(ns string) string { return layout.SpaceItems + ns }

// sortedSet sorts ids and drops repetitions, as a commit takes them.
func sortedSet(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

func itemKey(key string) string { return prefixItem + key }

// entryOf fills en with the fields of an item that are in the index.
func entryOf(t *index.Partition, it *index.Entry, en *entry) error {
	if it.Key == "" || it.Key[:1] != prefixItem || it.Slots.Len() == 0 {
		return fmt.Errorf("store item %q: %w", it.Key, saver.ErrCorrupt)
	}
	s := it.Slots.At(0)
	m, err := decodeMeta(s.Name)
	if err != nil {
		return fmt.Errorf("store item %q: %w", it.Key[1:], err)
	}
	en.ns, en.key = t.ID[len(layout.SpaceItems):], it.Key[1:]
	en.meta, en.summary, en.fam, en.item = m, s.Tag, t.Family, it
	return nil
}

// get implements backend.
func (d *durable) get(ctx context.Context, ns, key string, live func(meta) bool) (en entry, value map[string]any, err error) {
	var was *index.Entry
	at := address{partitionOf(ns), itemKey(key)}
	if err := d.e.Current(ctx); err != nil {
		return entry{}, nil, err
	}
	for {
		t, err := d.e.Partition(at.id)
		if err != nil || t == nil {
			return entry{}, nil, err
		}
		it := t.Get(at.key)
		if it == nil {
			return entry{}, nil, nil
		}
		if err := entryOf(t, it, &en); err != nil {
			return entry{}, nil, err
		}
		if !live(en.meta) {
			return entry{}, nil, nil
		}
		if value := d.last.get(at, it.LSN); value != nil {
			return en, value, nil
		}
		value, sealed, err := d.readValue(ctx, d.e.ReadValue, t.Family, it)
		if err == nil && !sealed {
			d.last.put(at, it.LSN, value)
		}
		if !errors.Is(err, engine.ErrNoValue) || it.Same(was) {
			return en, value, err
		}
		was = it // it was replaced during the read, and its bytes were freed
	}
}

// reading reads a value: engine.Store.ReadValue for a single one, Reader.Read for
// one of many.
type reading func(ctx context.Context, fam *index.Family, ref index.Ref) ([]byte, error)

// readValue reads and decodes a value. sealed: it is stored encrypted.
func (d *durable) readValue(ctx context.Context, read reading, fam *index.Family, it *index.Entry) (value map[string]any, sealed bool, err error) {
	b, err := read(ctx, fam, it.Slots.At(0).Ref)
	if err != nil {
		return nil, false, fmt.Errorf("store item %q: %w", it.Key[1:], err)
	}
	typed, err := layout.UnpackTyped(b)
	if err != nil {
		return nil, false, fmt.Errorf("store item %q: %w", it.Key[1:], err)
	}
	value, err = decodeValue(d.codec, typed)
	return value, isEncrypted(typed.Kind), err
}

func decodeValue(codec serde.Serializer, typed serde.Typed) (map[string]any, error) {
	v, err := codec.Decode(typed)
	if err != nil {
		return nil, fmt.Errorf("store item: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("store item: want a map of strings, got %T: %w", v, saver.ErrCorrupt)
	}
	return m, nil
}

func (d *durable) commit(ctx context.Context, changes []change) error {
	part, err := d.part(changes)
	if err != nil {
		return err
	}
	return d.e.CommitWith(ctx, engine.CommitOptions{Size: part.Size, Urgent: part.Urgent || layout.IsUrgent(ctx), Deferred: saver.SyncDeferred(ctx)}, part.Partitions, part.Do)
}

func (d *durable) sync(ctx context.Context) error { return d.e.Sync(ctx) }

// part makes changes ready to be committed, alone or with others.
func (d *durable) part(changes []change) (engine.Change, error) {
	p := engine.Change{Urgent: true}
	puts := make([]diskPut, len(changes))
	var emptied []string // partitions that may be empty behind the changes
	for i := range changes {
		c := &changes[i]
		puts[i] = diskPut{change: c, id: partitionOf(c.ns)}
		p.Partitions = append(p.Partitions, puts[i].id)
		if c.remove {
			emptied = append(emptied, puts[i].id)
			continue
		}
		p.Urgent = false
		if err := puts[i].encode(d); err != nil {
			return p, err
		}
		p.Size += puts[i].value.Size() + puts[i].vectors.Size() + int64(len(c.summary)+len(c.key)+64)
	}
	p.Partitions, emptied = sortedSet(p.Partitions), sortedSet(emptied)
	p.Do = func(tx *engine.Tx) error {
		for i := range puts {
			if err := puts[i].do(tx); err != nil {
				return err
			}
		}
		return dropEmpty(tx, emptied)
	}
	return p, nil
}

// diskPut is one change on its way into the log.
type diskPut struct {
	*change
	id      string
	value   engine.Value
	vectors engine.Value // of size 0: none
}

func (p *diskPut) encode(d *durable) (err error) {
	if p.value, err = engine.NewValue(layout.KindPrefix(p.change.value.Kind), p.change.value.Data); err != nil {
		return fmt.Errorf("key %q: %w", p.key, err)
	}
	if len(p.change.vectors) == 0 {
		return nil
	}
	b := encodeVectors(p.change.vectors, d.index.Dims)
	if isEncrypted(p.change.value.Kind) {
		typed, err := d.codec.Encode(b)
		if err != nil {
			return fmt.Errorf("key %q: vectors: %w", p.key, err)
		}
		p.vectors, err = engine.NewValue(layout.KindPrefix(typed.Kind), typed.Data)
		return err
	}
	p.vectors, err = engine.NewValue(layout.KindPrefix(serde.KindBytes), b)
	return err
}

// do runs in commit order, so it sees the changes of all earlier commits.
func (p *diskPut) do(tx *engine.Tx) error {
	key := itemKey(p.key)
	t := tx.Partition(p.id)
	var old *index.Entry
	if t != nil {
		old = t.Get(key)
	}
	if p.remove {
		if old == nil {
			return nil
		}
		return tx.Delete(p.id, key)
	}
	var before *meta
	if old != nil && old.Slots.Len() > 0 {
		if m, err := decodeMeta(old.Slots.At(0).Name); err == nil {
			before = &m
		}
	}
	m := p.timesOf(tx.Now(), before)
	slots := make([]engine.SlotIn, 1, 2)
	slots[0] = engine.SlotIn{Name: encodeMeta(m), Tag: string(p.summary), Value: &p.value}
	if p.vectors.Size() > 0 {
		slots = append(slots, engine.SlotIn{Value: &p.vectors})
	}
	if err := tx.Put(p.id, key, 0, slots); err != nil {
		return err
	}
	if m.expires != 0 {
		tx.SetFlags(p.id, flagExpiring)
	}
	return nil
}

// dropEmpty removes the partitions of namespaces that have no items left.
func dropEmpty(tx *engine.Tx, ids []string) error {
	for _, id := range ids {
		if t := tx.Partition(id); t != nil && t.Last("") == nil {
			if err := tx.Drop(id, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// renew puts items again with a new expiry. The slots keep their values by reference. Items
// that were replaced since they were read are left alone.
func (d *durable) renew(ctx context.Context, entries []entry) error {
	var ids []string
	for i := range entries {
		ids = append(ids, partitionOf(entries[i].ns))
	}
	return d.e.Commit(engine.WithoutRider(ctx), sortedSet(ids), func(tx *engine.Tx) error {
		for i := range entries {
			en := &entries[i]
			t, it := tx.Partition(partitionOf(en.ns)), en.item
			if t == nil {
				continue
			}
			if now := t.Get(it.Key); now == nil || now.LSN != it.LSN {
				continue
			}
			slots := make([]engine.SlotIn, it.Slots.Len())
			for k, s := range it.Slots.All() {
				slots[k] = engine.SlotIn{Name: s.Name, Tag: s.Tag, Ref: s.Ref}
			}
			slots[0].Name = encodeMeta(en.meta)
			if err := tx.Put(t.ID, it.Key, it.Flags, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweepBatch is the number of items that one commit of a sweep removes, across namespaces,
// so that many small namespaces do not cost a sync each.
const sweepBatch = 1000

// address names an item of the engine: its partition and its key.
type address struct{ id, key string }

func (d *durable) sweep(ctx context.Context) (int, error) {
	v, err := d.view(engine.WithoutLease(ctx)) // the commits rest on the fence
	if err != nil {
		return 0, err
	}
	defer v.release()
	var expired []address
	now := d.now()
	err = v.spaces("", "", func(sp space) (bool, error) {
		if !sp.expiring() {
			return true, ctx.Err()
		}
		return true, sp.items(func(en *entry) (bool, error) {
			if !en.meta.live(now) {
				expired = append(expired, address{partitionOf(sp.id()), itemKey(en.key)})
			}
			return true, nil
		})
	})
	if err != nil {
		return 0, err
	}
	removed := 0
	for batch := range slices.Chunk(expired, sweepBatch) {
		n, err := d.removeExpired(ctx, batch)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// removeExpired removes those items that are still expired when the commit runs.
func (d *durable) removeExpired(ctx context.Context, items []address) (removed int, err error) {
	var ids []string
	for _, a := range items {
		ids = append(ids, a.id)
	}
	ids = sortedSet(ids)
	err = d.e.CommitWith(ctx, engine.CommitOptions{Urgent: true}, ids, func(tx *engine.Tx) error {
		removed = 0
		for _, a := range items {
			t := tx.Partition(a.id)
			if t == nil {
				continue
			}
			it := t.Get(a.key)
			if it == nil || it.Slots.Len() == 0 {
				continue
			}
			if m, err := decodeMeta(it.Slots.At(0).Name); err != nil || m.live(tx.Now()) {
				continue
			}
			if err := tx.Delete(a.id, a.key); err != nil {
				return err
			}
			removed++
		}
		return dropEmpty(tx, ids)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

func (d *durable) view(ctx context.Context) (view, error) {
	if err := d.e.Current(ctx); err != nil {
		return nil, err
	}
	v, err := d.e.View()
	if err != nil {
		return nil, err
	}
	return &diskView{d, v, d.e.Reader()}, nil
}

type diskView struct {
	d    *durable
	v    *engine.View
	from *engine.Reader // keeps decoded blocks for the next value
}

func (v *diskView) release() {
	v.from.End()
	v.v.Release()
}

func (v *diskView) get(ns, key string) (en entry, ok bool, err error) {
	t, err := v.v.Partition(partitionOf(ns))
	if err != nil || t == nil {
		return en, false, err
	}
	it := t.Get(itemKey(key))
	if it == nil {
		return en, false, nil
	}
	return en, true, entryOf(t, it, &en)
}

func (v *diskView) read(ctx context.Context, en *entry) (map[string]any, error) {
	value, _, err := v.d.readValue(ctx, v.from.Read, en.fam, en.item)
	return value, err
}

func (v *diskView) spaces(prefix, from string, fn func(space) (bool, error)) (err error) {
	within := partitionOf(prefix)
	aerr := v.v.Ascend(max(within, partitionOf(from)), func(t *index.Partition) bool {
		if !strings.HasPrefix(t.ID, within) {
			return false
		}
		var more bool
		more, err = fn(&diskSpace{v: v, t: t})
		return more && err == nil
	})
	return cmp.Or(err, aerr)
}

type diskSpace struct {
	v *diskView
	t *index.Partition // may be cold
}

func (s *diskSpace) id() string { return s.t.ID[len(layout.SpaceItems):] }

func (s *diskSpace) expiring() bool { return s.t.Flags&flagExpiring != 0 }

func (s *diskSpace) load() (err error) {
	s.t, err = s.v.v.Load(s.t)
	return err
}

func (s *diskSpace) items(fn func(*entry) (bool, error)) error {
	if err := s.load(); err != nil {
		return err
	}
	var err error
	var en entry
	s.t.Ascend("", func(it *index.Entry) bool {
		if err = entryOf(s.t, it, &en); err != nil {
			return false
		}
		var more bool
		more, err = fn(&en)
		return more && err == nil
	})
	return err
}
