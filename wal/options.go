package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// Mode says when a committed record survives power loss. In every mode the kernel has it
// when Commit returns, so the death of the process alone loses nothing.
type Mode int

const (
	// SyncAlways makes each batch durable before Commit returns.
	SyncAlways Mode = iota
	// SyncInterval syncs in the background, at most Options.Interval after a
	// write.
	SyncInterval
	// SyncNever syncs only on rotation, Log.Sync and Log.Close.
	SyncNever
)

// String returns the name of the mode in reports.
func (m Mode) String() string {
	switch m {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	case SyncNever:
		return "never"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Limits and defaults of Options.
const (
	// MinFileSize is the smallest Options.FileSize.
	MinFileSize = 64 << 10
	// DefaultFileSize is Options.FileSize where it is zero.
	DefaultFileSize = 64 << 20
	// DefaultInterval is Options.Interval where it is zero.
	DefaultInterval = time.Second

	defaultQueueBytes   = 64 << 20
	defaultQueueRecords = 4096
	defaultIdleMark     = 10 * time.Millisecond
	defaultSlowSync     = time.Second

	// A batch ends at this many bytes or records, whichever comes first.
	maxBatchBytes   = 1 << 20
	maxBatchRecords = 1024
)

// Position is a place between two records of a log, from which a log can be continued
// or read. The zero Position is the beginning of a new log.
type Position struct {
	// NextLSN is the LSN of the first record after this place; 0 means 1.
	NextLSN base.LSN
	// File and Offset are the end of the last frame before this place. File is 0 if
	// there is none.
	File   base.FileNum
	Offset int64
	// Chain is the chain value of File at Offset.
	Chain uint64
}

// FileInfo describes a log file to the owner of the manifest.
type FileInfo struct {
	Num     base.FileNum
	BaseLSN base.LSN // LSN of its first record
	Salt    uint64   // of its frames; random
	Prev    Position // where the file before it ends
	KeyID   string   // of the key it is encrypted with; "" if it is not
}

// Record is one record to commit. The caller owns it until Commit is called and
// again after Commit returns, unless the error is ErrOutcomeUnknown.
type Record struct {
	// Prepare returns the bytes of the record, in parts that are to be joined. It is
	// called at most once, by the committer, in commit order; lsn is the LSN that the
	// record will have. An error refuses this record alone: Commit returns it, and the
	// LSN goes to the next record. The log reads the parts until Apply or Abort, and
	// does not change them.
	Prepare func(lsn base.LSN) (parts [][]byte, err error)
	// Size is about how many bytes Prepare will return, 0 if unknown. The bounds of
	// queue and batches go by it.
	Size int64
	// Urgent records are accepted where Options.Reserve refuses others. It is for
	// deletions, and whatever else frees space.
	Urgent bool
	// Deferred records do not wait for a sync in SyncAlways: Commit returns when they
	// are written. The next sync makes them durable: that of a later record, of
	// Log.Sync, or of the log itself after it was idle for Options.IdleMark. If the first of
	// them has waited for that long without a sync, the next record is synced all the same.
	Deferred bool
	// User belongs to the caller.
	User any

	// The log sets these before Apply: the LSN, the place of the payload, and its
	// length in bytes. Sealed says that the file is encrypted, so that the payload
	// has to be read with a PayloadReader.
	LSN    base.LSN
	File   base.FileNum
	Offset int64
	Len    int64
	Sealed bool
}

// Events are optional callbacks. They are called without locks, on the
// goroutine that met the event, and must not call the log.
type Events struct {
	// SlowSync: a sync took longer than Options.SlowSync.
	SlowSync func(took time.Duration)
	// Poisoned: the log refuses all writes from now on. Called once.
	Poisoned func(err error)
	// DiskFull: a batch was refused for want of space. Called on the first
	// refusal after a successful write.
	DiskFull func(err error)
	// MarkFailed: the durable mark could not be written, and will not be until the log
	// is opened again. Nothing is lost by that. Called once.
	MarkFailed func(err error)
	// LowSpace: the device had less than Options.LowSpace bytes left when the log last
	// asked, which it does every 256 KiB or so. Called once, and again only after
	// there was more.
	LowSpace func(free int64)
}

// Options configure a Log. FS, Dir and NewFileNum are required.
type Options struct {
	FS  vfs.FS
	Dir string

	Mode     Mode
	Interval time.Duration // SyncInterval: how long after a write it is synced at the latest

	// FileSize is the size in bytes beyond which a file is rotated, at least
	// MinFileSize; 0 means DefaultFileSize. Only a record that is larger by itself
	// makes a larger file.
	FileSize int64
	// MaxQueueBytes (counted by Record.Size) and MaxQueueRecords bound the queue.
	// Commit waits for room when it is full. 0 means 64 MiB and 4,096.
	MaxQueueBytes   int64
	MaxQueueRecords int
	// Reserve: while the device has fewer free bytes than this, records that
	// are not Urgent are refused with ErrDiskFull before they are prepared.
	// 0 means no reserve.
	Reserve int64
	// LowSpace is the free space, in bytes, below which Events.LowSpace is called;
	// 0 means never.
	LowSpace int64

	// NewFileNum returns a number larger than all it returned before. It is called
	// from more than one goroutine. If it fails, no file is made and the batch is
	// refused with that error, which also matches ErrDiskFull if it is ENOSPC.
	NewFileNum func() (base.FileNum, error)
	// Rand returns salts; nil means math/rand/v2. It is called from more than
	// one goroutine.
	Rand func() uint64

	// Guard is called before records are acknowledged as written or durable: after each sync of
	// records, after the write of a batch that is not synced (in the other modes than SyncAlways, and
	// where all of its records are Deferred), and by a Sync that finds nothing to sync. If it fails,
	// the log is poisoned and they are not acknowledged. It is for the owner of a lock to check that it
	// still has it. It is called from more than one goroutine, after a sync with a lock of the log held
	// and else without, and must not call the log. May be nil.
	Guard func() error

	// Keys is the keyring of the store; nil for a log without encryption. If there is
	// no key for a new file, the batch is refused with a *fault.KeyError.
	Keys *seal.Keyring

	// OnCreate is called by the committer for each new file, when the file, its header
	// and its name are durable, and before its first frame is written. So a file that
	// the manifest does not name holds no record.
	//
	// Apply has returned for every record of earlier files by then. The batch that the
	// new file is for is prepared, and neither written nor applied. The next record is
	// prepared after OnCreate has returned. So what the owner has applied is what the
	// earlier files hold, no more and no less. A flush relies on this.
	//
	// An error that matches ErrDiskFull or ENOSPC, or one that the system gave instead of a file of
	// the manifest (vfs.Refused, or vfs.Unreadable), and not ErrPoisoned, refuses the batch, and OnCreate is
	// called again for the same file at the next commit; all of the above holds then
	// too. Any other error poisons the log, which then leaves the file alone: the
	// manifest may name it.
	OnCreate func(FileInfo) error
	// Apply is called by the committer for each batch, in LSN order, before any of its
	// callers wakes. In SyncAlways the batch is durable by then, unless all of its
	// records are Deferred; in the other modes it is written. The slice is valid
	// during the call.
	Apply func(batch []*Record)
	// Replicate, unless nil, gets the bytes of all records, in LSN order and without gaps, when
	// they are durable: in SyncAlways those of a batch before Apply, except that Deferred
	// records are applied first and come with the next that are synced; in the other modes
	// after Apply. Close gives what is left. It is called by one goroutine at a time, and may
	// keep the slices. It may block: to the log it is a part of the sync. An error poisons the
	// log; records that were not applied may be found at the next open then, as after a failed
	// sync. It must not call the log.
	Replicate func(first base.LSN, records [][]byte) error
	// Abort is called by the committer for records that were prepared and then refused,
	// in the order of their preparation and before any later record is prepared. After
	// a failed sync they may yet be found at the next open. The slice is valid during
	// the call.
	Abort func(batch []*Record)

	Events   Events
	SlowSync time.Duration // threshold of Events.SlowSync; 0 means 1 s

	// IdleMark is how long an idle log waits after the last sync until it writes a sync
	// mark; 0 means 10 ms, negative means never. Not used in SyncNever.
	IdleMark time.Duration
	// Inline is for simulations. The committer does preallocation and Sync itself, and
	// there are no interval syncs and no idle marks, so that the order of file
	// operations depends on the calls alone.
	Inline bool

	// Start is where the log continues, as EndCopy.Publish returned it.
	Start Position
	// Origin is the id of the store, noted in the durable mark; 0 if there is none.
	Origin uint64
}

// withDefaults returns o with zero values replaced, or an error for invalid options.
func (o Options) withDefaults() (Options, error) {
	if o.FS == nil || o.Dir == "" || o.NewFileNum == nil {
		return o, errors.New("wal options: FS, Dir and NewFileNum are required")
	}
	if o.Mode < SyncAlways || o.Mode > SyncNever {
		return o, fmt.Errorf("wal options: unknown mode %d", int(o.Mode))
	}
	if o.FileSize == 0 {
		o.FileSize = DefaultFileSize
	}
	if o.FileSize < MinFileSize {
		return o, fmt.Errorf("wal options: FileSize %d is below the minimum of %d", o.FileSize, MinFileSize)
	}
	if o.Interval < 0 || o.MaxQueueBytes < 0 || o.MaxQueueRecords < 0 || o.Reserve < 0 || o.LowSpace < 0 {
		return o, errors.New("wal options: a negative limit")
	}
	if o.Start.File == 0 && o.Start.Offset != 0 || o.Start.File != 0 && o.Start.Offset < fileHeaderSize {
		return o, fmt.Errorf("wal options: impossible start: file %s, offset %d", o.Start.File, o.Start.Offset)
	}
	orDefault(&o.Interval, DefaultInterval)
	orDefault(&o.MaxQueueBytes, defaultQueueBytes)
	orDefault(&o.MaxQueueRecords, defaultQueueRecords)
	orDefault(&o.SlowSync, defaultSlowSync)
	orDefault(&o.IdleMark, defaultIdleMark)
	orDefault(&o.Start.NextLSN, 1)
	if o.Rand == nil {
		o.Rand = randomSalt
	}
	if o.Guard == nil {
		o.Guard = func() error { return nil }
	}
	if o.OnCreate == nil {
		o.OnCreate = func(FileInfo) error { return nil }
	}
	if o.Apply == nil {
		o.Apply = func([]*Record) {}
	}
	if o.Abort == nil {
		o.Abort = func([]*Record) {}
	}
	return o, nil
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
