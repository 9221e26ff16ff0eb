package store

import (
	"context"
	"errors"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// PutOver makes puts in one commit, if the item that was read is still the one under its key; ok is false if
// it is not, or was is nil, and nothing was put. So what another process has changed or removed since is not
// overwritten. Items are told apart by UpdatedAt. Errors are those of Batch.
func (s *Local) PutOver(ctx context.Context, was *Item, puts ...PutOp) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if was == nil {
		was = &Item{} // under a key that nothing has
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return false, err
	}
	err = s.back.commitOver(ctx, idOf(was.Namespace), was.Key, was.UpdatedAt.UnixMicro(), changes)
	if errors.Is(err, errReplaced) {
		return false, nil
	}
	return err == nil, err
}

// errReplaced: the item is no longer the one that was read.
var errReplaced = errors.New("the item was replaced or removed")

func (m *memory) commitOver(ctx context.Context, ns, key string, updated int64, changes []change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if it, ok := m.tree.Get(at(ns, key)); !ok || it.meta.updated != updated {
		return errReplaced
	}
	m.apply(changes)
	return nil
}

func (d *durable) commitOver(ctx context.Context, ns, key string, updated int64, changes []change) error {
	part, err := d.part(changes)
	if err != nil {
		return err
	}
	id := partitionOf(ns)
	ids := sortedSet(append(part.Partitions, id))
	return d.e.CommitWith(ctx, engine.CommitOptions{Size: part.Size, Urgent: part.Urgent || layout.IsUrgent(ctx), Deferred: saver.SyncDeferred(ctx)}, ids, func(tx *engine.Tx) error {
		t := tx.Partition(id)
		if t == nil {
			return errReplaced
		}
		it := t.Get(itemKey(key))
		if it == nil {
			return errReplaced
		}
		var en entry
		if err := entryOf(t, it, &en); err != nil {
			return err
		}
		if en.meta.updated != updated {
			return errReplaced
		}
		return part.Do(tx)
	})
}
