package store

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
)

// Appender keeps items in the order in which the store commits them, whatever clocks say. A Local and a
// store on PostgreSQL are Appenders; one that is reached over the wire is not.
type Appender interface {
	// Append puts value into the namespace below ns that topic names. Its key sorts behind those of all that
	// was appended below ns before, to any topic, removed or not: if one call returned before another began,
	// its item comes first. Search with ByKey reads a topic in that order. If something was appended below ns
	// with the same once before, and once is not empty, Append does nothing. All is one commit.
	//
	// What the order and once need are items of ns itself: deleting them forgets both. They and the item do
	// not expire, and have no vectors. Errors are those of Put.
	Append(ctx context.Context, ns Namespace, topic, once string, value map[string]any) error
}

var _ Appender = (*Local)(nil)

// Keys of the items that Append keeps in a namespace.
const (
	// AppendLast is the key of the item whose UpdatedAt is the place of what was appended last.
	AppendLast = "last"
	appendOnce = "once "
)

// AppendKey is the key of the item at a place of the order, which is a time in unix µs, if the clock is right.
func AppendKey(place int64) string { return fmt.Sprintf("%020d", place) }

// AppendPuts checks an Append, and makes the puts of it: the item without its key, the item that has the last
// place, and the mark of once, if there is one. It is for implementers of Appender.
func AppendPuts(ns Namespace, topic, once string, value map[string]any) ([]PutOp, error) {
	at := append(ns[:len(ns):len(ns)], topic)
	if err := CheckNamespace(at); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, invalidf("value", "nil")
	}
	puts := []PutOp{{Namespace: at, Value: value}, {Namespace: ns, Key: AppendLast, Value: map[string]any{}}}
	if once != "" {
		puts = append(puts, PutOp{Namespace: ns, Key: appendOnce + once, Value: map[string]any{}})
	}
	for i := range puts {
		if err := CheckAddress(puts[i].Namespace, puts[i].Key); err != nil {
			return nil, err
		}
		puts[i].TTL, puts[i].NoIndex = -1, true
	}
	return puts, nil
}

// Append implements Appender.
func (s *Local) Append(ctx context.Context, ns Namespace, topic, once string, value map[string]any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	puts, err := AppendPuts(ns, topic, once, value)
	if err != nil {
		return err
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return err
	}
	return s.back.append(ctx, changes)
}

// placed gives the changes of an Append their place, behind that of old, the item with the last one.
func placed(changes []change, now int64, old *meta) {
	if old != nil {
		now = max(now, old.updated+1)
	}
	changes[0].key = AppendKey(now)
	changes[1].times = &meta{created: now, updated: now}
}

func (m *memory) append(ctx context.Context, changes []change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, mark := range changes[2:] {
		if m.tree.Has(at(mark.ns, mark.key)) {
			return nil
		}
	}
	var old *meta
	if it, ok := m.tree.Get(at(changes[1].ns, changes[1].key)); ok {
		old = &it.meta
	}
	placed(changes, m.now(), old)
	m.apply(changes)
	return nil
}

func (d *durable) append(ctx context.Context, changes []change) error {
	part, err := d.part(changes)
	if err != nil {
		return err
	}
	put := part.Do
	// It runs in commit order, so it sees the place of all earlier commits.
	part.Do = func(tx *engine.Tx) error {
		t := tx.Partition(partitionOf(changes[1].ns))
		if t == nil {
			placed(changes, tx.Now(), nil)
			return put(tx)
		}
		for _, mark := range changes[2:] {
			if t.Get(itemKey(mark.key)) != nil {
				return nil
			}
		}
		var old *meta
		if it := t.Get(itemKey(changes[1].key)); it != nil {
			var en entry
			if err := entryOf(t, it, &en); err != nil {
				return err
			}
			old = &en.meta
		}
		placed(changes, tx.Now(), old)
		return put(tx)
	}
	return d.e.CommitWith(ctx, engine.CommitOptions{Size: part.Size, Deferred: saver.SyncDeferred(ctx)}, part.Partitions, part.Do)
}
