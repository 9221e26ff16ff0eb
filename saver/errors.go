package saver

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/internal/base"
)

// Errors of the engine that callers of a saver meet. Match with errors.Is.
var (
	// ErrClosed: the saver was closed; nothing was written.
	ErrClosed = base.ErrClosed
	// ErrReadOnly: the store was opened read-only; nothing was written.
	ErrReadOnly = base.ErrReadOnly
	// ErrTooLarge: a value (64 MiB), name (1 KiB; a namespace 2 KiB), or all the
	// values of one call, metadata included (256 MiB), are over their limit; what is
	// as long as the limit is accepted. Or decoding a value would take too much
	// memory (serde.ErrDecodeLimit). Nothing was written.
	ErrTooLarge = base.ErrTooLarge
	// ErrLocked: another process has the store open; see LockedError.
	ErrLocked = base.ErrLocked
	// ErrLockLost: the store's directory was removed, or somebody else took it; see
	// LockLostError. It comes with ErrPoisoned.
	ErrLockLost = base.ErrLockLost
	// ErrNotRegular: something that is no regular file has the name of one of the
	// store's files; see NotRegularError.
	ErrNotRegular = base.ErrNotRegular
	// ErrNotStore: the directory is not a stele store, and is not empty.
	ErrNotStore = base.ErrNotStore
	// ErrNotEmpty: a directory that is to become a store or a backup holds something
	// else; nothing was written.
	ErrNotEmpty = base.ErrNotEmpty
	// ErrDiskFull: no room; nothing of the refused call was acknowledged, reads
	// go on, and writes resume when space returns.
	ErrDiskFull = base.ErrDiskFull
	// ErrPoisoned: an earlier write or sync failed, so that the state of the
	// log is unknown; writes are refused until the store is opened again.
	ErrPoisoned = base.ErrPoisoned
	// ErrCorrupt matches every CorruptionError.
	ErrCorrupt = base.ErrCorrupt
	// ErrVersion matches every VersionError.
	ErrVersion = base.ErrVersion
	// ErrKey matches every KeyError.
	ErrKey = base.ErrKey
	// ErrOutcomeUnknown: the caller's context ended while the call was being
	// written; it may or may not become visible, and survive. After Syncer.Sync
	// has returned nil, what can be read says which. Wraps the context's error.
	ErrOutcomeUnknown = base.ErrOutcomeUnknown
)

// CorruptionError names damaged bytes: file, offset and what was being read.
type CorruptionError = base.CorruptionError

// VersionError is a file of a newer format version; the file is untouched.
type VersionError = base.VersionError

// LockedError says which directory is locked, and by whom.
type LockedError = base.LockedError

// LockLostError says that the LOCK which this store holds is no longer the one in its
// directory, and whose is there. The call that met it was not acknowledged, and none is
// until the store is closed and opened again.
type LockLostError = base.LockLostError

// NotRegularError names a file that is a link, a FIFO, a device or a directory, or that a
// second link leads to where it would be written. Nothing was read or written.
type NotRegularError = base.NotRegularError

// KeyError names a file and what is wrong about its encryption. The file is
// untouched.
type KeyError = base.KeyError

// KeyProblem says what is wrong about the encryption of a file.
type KeyProblem = base.KeyProblem

// What KeyError.Problem may be.
const (
	// KeyRequired: the file is encrypted, and the store was opened without keys.
	KeyRequired = base.KeyRequired
	// KeyUnavailable: the key provider does not give the key.
	KeyUnavailable = base.KeyUnavailable
	// KeyWrong: the key that the provider gives under this id is another one.
	KeyWrong = base.KeyWrong
	// NotEncrypted: the store was opened with keys, and the file is not encrypted.
	NotEncrypted = base.NotEncrypted
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
