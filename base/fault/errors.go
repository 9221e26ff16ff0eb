package fault

import (
	"errors"
	"fmt"
	"io/fs"
)

// Errors to match with errors.Is.
var (
	// ErrClosed: the store was closed. Nothing was written.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly: the store was opened read-only. Nothing was written.
	ErrReadOnly = errors.New("store is read-only")
	// ErrFollower: the store follows the leader of its lineage, which alone writes. Nothing was written. It matches
	// ErrReadOnly.
	ErrFollower = fmt.Errorf("%w: it follows a leader; write at the leader, or close this one and open it with the replica, which takes over", ErrReadOnly)
	// ErrBucketAway: the store is only read, because its bucket does not answer, so that it cannot lead. Nothing was
	// written. It matches ErrFollower and ErrReadOnly.
	ErrBucketAway error = bucketAway{}
	// ErrStale: a follower has not heard of its leader for so long that its answer may be too old; or a leader in mode sync has not
	// reached its bucket for so long that another may lead.
	ErrStale = errors.New("the store has not heard of its lineage for too long, and its answer may be old")
	// ErrFenced: another leader of the store's lineage is taking over, or has, and does not have what this is returned for. Once
	// it has opened, nobody ever will. If it ends before, and this directory leads again, the lineage gets all that its log
	// has: who repeats a call counts with that, as after ErrOutcomeUnknown.
	ErrFenced = errors.New("another leader has taken over; follow it")
	// ErrTooLarge: a value, key or record is over a documented limit. Nothing
	// was written.
	ErrTooLarge = errors.New("over the size limit")
	// ErrLocked: another live process holds the store's lock, or this one does.
	ErrLocked = errors.New("store is locked")
	// ErrLockLost matches every *LockLostError.
	ErrLockLost = errors.New("the lock of the store is lost")
	// ErrNotFound: there is no such checkpoint, item or run. saver.ErrNotFound, store.ErrNotFound
	// and runs.ErrNotFound match it.
	ErrNotFound = errors.New("not found")
	// ErrNotRegular matches every *NotRegularError.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotStore: the directory holds files that are not a stele store.
	ErrNotStore = errors.New("not a stele store")
	// ErrNotEmpty: the directory is to become a store or a backup, and holds
	// something. Nothing was written.
	ErrNotEmpty = errors.New("the directory is not empty")
	// ErrDiskFull: the device has no room. Nothing of the refused call was
	// acknowledged; reads go on, and writes resume when space returns.
	ErrDiskFull = errors.New("disk is full")
	// ErrTooManyFiles: this process, or the system, may open no more files. Nothing of the refused call was
	// acknowledged, and calls succeed again when files can be opened.
	ErrTooManyFiles = errors.New("too many files are open: find what leaves them open, or raise the limit (ulimit -n, or LimitNOFILE of systemd)")
	// ErrPoisoned: an earlier write or sync failed in a way after which the
	// state of the file is unknown. Writes are refused until the store is
	// reopened; reads go on. The error wraps the first cause.
	ErrPoisoned = errors.New("store is poisoned by an earlier I/O error")
	// ErrCorrupt matches every *CorruptionError.
	ErrCorrupt = errors.New("stored data is damaged")
	// ErrVersion matches every *VersionError.
	ErrVersion = errors.New("format version is not supported")
	// ErrKey matches every *KeyError.
	ErrKey = errors.New("encryption key")
	// ErrReplicated: the log of the store is kept in a bucket, and without it nothing may be written here.
	ErrReplicated = errors.New("the log of the store is kept in a bucket: open the store with it, or detach it")
	// ErrOutcomeUnknown: the caller stopped waiting after the record had been
	// handed to the log. It may or may not survive.
	ErrOutcomeUnknown = errors.New("the outcome of the write is unknown")
)

// bucketAway is the type of ErrBucketAway, whose text is its own.
type bucketAway struct{}

// Error implements error.
func (bucketAway) Error() string {
	return "store is read-only while its bucket does not answer: try again later, or write at the leader if another machine leads"
}

// Is makes it match ErrFollower, and what that matches.
func (bucketAway) Is(target error) bool { return errors.Is(ErrFollower, target) }

// CorruptionError names damaged bytes. Nothing damaged is ever returned as
// data; the caller gets this error instead.
type CorruptionError struct {
	File   string // file name within the store
	Kind   string // what was being read: "log frame", "segment block", …
	Offset int64  // where in the file; -1 if unknown
	Len    int64  // length in bytes; 0 if unknown
	Detail string // what did not fit
	Err    error  // underlying cause, may be nil
}

// Error says where the damage is and what to do about it.
func (e *CorruptionError) Error() string {
	if e.Kind == "file" && errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("%s: the file is gone: it was removed, or its directory was, see \"The directory was taken\" in docs/operations.md: %v", e.File, e.Err)
	}
	s := fmt.Sprintf("%s: damaged %s", e.File, e.Kind)
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at offset %d", e.Offset)
	}
	if e.Len > 0 {
		s += fmt.Sprintf(" (%d bytes)", e.Len)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the underlying cause.
func (e *CorruptionError) Unwrap() error { return e.Err }

// Is makes every CorruptionError match ErrCorrupt.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// VersionError is returned for a file written by a newer (or unknown) format
// version. The file is intact and untouched.
type VersionError struct {
	File      string
	Have      uint32
	Supported uint32
}

// Error says that an upgrade, not a repair, is needed.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: written by a newer version of stele: format version %d, this build reads up to %d; upgrade stele",
		e.File, e.Have, e.Supported)
}

// Is makes every VersionError match ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// LockedError says who holds the lock; it matches ErrLocked.
type LockedError struct {
	Dir    string
	Holder string // what the holder wrote about itself, for people
	// Here: this process has the store open itself.
	Here bool
}

// Error names the directory and the holder.
func (e *LockedError) Error() string {
	h := e.Holder
	if h == "" {
		h = "unknown"
	}
	if e.Here {
		return fmt.Sprintf("store %s is open in this process already (%s); share that one, close it first, or open read-only", e.Dir, h)
	}
	return fmt.Sprintf("store %s is locked by another process (%s); close it there, or open read-only", e.Dir, h)
}

// Is makes every LockedError match ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// LockLostError says that the lock file a writer holds is no longer the one in its
// directory: the directory was removed or emptied, or somebody put another lock file
// there. The writer refuses every write from then on, since another may write there.
// It matches ErrLockLost.
type LockLostError struct {
	Dir    string
	Holder string // what the lock file found there says, for people; "" if there is none
	// Copied: what is there is a copy of the writer's own lock file, so that nobody
	// else need have the directory.
	Copied bool
}

// Error says what is there instead.
func (e *LockLostError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("the lock file of store %s is gone, or is no lock file of a store any more: the directory was removed, emptied or changed", e.Dir)
	}
	if e.Copied {
		return fmt.Sprintf("the lock file of store %s was replaced by a copy of itself (%s)", e.Dir, e.Holder)
	}
	return fmt.Sprintf("the lock file of store %s is another one now (%s): somebody else took the directory", e.Dir, e.Holder)
}

// Is makes every LockLostError match ErrLockLost.
func (e *LockLostError) Is(target error) bool { return target == ErrLockLost }

// NotRegularError is returned where a file of a store is to be opened and something
// else has its name. Nothing was read or written. It matches ErrNotRegular.
type NotRegularError struct {
	File string // path
	Kind string // "symbolic link", "named pipe", "directory", "file with 2 links", …
}

// Error names the file and what is there.
func (e *NotRegularError) Error() string {
	return fmt.Sprintf("%s is a %s, and no file of a store is; it was not opened", e.File, e.Kind)
}

// Is makes every NotRegularError match ErrNotRegular.
func (e *NotRegularError) Is(target error) bool { return target == ErrNotRegular }

// KeyProblem says what is wrong about the encryption of a file.
type KeyProblem int

const (
	// KeyRequired: the file is encrypted, and the store was opened without keys.
	KeyRequired KeyProblem = iota + 1
	// KeyUnavailable: the key provider does not give the key.
	KeyUnavailable
	// KeyWrong: the key that the provider gives under this id is another one.
	KeyWrong
	// NotEncrypted: the store was opened with keys, and the file is not
	// encrypted.
	NotEncrypted
)

// String describes the problem, and what to do about it.
func (p KeyProblem) String() string {
	switch p {
	case KeyRequired:
		return "the file is encrypted; open the store with its keys"
	case KeyUnavailable:
		return "the key provider does not give the key"
	case KeyWrong:
		return "the key of this id is not the one the file was encrypted with"
	case NotEncrypted:
		return "the file is not encrypted, but the store was opened with keys; open it without, or encrypt it first, by EncryptExisting or by stele export and import"
	}
	return fmt.Sprintf("KeyProblem(%d)", int(p))
}

// KeyError is returned for a file that cannot be opened or made for want of the
// right key. It matches ErrKey. The file is untouched.
type KeyError struct {
	File    string // file name within the store; "" if it is about none yet
	KeyID   string // id of the key; "" if the file names none
	Problem KeyProblem
	Err     error // of the key provider; may be nil
}

// Error names file and key, never a part of the key itself.
func (e *KeyError) Error() string {
	s := ""
	if e.File != "" {
		s = e.File + ": "
	}
	if e.KeyID != "" {
		s += fmt.Sprintf("key %q: ", e.KeyID)
	}
	s += e.Problem.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the error of the key provider.
func (e *KeyError) Unwrap() error { return e.Err }

// Is makes every KeyError match ErrKey.
func (e *KeyError) Is(target error) bool { return target == ErrKey }
