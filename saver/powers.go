package saver

import (
	"context"
	"iter"
	"time"

	"github.com/stele-go/stele/serde"
)

// A saver may have powers beyond Saver. There are four interfaces of them: Coordinator,
// ThreadManager, Retainer and Eraser. A saver has all the methods of one or none, and a
// caller asks with a type assertion:
//
//	if c, ok := s.(saver.Coordinator); ok {
//
// A saver that embeds Saver, the interface, in a struct of its own has lost the powers
// of what is inside; one made by Intercept has exactly those, and none of their calls
// gets past it.

// Coordinator is what an engine needs of a saver to run threads safely: a checkpoint and
// what belongs to it in one transaction, one run on a thread at a time, and to know what
// is durable. Package pregel does without where it must, at the prices it names.
type Coordinator interface {
	// PutRequest is Put with the powers of PutRequest: values taken from another
	// checkpoint, writes that become durable with it, and a Note. The engine of
	// package pregel puts with it where it can: a saver that embeds another, to do
	// more at every put, must have a PutRequest of its own beside its Put.
	PutRequest(ctx context.Context, req PutRequest) (Config, error)

	// Sync returns nil when every call that returned before it is settled, whatever
	// error it returned. What it stored is visible and durable. What is not visible
	// then was not stored and never will be: not later, and not after a crash. So a
	// caller who got ErrOutcomeUnknown calls Sync and looks. Calls that return while
	// Sync is under way are settled by the next one. An error, the context's
	// included, has settled nothing.
	Sync(ctx context.Context) error

	// Own gives the thread to the caller until release is called; calling it again
	// does nothing. While somebody else has the thread, Own fails at once with an
	// OwnedError, or, if wait is set, waits until the thread is free or ctx ends, and
	// then fails with the error of ctx. Nobody is promised an order.
	//
	// So of several runs on a thread all but one learn that they lost before they do
	// anything: an engine asks before it loads the thread. It counts between all
	// processes that can write to the store, and a process that dies has nothing any
	// more. It binds those who ask: calls that read or write work as ever, whoever owns
	// the thread. Nothing is stored.
	Own(ctx context.Context, threadID string, wait bool) (release func(), err error)

	// CountAttempt adds one to the number of recoveries begun from the checkpoint
	// cfg names, or the newest of the thread and namespace if it names none, and
	// returns the new number, so that a node that kills its process does not do so for
	// ever. It is durable when CountAttempt returns, whatever the saver's mode. The
	// count is in no tuple. It goes with its checkpoint, and a copy of the thread has
	// it; another Put of the checkpoint's id leaves it.
	//
	// Errors: InvalidError, ErrNotFound, or one of the engine. After ErrOutcomeUnknown
	// the attempt may have been counted.
	CountAttempt(ctx context.Context, cfg Config) (int, error)

	// DeltaChannelHistory reads what rebuilds delta channels: LangGraph's
	// get_delta_channel_history. It walks from the parent of the checkpoint cfg names
	// (the newest if none) to the nearest ancestor that stores a value, for each
	// channel. The target's own writes are not part of it.
	DeltaChannelHistory(ctx context.Context, cfg Config, channels []string) (map[string]DeltaHistory, error)

	// Serializer is what Go values are encoded with, safe for concurrent use; nil if
	// the saver does not say. An engine that knows it serializes what a superstep made
	// when the superstep ends, and stores it while the next one runs; without it, it
	// must wait for every save.
	Serializer() serde.Serializer
}

// ThreadManager lists, copies and thins out threads. All but Threads are LangGraph's
// optional methods.
type ThreadManager interface {
	// Threads yields the threads q selects in the order of their ids. It reads no
	// checkpoints, unless ThreadQuery.Metadata asks for it.
	Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error]

	// CopyThread makes dst a thread of its own with all of src's checkpoints,
	// writes and namespaces: LangGraph's copy_thread. The copies share stored bytes. An
	// unknown src leaves dst empty; a dst that has checkpoints or writes is
	// ErrThreadExists. That dst was deleted once is no obstacle, and forgotten.
	CopyThread(ctx context.Context, src, dst string) error

	// DeleteForRuns removes the checkpoints whose metadata has one of these
	// run_ids, in all threads and namespaces, with their writes: LangGraph's
	// delete_for_runs. A checkpoint that one of another run needs to be read stays,
	// whole, and the Removal says which and why: who deletes for privacy must look at
	// it. No ids, or unknown ones, are no error. With an error nothing was removed.
	DeleteForRuns(ctx context.Context, runIDs []string) (Removal, error)

	// Prune applies strategy to each thread: LangGraph's prune. Unknown threads are no
	// error. The Removal says what KeepLatest kept besides the newest checkpoints, and
	// why. With an error nothing was removed.
	Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) (Removal, error)
}

// Retainer removes what has become old: history by a RetentionPolicy, and threads that
// nobody has written to for long.
//
// A thread expires when its TTL has passed since its last write, of a checkpoint or
// of pending writes; removing history, and reading, is no write. An expired thread
// is there until a sweep comes, and is then deleted as DeleteThread does it, and
// remembered. Time is the saver's clock, which stamps the writes as well: if it is
// set back, threads live longer by as much; if it is set forward, they expire as if
// that time had passed.
type Retainer interface {
	// Retain removes what policy does not keep, or with dryRun only says what that
	// would be. The report of an error is about what was removed until then.
	//
	// Errors: InvalidError, BudgetError, or one of the engine. After the first two
	// nothing was removed. Threads are taken one after the other, each as it is
	// then, in commits of a bounded number of checkpoints, newest first, so that
	// every checkpoint that is there can be read at any time. A crash, or the end of
	// ctx, leaves a prefix of these removals; calling again goes on.
	Retain(ctx context.Context, policy RetentionPolicy, dryRun bool) (RetentionReport, error)

	// SetTTL gives a thread a TTL of its own; 0 gives it the default again, NoTTL
	// none at all. It lasts as long as the thread; a copy begins with the default.
	// Other negative ones are an InvalidError, a thread that holds nothing is
	// ErrNotFound.
	SetTTL(ctx context.Context, threadID string, ttl time.Duration) error

	// Sweep deletes the threads that have expired. A crash, or the end of ctx, leaves
	// some of them to the next sweep.
	Sweep(ctx context.Context) (SweepReport, error)
}

// Eraser erases threads so that nothing of them can be found.
type Eraser interface {
	// Erase is DeleteThread for each thread, and besides, when it returns nil, no file
	// of the store holds a byte that only these threads had: no value, no name, not
	// their ids. What stays of each is a salted hash of its id, so that late writes get
	// ErrThreadDeleted; a checkpoint without a parent starts the thread anew, and its
	// writes are taken once their checkpoint is there. What copies of a thread share
	// with it stays theirs, in files of their own making. An id that was deleted before,
	// or never was, is erased as well.
	//
	// Every file is written anew, once for all threads of a call, so it takes as long as
	// Compact; other calls go on. Erase waits for iterators that were begun before it,
	// as they keep files open. Backups and copies of the directory are not touched, nor
	// is what the device keeps of removed files.
	//
	// The threads are deleted first, each whole, then the files are written. An error
	// that matches ErrEraseUnfinished came after threads were deleted: these stay
	// deleted, and the store remembers to finish; see disk.Saver.FinishErasures. With any
	// other error nothing was deleted, but nobody knows with ErrOutcomeUnknown. An
	// invalid id among valid ones, an ended context and a read-only store are found
	// before anything is deleted. After a crash each thread either is as it was, or is
	// deleted and its erasure remembered as unfinished.
	Erase(ctx context.Context, threadIDs ...string) error
}
