package rules

import (
	"fmt"
	"time"

	"github.com/stele-go/stele/saver"
)

// DefaultDeletedMemory is how long a saver remembers that a thread was deleted
// if its options do not say: 30 days.
const DefaultDeletedMemory = 30 * 24 * time.Hour

// Deleted is what a saver remembers of a deleted thread, so that a run that was
// under way does not bring it back in pieces. It outlives a new life of the
// thread, because the old run may outlive that too; it ends when it is older
// than the saver's DeletedMemory, and when a thread is copied to the id.
// Forgetting never brings back data.
type Deleted struct {
	// GreatestID is the greatest checkpoint id the thread held, over all
	// namespaces, ids that only writes hung on included.
	GreatestID string
	// At is when the thread was deleted, by the saver's clock.
	At time.Time
}

// Expired reports whether the memory has ended.
func (d Deleted) Expired(now time.Time, keep time.Duration) bool { return now.Sub(d.At) > keep }

// Merge is the memory after a thread that is remembered as d is deleted again.
func (d Deleted) Merge(again Deleted) Deleted {
	again.GreatestID = max(d.GreatestID, again.GreatestID)
	return again
}

// CheckPut refuses a checkpoint put upon a parent that is not there. One without
// a parent starts the thread anew.
func (d Deleted) CheckPut(threadID, parent string, parentExists bool) error {
	if parent == "" || parentExists {
		return nil
	}
	return fmt.Errorf("thread %q: parent checkpoint %q: %w", threadID, parent, saver.ErrThreadDeleted)
}

// CheckWrites refuses writes to a thread that has no checkpoints, and writes to
// an unknown checkpoint that is not newer than what was deleted.
func (d Deleted) CheckWrites(threadID, checkpointID string, threadHasCheckpoints, checkpointExists bool) error {
	if threadHasCheckpoints && (checkpointExists || checkpointID > d.GreatestID) {
		return nil
	}
	return fmt.Errorf("thread %q: writes to checkpoint %q: %w", threadID, checkpointID, saver.ErrThreadDeleted)
}

// ErasedID is greater than the id of any checkpoint: the Deleted.GreatestID of an
// erased thread, whose own ids are not kept. It is for implementations of Saver.
const ErasedID = "\xff\xff\xff\xff"
