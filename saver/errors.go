package saver

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base/fault"
)

// Errors that any saver may return. Match with errors.Is. Errors of files and devices are in
// package fault.
var (
	// ErrClosed: the saver was closed; nothing was written.
	ErrClosed = fault.ErrClosed
	// ErrReadOnly: the store was opened read-only; nothing was written.
	ErrReadOnly = fault.ErrReadOnly
	// ErrTooLarge: something is larger than its limit. The limits are 64 MiB for a
	// value, 1 KiB for a name, 2 KiB for a namespace, and 256 MiB for all values of one
	// call, including metadata. Or decoding a value would take too much memory
	// (serde.ErrDecodeLimit). Nothing was written.
	ErrTooLarge = fault.ErrTooLarge
	// ErrCorrupt: what is stored is damaged. A fault.CorruptionError says where.
	ErrCorrupt = fault.ErrCorrupt
	// ErrOutcomeUnknown: the caller's context ended while the call was being written.
	// The call may or may not take effect. After Saver.Sync has returned nil, a
	// read shows which. It wraps the context's error.
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown
)

// Errors of the contract. Match with errors.Is.
var (
	// ErrNotFound: the checkpoint does not exist. A thread without writes, or one that
	// was deleted, has none.
	ErrNotFound = fmt.Errorf("checkpoint %w", fault.ErrNotFound)
	// ErrInvalid matches every InvalidError: the arguments are wrong, and
	// nothing was written.
	ErrInvalid = errors.New("invalid argument")
	// ErrConflict matches every ConflictError.
	ErrConflict = errors.New("the head of the thread is not the expected one")
	// ErrThreadDeleted: the call refers to a checkpoint of a thread that was deleted.
	// Nothing was written, so the thread stays deleted. A checkpoint that is put
	// without a parent starts the thread anew.
	ErrThreadDeleted = errors.New("the thread was deleted")
	// ErrAncestorCycle: a checkpoint is its own ancestor. This happens when a
	// checkpoint is put again with one of its descendants as its parent. To repair it,
	// put it again with its true parent.
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

// ConflictError is returned by Put if Config.ExpectHead is not the head of the thread and
// namespace. It matches ErrConflict. Nothing was written; load Head and decide again.
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

// OwnedError is returned by Own while somebody else owns the thread. It matches
// ErrConflict.
type OwnedError struct{ ThreadID string }

// Error names the thread.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("thread %q: another run is under way on it", e.ThreadID)
}

// Is makes every OwnedError match ErrConflict.
func (e *OwnedError) Is(target error) bool { return target == ErrConflict }
