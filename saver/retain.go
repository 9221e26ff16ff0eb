package saver

import (
	"errors"
	"fmt"
	"time"
)

// RetentionPolicy says which history of threads to keep. A checkpoint is removed if any rule
// says so. At least one rule must be set. Two things stay whatever the rules say: the newest
// checkpoint of each namespace, with its pending writes, so that an interrupted thread can
// be resumed; and the checkpoints that are needed to read those that stay. Pending writes
// are removed with their checkpoint.
//
// The order of checkpoints is that of their ids, which grow with time.
type RetentionPolicy struct {
	// ThreadIDs are the threads that the policy applies to; nil means all. Unknown ids
	// are no error.
	ThreadIDs []string
	// KeepLast is how many checkpoints of each namespace stay, newest first; 1 keeps
	// those that KeepLatest keeps. 0 is no rule.
	KeepLast int
	// MaxAge is the age at which a checkpoint is removed, by its timestamp and the
	// saver's clock. This rule keeps a checkpoint whose timestamp is not in RFC 3339.
	// 0 is no rule.
	MaxAge time.Duration
	// ThreadBytes bounds the size of a thread. The oldest checkpoints are removed until
	// the thread fits. The size is that of values, records and pending writes as the
	// saver stores them, before compression. A patch counts with its own size, and a
	// value that several checkpoints read counts once. 0 is no rule.
	ThreadBytes int64
	// StoreBytes bounds the total size of all threads, measured in the same way. The
	// checkpoints with the smallest ids are removed, in whatever thread. What a thread
	// and its copy share counts twice. 0 is no rule. Retain needs about 64 bytes of
	// memory, plus the id, for each checkpoint.
	StoreBytes int64
	// CutAnyway removes as much as possible if a budget cannot be kept. Without it Retain
	// fails. The report says which threads are over their budget.
	CutAnyway bool
}

// RetentionReport says what Retain removed, or would remove. Bytes and Left are of the sizes that
// values have at the moment. A durable saver stores values anew beside the calls, as patches or
// whole, so a dry run and the run after it may differ in these; and under ThreadBytes and
// StoreBytes in what goes.
type RetentionReport struct {
	Threads     int   // that lose something
	Checkpoints int   // removed
	Writes      int   // pending writes removed
	Bytes       int64 // of values that their thread no longer reads; see RetentionPolicy.ThreadBytes
	Left        int64 // bytes that stay in the threads of the policy
	// Over are the threads that still take more than ThreadBytes; only with CutAnyway.
	Over []string
	// StoreOver: all threads still take more than StoreBytes; only with CutAnyway.
	StoreOver bool
	// KeptList lists checkpoints that a rule would remove, but that others need.
	KeptList
}

// ErrBudget matches every BudgetError.
var ErrBudget = errors.New("the budget is smaller than what must stay")

// BudgetError is a budget that cannot be kept because what must stay takes more.
// It matches ErrBudget. Nothing was removed.
type BudgetError struct {
	ThreadID string // "" if it is the budget of the store
	Budget   int64  // bytes
	Least    int64  // bytes that stay in any case
}

// Error names the budget and the smallest budget that would be enough.
func (e *BudgetError) Error() string {
	what := "store"
	if e.ThreadID != "" {
		what = fmt.Sprintf("thread %q", e.ThreadID)
	}
	return fmt.Sprintf("%s: budget of %d bytes, but the newest checkpoints and what they need take %d", what, e.Budget, e.Least)
}

// Is makes every BudgetError match ErrBudget.
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }
