package saver

import (
	"cmp"
	"slices"
)

// PruneStrategy says what Prune keeps.
type PruneStrategy string

// The strategies of LangGraph's contract.
const (
	// KeepLatest keeps the newest checkpoint of each namespace, with its pending
	// writes, and what its delta channels need to be read.
	KeepLatest PruneStrategy = "keep_latest"
	// PruneAll removes everything of the thread.
	PruneAll PruneStrategy = "delete"
)

// Kept is a checkpoint that a removal kept although it was asked to remove it, because
// another checkpoint cannot be read without it. Its values and writes are unchanged.
type Kept struct {
	ThreadID, Namespace, CheckpointID string
	// For is the id of a checkpoint of the same thread and namespace that needs it.
	// There may be more of them.
	For string
	// Channel is the channel that For reads from it.
	Channel string
	Reason  KeptReason
}

// KeptReason is why a removal kept a checkpoint.
type KeptReason string

// The reasons of a Kept.
const (
	// KeptForDelta: Channel is a delta channel, whose value For reads from the writes
	// of its ancestors.
	KeptForDelta KeptReason = "delta channel"
	// KeptInDoubt: Channel may be a delta channel. For has no Note that says so, because
	// another program made it, or a release before notes.
	KeptInDoubt KeptReason = "maybe a delta channel"
	// KeptForPackets: For is of LangGraph's format 3 or older, and its state includes
	// packets that tasks of the kept checkpoint wrote.
	KeptForPackets KeptReason = "packets of an old checkpoint"
)

// MaxKept is the largest number of kept checkpoints that a report lists.
const MaxKept = 100

// KeptList is the part of a report that lists kept checkpoints.
type KeptList struct {
	// Kept are the first MaxKept of the kept checkpoints, by thread, namespace and id.
	Kept []Kept
	// KeptTotal is the number of all kept checkpoints.
	KeptTotal int
}

// Keep adds checkpoints, in any order. It is for implementations of Saver.
func (l *KeptList) Keep(more ...Kept) {
	l.KeptTotal += len(more)
	l.Kept = append(l.Kept, more...)
	slices.SortFunc(l.Kept, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.ThreadID, b.ThreadID), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.CheckpointID, b.CheckpointID))
	})
	l.Kept = slices.Clip(l.Kept[:min(len(l.Kept), MaxKept)])
}

// Removal says what DeleteForRuns or Prune removed, and what it kept although it was
// asked to remove it.
type Removal struct {
	Checkpoints int // removed
	Writes      int // pending writes removed with them
	KeptList
}
