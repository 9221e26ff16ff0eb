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

// channelStopped is what an engine writes when a run stopped in a way that nothing else
// that is stored tells: at a breakpoint inside another graph, or with an answer that
// nobody took.
const channelStopped = "__stele_stopped__"

// channelErrorSource is written beside an error that an error handler takes over:
// the run goes on with the handler.
const channelErrorSource = "__error_source_node__"

// WriteCall is what StatusOf needs to know of one PutWrites call.
type WriteCall struct {
	TaskID    string
	Interrupt bool // it has a write on ChannelInterrupt
	Resume    bool // it has a write on ChannelResume
	Error     bool // it has a write on ChannelError, and no error handler takes over
	Stopped   bool // it says that the run stopped, and waits
	Output    bool // it has a write on any other channel
}

// NewWriteCall sums up a call that wrote on channels.
func NewWriteCall(taskID string, channels []string) WriteCall {
	c := WriteCall{TaskID: taskID}
	handled := false
	for _, channel := range channels {
		switch channel {
		case ChannelInterrupt:
			c.Interrupt = true
		case ChannelResume:
			c.Resume = true
		case ChannelError:
			c.Error = true
		case channelErrorSource:
			handled = true
		case channelStopped:
			c.Stopped = true
		default:
			c.Output = true
		}
	}
	c.Error = c.Error && !handled
	return c
}

// StatusOf is the status of a thread whose newest root checkpoint has this note, nil
// if it has none, given the calls that wrote against the checkpoint, in commit order.
//
// A task waits if the last thing it wrote is an interrupt and no resume value came
// from outside since. An interrupt written together with the values that answered
// the task's earlier interrupts is a new one. A task failed if it wrote an error and
// no output: output beside an error is of a later attempt, which succeeded. A thread
// that waits and failed counts as waiting, as an answer brings it on.
//
// A breakpoint, and a run out of steps, count only until something is written: then
// a run went on from there. So does a call that says that the run stopped.
func StatusOf(note *Note, calls []WriteCall) Status {
	type task struct{ waits, failed, output bool }
	tasks := map[string]*task{}
	steered := false // by a Command, past the end of a run
	stopped := false // what was written last says so
	for _, c := range calls {
		stopped = c.Stopped
		if c.TaskID == NullTaskID {
			steered = steered || c.Output
			for _, t := range tasks {
				t.waits = t.waits && !c.Resume
			}
			continue
		}
		t := tasks[c.TaskID]
		if t == nil {
			t = new(task)
			tasks[c.TaskID] = t
		}
		t.waits = c.Interrupt
		t.failed = t.failed || c.Error
		t.output = t.output || c.Output
	}
	waits, failed := stopped, false
	for _, t := range tasks {
		waits = waits || t.waits
		failed = failed || t.failed && !t.output
	}
	switch {
	case waits:
		return StatusWaiting
	case failed:
		return StatusFailed
	case note == nil:
		return StatusUnknown
	case len(note.Next) == 0 && !steered:
		return StatusDone
	case note.Stop == StopBreakpoint && len(calls) == 0:
		return StatusWaiting
	case note.Stop == StopSteps && len(calls) == 0:
		return StatusFailed
	}
	return StatusUnfinished
}
