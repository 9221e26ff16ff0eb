package rules

import (
	"fmt"
	"time"

	"github.com/stele-go/stele/saver"
)

// DefaultDeletedMemory is how long a saver remembers that a thread was deleted
// if its options do not say: 30 days.
const DefaultDeletedMemory = 30 * 24 * time.Hour

// Deleted is what a saver remembers of a deleted thread, so that a run that was under way
// does not bring back parts of it. If the thread is started anew, the saver still remembers
// the deletion, because the old run may still be under way. It forgets it when it is older
// than the saver's DeletedMemory, and when a thread is copied to the id. Forgetting never
// brings back data.
type Deleted struct {
	// GreatestID is the greatest checkpoint id of the thread in all namespaces. It
	// includes ids that had only writes and no checkpoint. A saver collects them before it
	// removes anything of the thread.
	GreatestID string
	// At is when the thread was deleted, by the saver's clock.
	At time.Time
}

// Expired reports whether the deletion need not be remembered any more.
func (d Deleted) Expired(now time.Time, keep time.Duration) bool { return now.Sub(d.At) > keep }

// Merge returns what to remember of a thread that was deleted before (d) and is deleted again: the
// greater id, and the time of the new deletion. If d is an erasure, the later of the two times is
// kept, so that a clock that was set back does not make the saver forget the erasure earlier.
func (d Deleted) Merge(again Deleted) Deleted {
	again.GreatestID = max(d.GreatestID, again.GreatestID)
	if d.GreatestID == ErasedID && d.At.After(again.At) {
		again.At = d.At
	}
	return again
}

// CheckPut refuses a checkpoint whose parent does not exist. A checkpoint without a parent
// starts the thread anew.
func (d Deleted) CheckPut(threadID, parent string, parentExists bool) error {
	if parent == "" || parentExists {
		return nil
	}
	return fmt.Errorf("thread %q: parent checkpoint %q: %w", threadID, parent, saver.ErrThreadDeleted)
}

// CheckWrites refuses writes to a thread without checkpoints, and writes to an unknown
// checkpoint that is not newer than the deleted ones.
func (d Deleted) CheckWrites(threadID, checkpointID string, threadHasCheckpoints, checkpointExists bool) error {
	if threadHasCheckpoints && (checkpointExists || checkpointID > d.GreatestID) {
		return nil
	}
	return fmt.Errorf("thread %q: writes to checkpoint %q: %w", threadID, checkpointID, saver.ErrThreadDeleted)
}

// ErasedID is greater than any checkpoint id. It is the Deleted.GreatestID of an erased
// thread, whose ids are not kept.
const ErasedID = "\xff\xff\xff\xff"

// ValidateErase refuses invalid thread ids, and namespace prefixes of the long-term store
// that would match everything or nothing.
func ValidateErase(threads []string, items [][]string) error {
	if err := saver.ValidateThreadID(threads...); err != nil {
		return err
	}
	for i, prefix := range items {
		field := fmt.Sprintf("items[%d]", i)
		if len(prefix) == 0 {
			return saver.Invalidf(field, "has no labels; it would erase the items of everybody")
		}
		n := 0
		for _, label := range prefix {
			n += len(label)
		}
		if n > saver.MaxNamespace {
			return fmt.Errorf("%s has %d bytes, the limit is %d: %w", field, n, saver.MaxNamespace, saver.ErrTooLarge)
		}
	}
	return nil
}
