package saver

// NullTaskID owns the writes that belong to no task: resume values and updates
// that a caller gives to a run.
const NullTaskID = "00000000-0000-0000-0000-000000000000"

// Status is how far a thread has come. It is told by the newest checkpoint of the
// root namespace: by its Note, and by what was written against it since.
type Status string

// The statuses of a thread.
const (
	// StatusDone: nothing is left to run.
	StatusDone Status = "done"
	// StatusWaiting: the thread stopped at a question or at a breakpoint.
	StatusWaiting Status = "waiting"
	// StatusFailed: a task failed, or the run was out of steps.
	StatusFailed Status = "failed"
	// StatusUnfinished: tasks, or a checkpoint, are still to be made. Either a run is
	// under way, or it ended in the middle: its process died, or it was cancelled or
	// drained.
	StatusUnfinished Status = "unfinished"
	// StatusUnknown: the newest checkpoint has no Note, and nothing written against
	// it tells. It was made by another program, or by a release before notes.
	StatusUnknown Status = ""
)
