package saver

import "fmt"

// OwnedError is the answer to Own while somebody else has the thread. It matches
// ErrConflict.
type OwnedError struct{ ThreadID string }

// Error names the thread.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("thread %q: another run is under way on it", e.ThreadID)
}

// Is makes every OwnedError match ErrConflict.
func (e *OwnedError) Is(target error) bool { return target == ErrConflict }
