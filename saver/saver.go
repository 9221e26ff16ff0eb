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
	// Put stores a checkpoint under cfg's thread and namespace, with
	// cfg.CheckpointID as its parent, and returns the Config that names it.
	// Values are stored for the channels in newVersions; a channel in it without
	// a value is remembered as empty. An unchanged channel keeps the value its
	// parent read at the same version. Putting an id again replaces it.
	//
	// Errors: InvalidError, ErrTooLarge, ConflictError, ErrThreadDeleted, an
	// *serde.EncodeError, or one of the engine; in all of them nothing is stored.
	Put(ctx context.Context, cfg Config, cp Checkpoint, md Metadata, newVersions map[string]Version) (Config, error)

	// PutWrites stores what a task wrote against the checkpoint cfg names, all
	// or nothing. The checkpoint need not be there yet. Writing an index again
	// keeps the first value; on a special channel the last.
	PutWrites(ctx context.Context, cfg Config, writes []Write, taskID, taskPath string) error

	// GetTuple returns the checkpoint cfg names, or the newest of the thread and
	// namespace if it names none. A missing one is ErrNotFound; any other error
	// means that the answer is not known.
	GetTuple(ctx context.Context, cfg Config) (*Tuple, error)

	// List yields the checkpoints q selects, newest first, as they were at one
	// moment. An error is yielded once and last. Stopping early releases
	// everything.
	List(ctx context.Context, q Query) iter.Seq2[*Tuple, error]

	// DeleteThread removes all checkpoints and writes of a thread in all
	// namespaces. An unknown thread is no error.
	DeleteThread(ctx context.Context, threadID string) error

	// NextVersion mints the version of a channel that follows current.
	NextVersion(current Version, channel string) (Version, error)
}
