package saver

// NullTaskID owns the writes that belong to no task: resume values and updates
// that a caller gives to a run.
const NullTaskID = "00000000-0000-0000-0000-000000000000"

// WriteCall is what Interrupted needs to know of one PutWrites call.
type WriteCall struct {
	TaskID    string
	Interrupt bool // it has a write on ChannelInterrupt
	Resume    bool // it has a write on ChannelResume
}

// NewWriteCall sums up a call that wrote on channels.
func NewWriteCall(taskID string, channels []string) WriteCall {
	c := WriteCall{TaskID: taskID}
	for _, channel := range channels {
		c.Interrupt = c.Interrupt || channel == ChannelInterrupt
		c.Resume = c.Resume || channel == ChannelResume
	}
	return c
}

// Interrupted reports whether a task of a checkpoint waits to be resumed, given
// the calls that wrote against the checkpoint, in commit order. A task waits if
// the last thing it wrote is an interrupt and no resume value came from outside
// since. An interrupt written together with the values that answered the task's
// earlier interrupts is a new one.
func Interrupted(calls []WriteCall) bool {
	waiting := map[string]bool{}
	for _, c := range calls {
		switch {
		case c.TaskID == NullTaskID:
			if c.Resume {
				clear(waiting)
			}
		case c.Interrupt:
			waiting[c.TaskID] = true
		default:
			delete(waiting, c.TaskID)
		}
	}
	return len(waiting) > 0
}
