package saver

import (
	"context"
	"iter"
)

// Saver stores checkpoints and pending writes of threads.
//
// All methods are safe for concurrent use. A context cancels waiting, not I/O:
// after a cancelled Put, PutWrites or DeleteThread the error says whether
// nothing was written (the context's error alone) or nobody knows
// (ErrOutcomeUnknown).
type Saver interface {
	// Put stores a checkpoint in cfg's thread and namespace, with cfg.CheckpointID as
	// its parent, and returns the Config that names it. It stores values for the
	// channels in newVersions; a channel in it without a value becomes empty. Any other
	// channel has the value that the parent has at the same version. Putting an id again
	// replaces the checkpoint.
	//
	// Errors: InvalidError, ErrTooLarge, ConflictError, ErrThreadDeleted, an
	// *serde.EncodeError, or one of the engine. Nothing is stored then.
	Put(ctx context.Context, cfg Config, cp Checkpoint, md Metadata, newVersions map[string]Version) (Config, error)

	// PutWrites stores the writes of a task on the checkpoint that cfg names, all or
	// nothing. The checkpoint need not exist yet. If an index is written again, the first
	// value is kept, on a special channel the last.
	PutWrites(ctx context.Context, cfg Config, writes []Write, taskID, taskPath string) error

	// GetTuple returns the checkpoint that cfg names, or the newest of the thread and
	// namespace if it names none. If it does not exist, the error is ErrNotFound. With
	// any other error it may or may not exist.
	GetTuple(ctx context.Context, cfg Config) (*Tuple, error)

	// List yields the checkpoints that q selects, newest first, from one consistent
	// state of the store. An error is yielded once and last. The iteration may be stopped
	// early.
	List(ctx context.Context, q Query) iter.Seq2[*Tuple, error]

	// DeleteThread removes all checkpoints and writes of a thread in all
	// namespaces. An unknown thread is no error.
	DeleteThread(ctx context.Context, threadID string) error

	// NextVersion mints the version of a channel that follows current.
	NextVersion(current Version, channel string) (Version, error)
}
