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
	// run_ids, in all threads and namespaces, with their writes. A checkpoint that
	// one of another run needs to be read stays, whole, and the Removal says which
	// and why: who deletes for privacy must look at it. See PruneMark. No ids, or
	// unknown ones, are no error. With an error nothing was removed.
	DeleteForRuns(ctx context.Context, runIDs []string) (Removal, error)
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
	// Prune applies strategy to each thread. Unknown threads are no error. The
	// Removal says what KeepLatest kept besides the newest checkpoints, and why; see
	// PruneMark. With an error nothing was removed.
	Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) (Removal, error)
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

// ThreadLister lists threads. It reads no checkpoints, unless ThreadQuery.Metadata asks
// for it.
type ThreadLister interface {
	// Threads yields the threads q selects in the order of their ids.
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error]
}

// Syncer forces everything acknowledged so far onto stable storage.
type Syncer interface {
	// Sync returns nil when every call that returned before it is settled, whatever
	// error it returned. What it stored is visible and durable. What is not visible
	// then was not stored and never will be: not later, and not after a crash. So a
	// caller who got ErrOutcomeUnknown calls Sync and looks. Calls that return while
	// Sync is under way are settled by the next one. An error, the context's
	// included, has settled nothing.
	Sync(ctx context.Context) error
}

// AtomicPutter stores a checkpoint and task writes in one step.
type AtomicPutter interface {
	// PutRequest is Put with the powers of PutRequest: values taken from another
	// checkpoint, writes that become durable with it, and a Note. The engine of
	// package pregel puts with it where it can: a saver that embeds another, to do
	// more at every put, must have a PutRequest of its own beside its Put.
	PutRequest(ctx context.Context, req PutRequest) (Config, error)
}

// AttemptCounter counts how often a thread was tried to be recovered, so that a
// node that kills its process does not do so for ever.
type AttemptCounter interface {
	// CountAttempt adds one to the number of recoveries begun from the checkpoint
	// cfg names, or the newest of the thread and namespace if it names none, and
	// returns the new number. It is durable when CountAttempt returns, whatever the
	// saver's mode. The count is in no tuple. It goes with its checkpoint, and a copy
	// of the thread has it; another Put of the checkpoint's id leaves it.
	//
	// Errors: InvalidError, ErrNotFound, or one of the engine. After ErrOutcomeUnknown
	// the attempt may have been counted.
	CountAttempt(ctx context.Context, cfg Config) (int, error)
}
