package runs

import (
	"time"

	"github.com/stele-go/stele/serde"
)

// Event is something that happened in a run. It is stored before anybody sees it.
type Event struct {
	// Seq is the number of the event within its run, from 1 on.
	Seq int64 `json:"seq"`
	// Attempt is the attempt that it comes from. What an earlier attempt emitted stays: a
	// task that runs again after a crash emits again.
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

// Kind says what an Event tells.
type Kind string

// Kinds of events that tell how the run goes.
const (
	// KindAttempt: a worker begins an attempt. Data is its name.
	KindAttempt Kind = "attempt"
	// KindError: the attempt failed.
	KindError Kind = "error"
	// KindEnd: the run has ended; Data is its status. It is the last event.
	KindEnd Kind = "end"
)
