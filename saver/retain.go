package saver

import (
	"errors"
	"fmt"
	"time"
)

// RetentionPolicy says which history of threads stays. A checkpoint goes if any
// of the rules says so; at least one rule must be set. Whatever the rules say,
// the newest checkpoint of each namespace stays, with its pending writes, so that
// an interrupted thread can be resumed, and so does what the checkpoints that
// stay need to be read; see PruneMark. Pending writes go with their checkpoint.
//
// Checkpoints are compared by their ids, which grow with time.
type RetentionPolicy struct {
	// ThreadIDs are the threads it is for; nil means all of the store. Unknown ones
	// are no error.
	ThreadIDs []string
	// KeepLast is how many checkpoints of each namespace stay, newest first; 1 keeps
	// those that KeepLatest keeps. 0 is no rule.
	KeepLast int
	// MaxAge is the age from which a checkpoint goes, by its own timestamp and the
	// saver's clock. One whose timestamp is not in RFC 3339 has no age and stays.
	// 0 is no rule.
	MaxAge time.Duration
	// ThreadBytes is how much a thread may take: the oldest checkpoints go until it
	// does. What counts are the values, records and pending writes as the saver
	// stores them before compression; a patch counts as itself, and a value that
	// several checkpoints read once. 0 is no rule.
	ThreadBytes int64
	// StoreBytes is how much all the threads together may take, in the same measure:
	// the checkpoints with the smallest ids go, whatever thread they are of. What a
	// thread and its copy share counts for both. 0 is no rule. It costs about 64
	// bytes of memory and the id for each checkpoint while it is being applied.
	StoreBytes int64
	// CutAnyway removes what may go where a budget cannot be kept, instead of the
	// error. The report says which threads are over.
	CutAnyway bool
}

// RetentionReport says what Retain removed, or would remove.
type RetentionReport struct {
	Threads     int   // that lose something
	Checkpoints int   // removed
	Writes      int   // pending writes removed
	Bytes       int64 // of values that nothing of their thread reads any more; see RetentionPolicy.ThreadBytes
	Left        int64 // bytes that stay in the threads the policy is for
	// Over are the threads that take more than ThreadBytes all the same; only with
	// CutAnyway.
	Over []string
	// KeptList tells of checkpoints that a rule says should go, and that stay because
	// one that stays needs them.
	KeptList
	// StoreOver: the threads together take more than StoreBytes all the same; only
	// with CutAnyway.
	StoreOver bool
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

// Error names the budget and the least that would do.
func (e *BudgetError) Error() string {
	what := "store"
	if e.ThreadID != "" {
		what = fmt.Sprintf("thread %q", e.ThreadID)
	}
	return fmt.Sprintf("%s: budget of %d bytes, but the newest checkpoints and what they need take %d", what, e.Budget, e.Least)
}

// Is makes every BudgetError match ErrBudget.
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }
