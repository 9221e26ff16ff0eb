package runs

import (
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// Event is an event of a run. It is stored before anybody sees it.
type Event struct {
	// Seq is the number of the event within its run, from 1 on.
	Seq int64 `json:"seq"`
	// Attempt is the attempt that it comes from. Events of earlier attempts stay: a task that runs
	// again after a crash emits again.
	Attempt int `json:"attempt"`
	// Kind is a pregel.Mode for what the graph streams, or one of the kinds below.
	Kind Kind `json:"kind"`
	// Namespace is the graph inside that the event is about; none for the root.
	Namespace []string `json:"namespace,omitempty"`
	// Data is a text, encoded by the queue's serializer; JSON reads it. For a mode of the
	// graph the text is the JSON of package pregeljson, for KindError that of a pregeljson.Failure, and
	// for the other kinds it is the text itself.
	Data serde.Typed `json:"data"`
	Time time.Time   `json:"time"`
}

// Kind is the kind of an Event.
type Kind string

// Kinds of events about the progress of a run.
const (
	// KindAttempt: a worker begins an attempt. Data is its name.
	KindAttempt Kind = "attempt"
	// KindError: the attempt failed.
	KindError Kind = "error"
	// KindEnd: the run has ended; Data is its status. It is the last event.
	KindEnd Kind = "end"
	// KindTask: a task began or ended. Data is the JSON of a TaskNote. Only runs with Spec.Tasks
	// have such events, of graphs inside too.
	KindTask Kind = "task"
	// KindOutput: the output of a run that has a parent and came to its end. Data is the JSON of a serde.Typed,
	// which the queue's serializer reads. It is stored in the commit that ends the run, before KindEnd.
	KindOutput Kind = "output"
)

// TaskNote is the data of an event of KindTask. A task that began and did not end was cut off, is under
// way, or was found in the graph's cache. A task that ended in an earlier attempt or run does not begin
// again.
type TaskNote struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Ended bool   `json:"ended,omitempty"`
	// Attempts is how often the node was called, once the task has ended: more than once if its
	// pregel.RetryPolicy tried again.
	Attempts int `json:"attempts,omitempty"`
	// Took is the time from the first of these calls to the end of the last.
	Took time.Duration `json:"took_ns,omitempty"`
	// Failed and Waiting say how the task ended: with an error, or with a question.
	Failed  bool `json:"failed,omitempty"`
	Waiting bool `json:"waiting,omitempty"`
	// Uses are the calls of models by the node, in all of its own calls, once the task has ended.
	// The tasks of a graph that the node runs have their own. See message.WithMeter.
	Uses []Use `json:"uses,omitempty"`
}

// noteOf returns the TaskNote for an event of a graph; ok is false if the event is not about the
// execution of a task.
func noteOf(ev pregel.Event) (n TaskNote, ok bool) {
	switch x := ev.Data.(type) {
	case pregel.TaskEvent:
		return TaskNote{ID: x.ID, Name: x.Name}, !x.Kept
	case pregel.TaskResult:
		return TaskNote{ID: x.ID, Name: x.Name, Ended: true, Attempts: x.Attempts, Took: x.Took, Failed: x.Err != nil, Waiting: len(x.Interrupts) > 0}, true
	}
	return n, false
}
