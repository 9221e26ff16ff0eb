package saver

import (
	"context"
	"errors"
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
	// deleted, and the store remembers to finish; see disk.Saver.FinishErasures. With any
	// other error nothing was deleted, but nobody knows with ErrOutcomeUnknown. An
	// invalid id among valid ones, an ended context and a read-only store are found
	// before anything is deleted. After a crash each thread either is as it was, or is
	// deleted and its erasure remembered as unfinished.
	Erase(ctx context.Context, threadIDs ...string) error
}

// ErrEraseUnfinished: what was to be erased is deleted for good, or part of it, but files
// may still hold bytes of it. The store remembers it. The same Erase again, or
// disk.Saver.FinishErasures, goes on.
var ErrEraseUnfinished = errors.New("deleted, but not yet erased from all files")
