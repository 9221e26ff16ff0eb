package rules

import "github.com/stele-go/stele/saver"

// ChannelStopped is the channel on which an engine records that a run stopped, if nothing
// else that is stored says so: at a breakpoint inside another graph, or with an answer that
// nobody took.
const ChannelStopped = "__stele_stopped__"

// ChannelAnswers is the channel on which an engine records the answers that a run was given by the ids of
// their questions.
const ChannelAnswers = "__stele_answers__"

// ChannelErrorSource is written together with an error that an error handler takes over. The
// run goes on with the handler.
const ChannelErrorSource = "__error_source_node__"

// WriteCall has the parts of one PutWrites call that StatusOf needs.
type WriteCall struct {
	TaskID    string
	Interrupt bool // it has a write on ChannelInterrupt, before any on ChannelError
	Resume    bool // it has a write on ChannelResume
	Error     bool // it has a write on ChannelError, and no error handler takes over
	Stopped   bool // it says that the run stopped, and waits
	Output    bool // it has a write on any other channel
}

// EndsWait reports whether a write says that its task waits for nothing any more: an empty list of interrupts. It stands
// behind the error in its call, see StatusOf; a Tuple has both by their index, so who makes a call of a Tuple's
// writes puts it there.
func EndsWait(channel string, v saver.Value) bool {
	if channel != saver.ChannelInterrupt {
		return false
	}
	x, err := v.Any()
	list, isList := x.([]any)
	return err == nil && isList && len(list) == 0
}

// NewWriteCall sums up a call that wrote on channels. A record of answers counts as an answer of no task.
func NewWriteCall(taskID string, channels []string) WriteCall {
	c := WriteCall{TaskID: taskID}
	handled := false
	for _, channel := range channels {
		switch channel {
		case saver.ChannelInterrupt:
			c.Interrupt = !c.Error
		case saver.ChannelResume:
			c.Resume = true
		case saver.ChannelError:
			c.Error = true
		case ChannelErrorSource:
			handled = true
		case ChannelStopped:
			c.Stopped = true
		case ChannelAnswers:
			c.TaskID, c.Resume = saver.NullTaskID, true
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
// A task waits if its last write is an interrupt and no resume value came from outside since
// then. An interrupt before an error in one call is a question that refused its answer, and waits; one behind an
// error says that the task no longer waits for anything. An interrupt in one call with the values that answered earlier interrupts of the
// task is a new one. A task failed if it wrote an error and no output; with output, a later
// attempt succeeded. A thread of which one task waits and another failed is waiting, because
// an answer lets it go on.
//
// A stop at a breakpoint or at the step limit counts only until something is written,
// because then a run went on. The same holds for a write that says so itself (ChannelStopped).
func StatusOf(note *saver.Note, calls []WriteCall) saver.Status {
	type task struct{ waits, failed, output bool }
	tasks := map[string]*task{}
	steered := false // a Command, which is no task, has written behind the end of the run
	stopped := false // the last call says that the run stopped
	for _, c := range calls {
		stopped = c.Stopped
		if c.TaskID == saver.NullTaskID {
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
		return saver.StatusWaiting
	case failed:
		return saver.StatusFailed
	case note == nil:
		return saver.StatusUnknown
	case len(note.Next) == 0 && !steered:
		return saver.StatusDone
	case note.Stop == saver.StopBreakpoint && len(calls) == 0:
		return saver.StatusWaiting
	case note.Stop == saver.StopSteps && len(calls) == 0:
		return saver.StatusFailed
	}
	return saver.StatusUnfinished
}
