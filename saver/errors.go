package saver

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/fault"
)

// Errors that any saver may return. Match with errors.Is. Those that only files on a
// device cause are in package fault.
var (
	// ErrClosed: the saver was closed; nothing was written.
	ErrClosed = fault.ErrClosed
	// ErrReadOnly: the store was opened read-only; nothing was written.
	ErrReadOnly = fault.ErrReadOnly
	// ErrTooLarge: a value (64 MiB), name (1 KiB; a namespace 2 KiB), or all the
	// values of one call, metadata included (256 MiB), are over their limit; what is
	// as long as the limit is accepted. Or decoding a value would take too much
	// memory (serde.ErrDecodeLimit). Nothing was written.
	ErrTooLarge = fault.ErrTooLarge
	// ErrCorrupt: what is stored is damaged. A fault.CorruptionError says where.
	ErrCorrupt = fault.ErrCorrupt
	// ErrOutcomeUnknown: the caller's context ended while the call was being
	// written; it may or may not become visible, and survive. After Coordinator.Sync
	// has returned nil, what can be read says which. Wraps the context's error.
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown
)

// Errors of the contract. Match with errors.Is.
var (
	// ErrNotFound: there is no such checkpoint. A thread nobody wrote to, or
	// one that was deleted, has none.
	ErrNotFound = errors.New("checkpoint not found")
	// ErrInvalid matches every InvalidError: the arguments are wrong, and
	// nothing was written.
	ErrInvalid = errors.New("invalid argument")
	// ErrConflict matches every ConflictError.
	ErrConflict = errors.New("the head of the thread is not the expected one")
	// ErrThreadDeleted: the call hangs on a checkpoint of a thread that was
	// deleted. Nothing was written: deleted stays deleted. A checkpoint put
	// without a parent starts the thread anew.
	ErrThreadDeleted = errors.New("the thread was deleted")
	// ErrAncestorCycle: a walk over parents came back to where it was. Such a
	// loop arises when a checkpoint is put again upon one of its descendants;
	// put it again upon its true parent.
	ErrAncestorCycle = errors.New("checkpoint is its own ancestor")
	// ErrThreadExists: the target of a copy already has checkpoints or writes.
	ErrThreadExists = errors.New("the thread already exists")
)

// InvalidError says which argument is wrong and why. It matches ErrInvalid.
// Nothing was written.
type InvalidError struct {
	Field  string // "thread_id", "checkpoint.id", "filter[\"step\"]", …
	Reason string // what is wrong, and what to pass instead
}

// Error is "invalid <field>: <reason>".
func (e *InvalidError) Error() string { return "invalid " + e.Field + ": " + e.Reason }

// Is makes every InvalidError match ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalidf(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// ConflictError is the answer to a Put whose Config.ExpectHead does not name the
// head of the thread and namespace. It matches ErrConflict. Nothing was
// written; load Head and decide again.
type ConflictError struct {
	ThreadID  string
	Namespace string
	Expected  string // "" means that no checkpoint was expected
	Head      string // the head found; "" means that there is none
}

// Error names the expected head and the head found.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("thread %q namespace %q: head is %q, expected %q", e.ThreadID, e.Namespace, e.Head, e.Expected)
}

// Is makes every ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// OwnedError is the answer to Own while somebody else has the thread. It matches
// ErrConflict.
type OwnedError struct{ ThreadID string }

// Error names the thread.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("thread %q: another run is under way on it", e.ThreadID)
}

// Is makes every OwnedError match ErrConflict.
func (e *OwnedError) Is(target error) bool { return target == ErrConflict }
