package saver

import (
	"context"
	"iter"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// A saver may implement four optional interfaces: Coordinator, ThreadManager, Retainer and
// Eraser. A caller finds out with a type assertion:
//
//	if c, ok := s.(saver.Coordinator); ok {
//
// A struct that embeds the interface Saver does not implement the optional interfaces of
// the saver in it. A saver made by Intercept does.

// Coordinator is what an engine needs from a saver to run threads safely: to store a
// checkpoint and what belongs to it in one transaction, to allow one run on a thread at a
// time, and to know what is durable. Package pregel can do without it; its documentation
// says what is then lost.
type Coordinator interface {
	// PutRequest is Put with the additional fields of PutRequest: values taken from
	// another checkpoint, writes in the same transaction, and a Note. Package pregel uses
	// it instead of Put. So a saver that wraps another to change Put must wrap PutRequest
	// too.
	PutRequest(ctx context.Context, req PutRequest) (Config, error)

	// Sync settles every call that returned before Sync was called, whatever error that
	// call returned. When Sync returns nil, everything that those calls stored is visible
	// and durable. What is not visible then was not stored and never will be, not even
	// after a crash. So a caller who got ErrOutcomeUnknown calls Sync and then reads.
	// Calls that return while Sync is under way are settled by the next Sync. If Sync
	// returns an error, including the context's, nothing is settled.
	Sync(ctx context.Context) error

	// Own makes the caller the owner of the thread until it releases the Lease. While
	// somebody else owns the thread, Own fails at once with an OwnedError. With wait it
	// waits until the thread is free, or fails with the error of ctx when ctx ends. Waiters
	// are served in no particular order.
	//
	// An engine calls Own before it loads a thread. So if several runs start on a thread,
	// all but one fail before they do anything. Ownership holds across all processes that
	// can write to the store, and ends some time after a process died. It is advisory for
	// calls without an epoch: they work whoever owns the thread. Calls with Config.Epoch
	// are fenced; see Lease. An epoch is never used again, also after a restart or when the
	// thread was deleted.
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
}

// ThreadManager lists, copies and prunes threads. All methods but Threads are optional
// methods of LangGraph.
type ThreadManager interface {
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
}

// Retainer removes what is old: history, by a RetentionPolicy, and threads that were not
// written to for long.
//
// A thread expires when its TTL has passed since its last write of a checkpoint or of
// pending writes. Reading it and removing history are not writes. An expired thread stays
// until a sweep deletes it, as DeleteThread does, and remembers the deletion. The saver's
// clock stamps the writes and decides what has expired. If it is set back, threads live
// longer by that time; if it is set forward, they expire earlier.
type Retainer interface {
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

// Eraser erases threads from all files of the store.
type Eraser interface {
	// Erase deletes each thread, as DeleteThread does. When it returns nil, no file of the
	// store holds a byte that only these threads had: no value, no name, and not their
	// ids. Only a salted hash of each id is kept, so that late writes get
	// ErrThreadDeleted. A checkpoint without a parent starts the thread anew, and writes
	// are accepted once their checkpoint exists. Copies of a thread keep what they share
	// with it, in new files. Ids that were deleted before, or that never existed, are
	// erased too.
	//
	// Erase rewrites every file, once for all threads of the call, so it takes as long as
	// Compact. Other calls go on meanwhile. It waits for iterators that were begun before
	// it, because they keep files open. It does not change backups or copies of the
	// directory, nor what the device keeps of removed files.
	//
	// Erase first deletes the threads, each as a whole, and then rewrites the files. An
	// error that matches ErrEraseUnfinished means that threads were deleted. They stay
	// deleted, and the store remembers to finish the erasure; see
	// disk.Saver.FinishErasures. With ErrOutcomeUnknown nobody knows whether threads were
	// deleted. With any other error nothing was. An invalid id, an ended context and a
	// read-only store are found before anything is deleted. After a crash each thread
	// either is unchanged, or is deleted with its erasure remembered as unfinished.
	Erase(ctx context.Context, threadIDs ...string) error
}

// ThreadOf describes one thread; found is false if there is none, or if s is no ThreadManager.
func ThreadOf(ctx context.Context, s Saver, threadID string) (info ThreadInfo, found bool, err error) {
	m, ok := s.(ThreadManager)
	if !ok || threadID == "" {
		return ThreadInfo{}, false, nil
	}
	for info, err := range m.Threads(ctx, ThreadQuery{ThreadID: threadID}) {
		return info, err == nil, err
	}
	return ThreadInfo{}, false, nil
}
