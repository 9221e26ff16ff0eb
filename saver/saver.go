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

// RunDeleter deletes what given runs stored: LangGraph's delete_for_runs.
type RunDeleter interface {
	// DeleteForRuns removes the checkpoints whose metadata has one of these
	// run_ids, in all threads and namespaces, with their writes. A checkpoint
	// that a kept one needs to read a delta channel stays. No ids, or unknown
	// ones, are no error.
	DeleteForRuns(ctx context.Context, runIDs []string) error
}

// ThreadCopier copies threads: LangGraph's copy_thread.
type ThreadCopier interface {
	// CopyThread makes dst a thread of its own with all of src's checkpoints,
	// writes and namespaces. The copies share stored bytes. An unknown src
	// leaves dst empty; a dst that has checkpoints or writes is ErrThreadExists.
	// That dst was deleted once is no obstacle, and forgotten.
	CopyThread(ctx context.Context, src, dst string) error
}

// Pruner forgets history: LangGraph's prune.
type Pruner interface {
	// Prune applies strategy to each thread. Unknown threads are no error. See
	// PruneMark for what KeepLatest keeps besides the newest checkpoint.
	Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) error
}

// DeltaReader reads what rebuilds delta channels: LangGraph's
// get_delta_channel_history. DeltaChannelHistory (the function) does the same
// for any Saver, slower.
type DeltaReader interface {
	// DeltaChannelHistory walks from the parent of the checkpoint cfg names (the
	// newest if none) to the nearest ancestor that stores a value, for each
	// channel. The target's own writes are not part of it.
	DeltaChannelHistory(ctx context.Context, cfg Config, channels []string) (map[string]DeltaHistory, error)
}

// ThreadLister lists threads without reading their checkpoints.
type ThreadLister interface {
	// Threads yields the threads q selects in the order of their ids.
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error]
}

// Syncer forces everything acknowledged so far onto stable storage.
type Syncer interface {
	// Sync returns when all calls that returned before it are durable.
	Sync(ctx context.Context) error
}

// AtomicPutter stores a checkpoint and task writes in one step.
type AtomicPutter interface {
	// PutRequest is Put with the powers of PutRequest: values taken from another
	// checkpoint, and writes that become durable with it.
	PutRequest(ctx context.Context, req PutRequest) (Config, error)
}
