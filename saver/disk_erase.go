package saver

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
)

// pendingErasures is a thread of the engine with an item for each erasure that files
// may still contradict; the key is the hash.
const pendingErasures = "e"

// Erase implements Eraser.
func (s *Disk) Erase(ctx context.Context, threadID string) error {
	if err := ValidateThreadID(threadID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.eraseThread(ctx, threadID); err != nil {
		return err
	}
	if err := s.FinishErasures(ctx); err != nil {
		return unfinished(threadID, err)
	}
	return nil
}

// eraseThread deletes a thread, replaces what is remembered of it by the hash of its
// id, and says that its erasure is pending: in one record.
func (s *Disk) eraseThread(ctx context.Context, threadID string) error {
	hash := erasedHash(s.e.StoreID(), threadID)
	memory, thread := spaceErased+hash, threadKey(threadID)
	ids := map[string]bool{thread: true, memory: true, pendingErasures: true, ttlThread: true}
	return s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		if !needRuns(tx, threadID, need) {
			return errMoreThreads
		}
		if err := forgetRuns(tx, threadID, runsOf(tx.Thread(thread))); err != nil {
			return err
		}
		if err := dropTTL(tx, threadID); err != nil {
			return err
		}
		if err := tx.Drop(thread, nil); err != nil {
			return err
		}
		if err := tx.Put(memory, "", 0, nil); err != nil {
			return err
		}
		if err := tx.ForgetMemo(memory, thread); err != nil {
			return err
		}
		if err := tx.Drop(memory, encodeMemo(ErasedID)); err != nil {
			return err
		}
		return tx.Put(pendingErasures, hash, 0, nil)
	})
}

// PendingErasures is how many threads were erased by a call that did not finish:
// they are deleted, but files may still hold bytes of them.
func (s *Disk) PendingErasures() (int, error) {
	keys, err := s.pending()
	return len(keys), err
}

func (s *Disk) pending() ([]string, error) {
	t, err := s.e.Thread(pendingErasures)
	if err != nil || t == nil {
		return nil, err
	}
	var keys []string
	t.Ascend("", func(it *index.Item) bool {
		keys = append(keys, it.Key)
		return true
	})
	return keys, nil
}

// FinishErasures does what Erase left undone when it was interrupted: afterwards no
// file of the store holds a byte of the threads that were erased before the call. It
// does nothing if there is nothing to do. A store that finds unfinished erasures
// when it is opened does it by itself, unless Options.ManualWork.
func (s *Disk) FinishErasures(ctx context.Context) error {
	keys, err := s.pending()
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := s.e.Scrub(ctx); err != nil {
		return err
	}
	err = s.commitWith(ctx, map[string]bool{pendingErasures: true}, func(tx *engine.Tx, _ func(string) bool) error {
		if err := tx.Delete(pendingErasures, keys...); err != nil {
			return err
		}
		if t := tx.Thread(pendingErasures); t != nil && t.Last("") == nil {
			return tx.Drop(pendingErasures, nil)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note that erasures are finished: %w", err)
	}
	return nil
}

// forgetErased forgets that dst was erased, as it is about to become a copy of src.
func (s *Disk) forgetErased(tx *engine.Tx, src, dst string) error {
	for _, store := range s.origins {
		if err := tx.ForgetMemo(threadKey(src), erasedThread(store, dst)); err != nil {
			return err
		}
	}
	return nil
}
