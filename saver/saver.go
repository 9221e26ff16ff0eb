package saver

import (
	"context"
	"iter"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// Saver stores checkpoints and pending writes of threads.
//
// All methods are safe for concurrent use. A context cancels waiting, not I/O:
// after a cancelled Put, PutWrites or DeleteThread the error says whether
// nothing was written (the context's error alone) or nobody knows
// (ErrOutcomeUnknown).
//
// A thread expires when its TTL has passed since its last write of a checkpoint or of
// pending writes. Reading it and removing history are not writes. An expired thread stays
// until a sweep deletes it, as DeleteThread does, and remembers the deletion. The saver's
// clock stamps the writes and decides what has expired. If it is set back, threads live
// longer by that time; if it is set forward, they expire earlier.
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

	// PutRequest is Put with the additional fields of PutRequest: values taken from another checkpoint,
	// writes in the same transaction, and a Note. Package pregel uses it instead of Put.
	//
	// So a saver that embeds another to change what Put does must change PutRequest too. The same holds
	// for every other method that reaches the same data: a saver that shows each tenant its own threads
	// also has to change Threads, List, Own, CopyThread, DeltaChannelHistory and the methods that
	// remove; one that encrypts also has to change CopyThread and DeltaChannelHistory. Intercept passes
	// every call through one function. One that embeds a saver with a replica needs EffectSyncer, too.
	PutRequest(ctx context.Context, req PutRequest) (Config, error)

	// Sync settles every call that returned before Sync was called, whatever error that
	// call returned. When Sync returns nil, everything that those calls stored is visible
	// and durable. What is not visible then was not stored and never will be, not even
	// after a crash. So a caller who got ErrOutcomeUnknown calls Sync and then reads.
	// Calls that return while Sync is under way are settled by the next Sync. If Sync
	// returns an error, including the context's, nothing is settled.
	Sync(ctx context.Context) error

	// Own makes the caller the owner of the thread until it releases the Lease. While somebody else
	// owns the thread, Own fails immediately with an OwnedError. With wait it waits until the thread is
	// free, or fails with the error of ctx when ctx ends. Waiters are served in no particular order.
	//
	// An engine calls Own before it loads a thread. So if several runs start on a thread, all but one
	// fail before they do anything. Ownership holds across all processes that can write to the store,
	// and ends some time after a process died. It is advisory for calls without an epoch: they work
	// whoever owns the thread. Calls with Config.Epoch are fenced; see Lease. An epoch is never used
	// again, also after a restart or when the thread was deleted.
	Own(ctx context.Context, threadID string, wait bool) (*Lease, error)

	// CountAttempt counts a recovery that begins from the checkpoint that cfg names, or
	// from the newest of the thread and namespace if it names none. It returns the number
	// of recoveries so far, so that a limit can stop a node that always kills its
	// process. The count is durable when CountAttempt returns, whatever the saver's mode.
	// It is in no tuple. It is removed with its checkpoint, a copy of the thread has it,
	// and another Put of the checkpoint's id does not change it.
	//
	// Errors: InvalidError, ErrNotFound, FencedError, or one of the engine. After
	// ErrOutcomeUnknown the attempt may have been counted.
	CountAttempt(ctx context.Context, cfg Config) (int, error)

	// DeltaChannelHistory reads what is needed to rebuild delta channels: LangGraph's
	// get_delta_channel_history. For each channel it walks from the parent of the
	// checkpoint that cfg names (the newest if none) to the nearest ancestor with a
	// value. The writes of the checkpoint itself are not included.
	DeltaChannelHistory(ctx context.Context, cfg Config, channels []string) (map[string]DeltaHistory, error)

	// Serializer encodes the saver's Go values. It is safe for concurrent use; nil if the
	// saver does not tell. With it an engine serializes the values of a superstep when
	// the superstep ends, and stores them while the next one runs. Without it the engine
	// must wait for every save.
	Serializer() serde.Serializer

	// Threads yields the threads q selects in the order of their ids. It reads no
	// checkpoints, unless ThreadQuery.Metadata asks for it.
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error]

	// CopyThread copies all checkpoints, writes and namespaces of src to dst:
	// LangGraph's copy_thread. The copies share stored bytes. If src does not exist, dst
	// stays empty. If dst has checkpoints or writes, the error is ErrThreadExists. dst
	// may be a deleted thread; its deletion is then forgotten.
	CopyThread(ctx context.Context, src, dst string) error

	// DeleteForRuns removes the checkpoints whose metadata has one of these run_ids, and
	// their writes, in all threads and namespaces: LangGraph's delete_for_runs. If a
	// checkpoint of another run cannot be read without one of them, that one stays as it
	// is. The Removal says which and why; check it if you delete for privacy. No ids, or
	// unknown ids, are no error. After an error nothing was removed.
	//
	// owned, if not nil, is the lease of a thread. The call then removes from that thread
	// only, and fails with a FencedError if the lease no longer holds the thread. The saver
	// looks in the transaction that removes, as for Config.Epoch. On a large database it is
	// also much quicker: no other thread is looked at.
	DeleteForRuns(ctx context.Context, runIDs []string, owned *Lease) (Removal, error)

	// Prune applies strategy to each thread: LangGraph's prune. Unknown threads are no
	// error. The Removal says which checkpoints KeepLatest kept in addition to the newest
	// ones, and why. After an error nothing was removed.
	Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) (Removal, error)

	// Retain removes what policy does not keep. With dryRun it only reports what it would
	// remove. With an error the report says what was removed before it.
	//
	// Retain takes one thread after another, each in its current state. A commit removes a
	// bounded number of checkpoints, newest first, so that the remaining ones can be read
	// at any time. After a crash, or when ctx ends, some of these commits are missing;
	// call Retain again to continue.
	//
	// Errors: InvalidError, BudgetError, or one of the engine. After the first two nothing
	// was removed.
	Retain(ctx context.Context, policy RetentionPolicy, dryRun bool) (RetentionReport, error)

	// SetTTL sets the TTL of a thread; 0 restores the default, and NoTTL means that the
	// thread never expires. The TTL is removed with the thread, and a copy begins with the
	// default. Another negative TTL is an InvalidError. A thread that does not exist is
	// ErrNotFound.
	SetTTL(ctx context.Context, threadID string, ttl time.Duration) error

	// Sweep deletes the threads that have expired. After a crash, or when ctx ends, some
	// of them are left for the next sweep.
	Sweep(ctx context.Context) (SweepReport, error)
}
