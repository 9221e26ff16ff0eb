package saver

import (
	"context"
	"errors"
	"fmt"
)

// Eraser erases threads so that nothing of them can be found.
type Eraser interface {
	// Erase is DeleteThread, and besides, when it returns nil, no file of the store
	// holds a byte that only this thread had: no value, no name, not its id. What
	// stays is a salted hash of the id, so that late writes get ErrThreadDeleted; a
	// checkpoint without a parent starts the thread anew, and its writes are taken
	// once their checkpoint is there. What copies of the thread share with it stays
	// theirs, in files of their own making. An id that was deleted before, or never
	// was, is erased as well.
	//
	// Every file is written anew, so it takes as long as Compact; other calls go on.
	// Erase waits for iterators that were begun before it, as they keep files open.
	// Backups and copies of the directory are not touched, nor is what the device
	// keeps of removed files.
	//
	// If ctx ends, or a crash comes, the thread either is as it was, or is deleted
	// and its erasure is remembered as unfinished: the error then matches
	// ErrEraseUnfinished. See Disk.FinishErasures.
	Erase(ctx context.Context, threadID string) error
}

// ErrEraseUnfinished: the thread is deleted for good, but files may still hold bytes
// of it. The store remembers it; Erase again, or Disk.FinishErasures, goes on.
var ErrEraseUnfinished = errors.New("the thread is deleted, but not yet erased from all files")

// ErasedID is greater than the id of any checkpoint: the Deleted.GreatestID of an
// erased thread, whose own ids are not kept. It is for implementations of Saver.
const ErasedID = "\xff\xff\xff\xff"

func unfinished(threadID string, err error) error {
	return fmt.Errorf("erase thread %q: %w: %w", threadID, ErrEraseUnfinished, err)
}
