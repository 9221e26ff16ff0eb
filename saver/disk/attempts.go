package disk

import (
	"context"
	"encoding/binary"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// CountAttempt implements saver.Saver.
//
// The count is an entry of its own beside its checkpoint. A hidden pending write would do as well, but
// all code that reads writes would have to know of it: the order of pending writes, the status, delta
// channels. Only this function and the removal of checkpoints know of the entry.
func (s *Saver) CountAttempt(ctx context.Context, cfg saver.Config) (int, error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, count := layout.ThreadKey(cfg.ThreadID), 0
	err := s.e.CommitWith(ctx, engine.CommitOptions{}, []string{id}, func(tx *engine.Tx) error {
		if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
			return err
		}
		t := tx.Partition(id)
		at := findCheckpoint(t, cfg)
		if at == nil {
			return rules.NotFound(cfg)
		}
		ns, checkpoint, _ := layout.ParseCheckpointKey(at.Key)
		key := layout.AttemptsKey(ns, checkpoint)
		count = 1
		if it := t.Get(key); it != nil && it.Slots.Len() > 0 {
			tag := it.Slots.At(0).Tag
			n, w := binary.Uvarint([]byte(tag))
			if w != len(tag) || n >= maxAttempts {
				return threadError(cfg.ThreadID, "attempts at checkpoint "+checkpoint, layout.AsCorrupt(layout.ErrRecord))
			}
			count += int(n)
		}
		tx.Answer(count)
		return tx.Put(id, key, 0, []engine.SlotIn{{Tag: string(binary.AppendUvarint(nil, uint64(count)))}})
	})
	if err != nil {
		return 0, err
	}
	return count, s.Sync(ctx)
}

// maxAttempts is more than anyone counts.
const maxAttempts = 1 << 30
