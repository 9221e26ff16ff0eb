package saver

import "context"

// Eraser is what a Saver may implement besides: it erases threads from all files of the
// store. A caller finds out with a type assertion:
//
//	if e, ok := s.(saver.Eraser); ok {
//
// A struct that embeds the interface Saver does not implement Eraser, whatever the saver in
// it does. A saver made by Intercept does, if that does.
type Eraser interface {
	// Erase deletes each thread, as DeleteThread does. When it returns nil, no file of the
	// store holds a byte that only these threads had: no value, no name, and not their
	// ids. Only a salted hash of each id is kept, so that late writes get
	// ErrThreadDeleted. Signals to the threads (package pregel) that lie in the same store go,
	// too. A checkpoint without a parent starts the thread anew, and writes
	// are accepted once their checkpoint exists. Copies of a thread keep what they share
	// with it, in new files. Ids that were deleted before, or that never existed, are
	// erased too.
	//
	// Erase rewrites every file, once for all threads of the call, so it takes as long as
	// Compact. Other calls go on meanwhile. It waits for iterators that were begun before
	// it, because they keep files open. A bucket that keeps the log is erased, too, and
	// waited for; see disk.Replica. It does not change backups or copies of the
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

// ThreadOf returns the information about one thread; found is false if there is none.
func ThreadOf(ctx context.Context, s Saver, threadID string) (info ThreadInfo, found bool, err error) {
	if threadID == "" {
		return ThreadInfo{}, false, nil
	}
	for info, err := range s.Threads(ctx, ThreadQuery{ThreadID: threadID}) {
		return info, err == nil, err
	}
	return ThreadInfo{}, false, nil
}
