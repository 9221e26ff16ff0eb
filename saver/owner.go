package saver

import (
	"context"
	"fmt"
)

// Owner is a saver that gives a thread to one run at a time, so that of several
// runs on a thread all but one learn that they lost before they do anything. An
// engine asks it before it loads the thread. A saver without this power is left
// with Config.ExpectHead, which tells a run so when it stores a checkpoint.
type Owner interface {
	// Own gives the thread to the caller until release is called; calling it again
	// does nothing. While somebody else has the thread, Own fails at once with an
	// OwnedError, or, if wait is set, waits until the thread is free or ctx ends, and
	// then fails with the error of ctx. Nobody is promised an order.
	//
	// It counts between all processes that can write to the store, and a process
	// that dies has nothing any more. It binds those who ask: calls that read or
	// write work as ever, whoever owns the thread. Nothing is stored.
	Own(ctx context.Context, threadID string, wait bool) (release func(), err error)
}

// OwnedError is the answer to Own while somebody else has the thread. It matches
// ErrConflict.
type OwnedError struct{ ThreadID string }

// Error names the thread.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("thread %q: another run is under way on it", e.ThreadID)
}

// Is makes every OwnedError match ErrConflict.
func (e *OwnedError) Is(target error) bool { return target == ErrConflict }
