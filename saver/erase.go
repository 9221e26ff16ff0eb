package saver

import (
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/internal/engine"
)

// Eraser erases threads so that nothing of them can be found.
type Eraser interface {
	// Erase is DeleteThread for each thread, and besides, when it returns nil, no file
	// of the store holds a byte that only these threads had: no value, no name, not
	// their ids. What stays of each is a salted hash of its id, so that late writes get
	// ErrThreadDeleted; a checkpoint without a parent starts the thread anew, and its
	// writes are taken once their checkpoint is there. What copies of a thread share
	// with it stays theirs, in files of their own making. An id that was deleted before,
	// or never was, is erased as well.
	//
	// Every file is written anew, once for all threads of a call, so it takes as long as
	// Compact; other calls go on. Erase waits for iterators that were begun before it,
	// as they keep files open. Backups and copies of the directory are not touched, nor
	// is what the device keeps of removed files.
	//
	// The threads are deleted first, each whole, then the files are written. An error
	// that matches ErrEraseUnfinished came after threads were deleted: these stay
	// deleted, and the store remembers to finish; see Disk.FinishErasures. With any
	// other error nothing was deleted, but nobody knows with ErrOutcomeUnknown. An
	// invalid id among valid ones, an ended context and a read-only store are found
	// before anything is deleted. After a crash each thread either is as it was, or is
	// deleted and its erasure remembered as unfinished.
	Erase(ctx context.Context, threadIDs ...string) error
}

// EraseRequest is an Erase with everything a Disk can do in one rewrite of its files.
type EraseRequest struct {
	// Threads are the ids of threads to erase.
	Threads []string
	// Items are namespace prefixes of the long-term store (package store): the items of
	// each namespace, and of all below it, are erased. A prefix has at least one label.
	// An item that is put while the call runs may stay.
	Items [][]string
	// Progress, unless it is nil, is told how far the work is: before each part of the
	// store is rewritten, and when old files are gone. It runs on the goroutine of the
	// call and must not block.
	Progress func(EraseProgress)
}

// EraseProgress tells how far an EraseRequest is. It first writes what stays into new
// files, and then waits until the old ones are gone.
type EraseProgress = engine.ScrubProgress

// ErrEraseUnfinished: what was to be erased is deleted for good, or part of it, but files
// may still hold bytes of it. The store remembers it. The same Erase again, or
// Disk.FinishErasures, goes on.
var ErrEraseUnfinished = errors.New("deleted, but not yet erased from all files")

// ErasedID is greater than the id of any checkpoint: the Deleted.GreatestID of an
// erased thread, whose own ids are not kept. It is for implementations of Saver.
const ErasedID = "\xff\xff\xff\xff"

// ValidateErase refuses an EraseRequest with a thread id or a prefix that cannot be one.
// It is for implementations of Saver.
func ValidateErase(req EraseRequest) error {
	for _, id := range req.Threads {
		if err := ValidateThreadID(id); err != nil {
			return err
		}
	}
	for i, prefix := range req.Items {
		field := fmt.Sprintf("items[%d]", i)
		if len(prefix) == 0 {
			return invalidf(field, "has no labels; it would erase the items of everybody")
		}
		n := 0
		for _, label := range prefix {
			n += len(label)
		}
		if n > maxNamespace {
			return fmt.Errorf("%s has %d bytes, the limit is %d: %w", field, n, maxNamespace, ErrTooLarge)
		}
	}
	return nil
}
