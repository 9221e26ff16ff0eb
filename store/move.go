package store

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
)

// Mover gives items another namespace.
type Mover interface {
	// Move puts the items of the namespace from, but not of those below it, into the namespace to,
	// as they are: with their values, times, TTLs and vectors, whatever Options.Index is. An item
	// that is in to already is not replaced: one with the same value is removed from the namespace
	// from, and one with another value stays there, and is Left. With dry nothing is changed, and
	// the report says what would be.
	//
	// Items are moved a few hundred at a time, in commits of their own: after an error, or a crash,
	// each is in one of both namespaces, and a second call goes on. Errors are those of Put.
	Move(ctx context.Context, from, to Namespace, dry bool) (MoveReport, error)
}

// MoveReport says what Move did.
type MoveReport struct {
	// Moved is how many items have left the namespace.
	Moved int
	// Left are the keys of those that are in the other namespace with another value.
	Left []string
}

// Move implements Mover.
func (s *Local) Move(ctx context.Context, from, to Namespace, dry bool) (MoveReport, error) {
	if err := ctx.Err(); err != nil {
		return MoveReport{}, err
	}
	if err := checkSize(from); err != nil {
		return MoveReport{}, err
	}
	if err := CheckNamespace(to); err != nil {
		return MoveReport{}, err
	}
	if slices.Equal(from, to) {
		return MoveReport{}, invalidf("to", "it is the namespace %q itself", []string(to))
	}
	if s.disk == nil {
		return s.back.(*memory).move(idOf(from), idOf(to), dry), nil
	}
	return s.disk.move(ctx, idOf(from), idOf(to), dry)
}

// move is Move. A namespace that others write to meanwhile is gone through again.
func (d *durable) move(ctx context.Context, from, to string, dry bool) (rep MoveReport, err error) {
	for again := true; again; {
		again, rep.Left = false, nil
		for before, more := "", true; more; {
			var b *moveBatch
			if b, err = d.moveBatch(ctx, partitionOf(from), partitionOf(to), before); err != nil {
				return rep, err
			}
			rep.Left = append(rep.Left, b.left...)
			if dry {
				rep.Moved += len(b.items)
			} else if err := b.commit(ctx); err != nil {
				return rep, err
			} else {
				rep.Moved += b.moved
				again = again || b.moved < len(b.items)
			}
			before, more = b.last, b.more
		}
	}
	slices.Sort(rep.Left)
	return rep, nil
}

// moveItems and moveBytes bound how much one commit of a move contains.
const (
	moveItems = 500
	moveBytes = 8 << 20
)

// moveBatch has the items that one commit moves.
type moveBatch struct {
	d        *durable
	from, to string // partitions
	items    []movedItem
	left     []string
	size     int64
	last     string // key of the engine, before which the next batch begins: the greatest goes first
	more     bool
	moved    int
}

// movedItem is an item on its way to another partition.
type movedItem struct {
	was   *index.Entry
	slots []engine.SlotIn // nil: the item is there already
	there *index.Entry    // what is in its place; nil: nothing
}

// moveBatch reads the items that the next commit moves.
func (d *durable) moveBatch(ctx context.Context, from, to, before string) (*moveBatch, error) {
	b := &moveBatch{d: d, from: from, to: to}
	view, err := d.view(ctx)
	if err != nil {
		return nil, err
	}
	defer view.release()
	v := view.(*diskView)
	src, err := v.v.Partition(from)
	if err != nil || src == nil {
		return b, err
	}
	dst, err := v.v.Partition(to)
	if err != nil {
		return nil, err
	}
	src.Descend(prefixItem, before, func(it *index.Entry) bool {
		if b.more = len(b.items) == moveItems || b.size >= moveBytes; b.more {
			return false
		}
		err = b.add(ctx, v, src, dst, it)
		b.last = it.Key
		return err == nil
	})
	return b, err
}

// add reads an item of src and adds it to the batch, or to left if dst has another value under its key.
func (b *moveBatch) add(ctx context.Context, v *diskView, src, dst *index.Partition, it *index.Entry) error {
	var en entry
	if err := entryOf(src, it, &en); err != nil {
		return err
	}
	m := movedItem{was: it}
	if dst != nil {
		m.there = dst.Get(it.Key)
	}
	parts := make([][]byte, 0, 2)
	for _, s := range it.Slots.All() {
		part, err := v.from.Read(ctx, src.Family, s.Ref)
		if err != nil {
			return fmt.Errorf("store item %q: %w", en.key, err)
		}
		parts = append(parts, part)
	}
	if m.there != nil {
		var other entry
		if err := entryOf(dst, m.there, &other); err != nil {
			return err
		}
		if now := b.d.now(); other.meta.live(now) {
			value, err := v.from.Read(ctx, dst.Family, m.there.Slots.At(0).Ref)
			if err != nil {
				return fmt.Errorf("store item %q: %w", en.key, err)
			}
			if en.meta.live(now) && !b.d.equal(parts[0], value) {
				b.left = append(b.left, en.key)
				return nil
			}
			b.items = append(b.items, m)
			return nil
		}
	}
	for k, s := range it.Slots.All() {
		value, err := engine.NewValue(parts[k])
		if err != nil {
			return fmt.Errorf("key %q: %w", en.key, err)
		}
		m.slots = append(m.slots, engine.SlotIn{Name: s.Name, Tag: s.Tag, Value: &value})
		b.size += value.Size() + int64(len(s.Tag)+len(en.key)+64)
	}
	b.items = append(b.items, m)
	return nil
}

// equal reports whether two values of the engine are one.
func (d *durable) equal(a, b []byte) bool {
	x, errX := layout.UnpackTyped(a)
	y, errY := layout.UnpackTyped(b)
	return errX == nil && errY == nil && sameValue(d.codec, x, y)
}

// sameValue reports whether two serialized values are one. Those that cannot be decoded, as another
// program encrypts them, are one only byte by byte.
func sameValue(codec serde.Serializer, a, b serde.Typed) bool {
	if a.Kind == b.Kind && bytes.Equal(a.Data, b.Data) {
		return true
	}
	x, errX := decodeValue(codec, a)
	y, errY := decodeValue(codec, b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// commit moves the batch, except for items that were changed in either namespace since they were read.
func (b *moveBatch) commit(ctx context.Context) error {
	if len(b.items) == 0 {
		return nil
	}
	opts := engine.CommitOptions{Size: b.size, Deferred: saver.SyncDeferred(ctx)}
	return b.d.e.CommitWith(ctx, opts, sortedSet([]string{b.from, b.to}), func(tx *engine.Tx) error {
		b.moved = 0
		for i := range b.items {
			m := &b.items[i]
			if !isStill(tx, b.from, m.was.Key, m.was) || !isStill(tx, b.to, m.was.Key, m.there) {
				continue
			}
			if m.slots != nil {
				if err := tx.Put(b.to, m.was.Key, m.was.Flags, m.slots); err != nil {
					return err
				}
				if mt, err := decodeMeta(m.was.Slots.At(0).Name); err == nil && mt.expires != 0 {
					tx.SetFlags(b.to, flagExpiring)
				}
			}
			if err := tx.Delete(b.from, m.was.Key); err != nil {
				return err
			}
			b.moved++
		}
		return dropEmpty(tx, []string{b.from})
	})
}

// isStill reports whether an item is the same in a transaction as it was in a view.
func isStill(tx *engine.Tx, partition, key string, was *index.Entry) bool {
	var it *index.Entry
	if t := tx.Partition(partition); t != nil {
		it = t.Get(key)
	}
	return it == nil && was == nil || it != nil && was != nil && it.LSN == was.LSN
}

// move is Move.
func (m *memory) move(from, to string, dry bool) (rep MoveReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unshare()
	var all []*memoryItem
	m.tree.AscendGreaterOrEqual(at(from, ""), func(it *memoryItem) bool {
		if it.ns == from {
			all = append(all, it)
		}
		return it.ns == from
	})
	now := m.now()
	for _, it := range all {
		there, ok := m.tree.Get(at(to, it.key))
		ok = ok && there.meta.live(now)
		if ok && it.meta.live(now) && !sameValue(m.codec, there.value, it.value) {
			rep.Left = append(rep.Left, it.key)
			continue
		}
		if rep.Moved++; dry {
			continue
		}
		if !ok {
			n := *it
			n.ns, n.mem = to, &n
			m.tree.ReplaceOrInsert(&n)
		}
		m.tree.Delete(it)
	}
	return rep
}
