package saver

// NullTaskID is the task id of writes that belong to no task: resume values and updates that
// a caller gives to a run.
const NullTaskID = "00000000-0000-0000-0000-000000000000"

// Status says how far a thread has come. It follows from the newest checkpoint of the root
// namespace: from its Note and its pending writes.
type Status string

// The statuses of a thread.
const (
	// StatusDone: nothing is left to run.
	StatusDone Status = "done"
	// StatusWaiting: the thread stopped at a question or at a breakpoint. Savers, which read no values, also call a
	// thread so that is StatusSleeping.
	StatusWaiting Status = "waiting"
	// StatusSleeping: the thread waits for an instant or a signal, and nobody is asked. No saver lists it and no
	// ThreadQuery selects by it: what the thread waits for is in its pending writes, which pregel's GetState and
	// saver/admin read.
	StatusSleeping Status = "sleeping"
	// StatusFailed: a task failed, or the run reached its limit of supersteps.
	StatusFailed Status = "failed"
	// StatusUnfinished: tasks are still to run, or their checkpoint is still to be
	// stored. Either a run is under way, or it ended early, because its process died or
	// it was cancelled or drained.
	StatusUnfinished Status = "unfinished"
	// StatusUnknown: the newest checkpoint has no Note, and its pending writes do not
	// tell the status. Another program made it, or a release before notes.
	StatusUnknown Status = ""
)
