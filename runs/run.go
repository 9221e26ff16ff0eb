package runs

import (
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// Status says how far a run has come. The words are those of LangGraph's server.
type Status string

const (
	// Pending: the run waits for a worker, for its time, or for its thread. Run.Asleep tells one that
	// waits in its graph.
	Pending Status = "pending"
	// Running: a worker has it.
	Running Status = "running"
	// Success: the run came to its end, to a question, or to a breakpoint. Run.Waiting
	// tells them apart.
	Success Status = "success"
	// Error: the run failed for good. Run.Error says why. Retry submits it again.
	Error Status = "error"
	// Interrupted: the run was cancelled. With Run.Cancel = Rollback, what it stored was
	// removed.
	Interrupted Status = "interrupted"
)

// Ended reports whether no worker will do anything for a run of this status.
func (s Status) Ended() bool { return s == Success || s == Error || s == Interrupted }

// Strategy says what becomes of a run that is submitted for a thread with another run that
// has not ended: LangGraph's multitask strategies.
type Strategy string

const (
	// Enqueue: it waits until the runs before it have ended. This is the default.
	Enqueue Strategy = "enqueue"
	// Reject: Submit fails with a BusyError.
	Reject Strategy = "reject"
	// Interrupt cancels the others and keeps what they stored. The new run begins from
	// there; what they left unfinished is not finished.
	Interrupt Strategy = "interrupt"
	// Rollback cancels the others and removes the checkpoints they made.
	Rollback Strategy = "rollback"
)

// Spec describes a run. It is stored: who adds a field writes it in fields.spec (localitems.go) too, and checks
// it in rules.go and in runstest (cases_submit.go). Metadata, Configurable, Context and Labels are plain JSON:
// numbers in them are read back as float64, and integers beyond 2^53, of up to 64 bits, as int64.
type Spec struct {
	// ThreadID is the thread; "" makes Submit choose a new one.
	ThreadID string `json:"thread_id,omitempty"`
	// Graph is the name of the graph, by which workers know it. Required.
	Graph string `json:"graph"`
	// Input is what the graph is invoked with: values, a pregel.Command, or nil to go on
	// with what is left on the thread.
	Input serde.Typed `json:"input"`
	// CheckpointID is the checkpoint to begin from; "" is the newest.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// Options of the run, as in pregel.RunOptions.
	Metadata        map[string]any    `json:"metadata,omitempty"`
	Configurable    map[string]any    `json:"configurable,omitempty"`
	Context         map[string]any    `json:"context,omitempty"`
	Tags            []string          `json:"tags,omitempty"`
	RecursionLimit  int               `json:"recursion_limit,omitempty"`
	MaxConcurrency  int               `json:"max_concurrency,omitempty"`
	Durability      pregel.Durability `json:"durability,omitempty"`
	InterruptBefore []string          `json:"interrupt_before,omitempty"`
	InterruptAfter  []string          `json:"interrupt_after,omitempty"`
	// Modes are the events to keep; see Event. None keeps those that tell how the run
	// goes, but none of the graph.
	Modes     []pregel.Mode `json:"modes,omitempty"`
	Subgraphs bool          `json:"subgraphs,omitempty"`
	// Tasks keeps, beside the events of Modes, when each task began and ended, and how often its
	// node was called; see KindTask.
	Tasks bool `json:"tasks,omitempty"`
	// Multitask is what the run does on a busy thread; "" is Enqueue.
	Multitask Strategy `json:"multitask,omitempty"`
	// Priority: of runs on different threads, those with a greater one are begun first.
	Priority int `json:"priority,omitempty"`
	// Attempts bounds how often the run is begun; 0 is 3. See Worker.
	Attempts int `json:"attempts,omitempty"`
	// Trace says which trace the run belongs to, as the headers of a request would: W3C's
	// traceparent and tracestate. Queues keep it, and Worker.Begin reads it.
	Trace map[string]string `json:"trace,omitempty"`
	// Labels are for whoever submits and lists runs. Queues keep them, and workers do not
	// look at them.
	Labels map[string]any `json:"labels,omitempty"`
}

// Request is a run to submit.
type Request struct {
	Spec
	// Input is encoded into Spec.Input, unless it is nil. Of a struct, the fields that are not
	// zero are the input, as for graph.Graph.Run.
	Input any
	// Key makes the submission idempotent: a second one with the same key is the first
	// run, whatever has become of it and whatever input the second has, as long as the queue
	// keeps it.
	Key string
	// After is when the run may begin, earliest; zero is now.
	After time.Time
	// Parent is the claim of the run that starts this one, its child; nil for none. See pregel.Child.
	Parent *Claim
	// Detached: the child goes on when its parent has ended.
	Detached bool
}

// Run is a run as its queue keeps it. Who adds a field writes it in appendRun (localitems.go), and in
// PostgreSQL's queue (postgres/setup.go, and statements.go and queue.go of postgres/pgqueue) too.
type Run struct {
	Spec
	// ID names the run. It is the run_id in the metadata of its checkpoints. IDs grow with
	// time.
	ID     string `json:"id"`
	Key    string `json:"key,omitempty"`
	Status Status `json:"status"`
	// Attempt counts how often a worker has begun the run. It goes on where the last
	// attempt was: tasks whose writes were stored do not run again.
	Attempt int `json:"attempt,omitempty"`
	// Waiting: the run ended at a question or a breakpoint, or sleeps. Of a run that failed and has a Parent, that
	// the question is still open, as the answer was refused. Of a run that a worker has, that it
	// was woken.
	Waiting bool `json:"waiting,omitempty"`
	// Error is why the last attempt failed.
	Error string `json:"error,omitempty"`
	// Cancel is the requested cancellation: "", Interrupt or Rollback.
	Cancel Strategy `json:"cancel,omitempty"`
	// Worker is the name of the worker that has the run, or had it last.
	Worker string `json:"worker,omitempty"`
	// Epoch is the number of the claim: it grows with every claim. See Claim.
	Epoch int64 `json:"epoch,omitempty"`
	// Mark is what the worker noted; see Queue.Mark.
	Mark string `json:"mark,omitempty"`
	// Version is that of the graph at the worker that began the last attempt or, if the run is Pinned, that of the
	// graph that stored its thread; "" if it was never begun, or by an earlier release. A claim makes it
	// Claim.Before, or that of the worker, and Queue.Mark notes another.
	Version string `json:"version,omitempty"`
	// Pinned: the run waits for a worker with Version until After, and from then on for any.
	Pinned bool `json:"pinned,omitempty"`
	// Parent is the thread whose node awaits what becomes of the run's thread, and started it; "" if none does.
	// A run that is submitted to a thread before its child has ended, such as one with an answer, has the same.
	// Detached says that the parent's end does not cancel it.
	Parent   string `json:"parent,omitempty"`
	Detached bool   `json:"detached,omitempty"`
	// After is when the run may begin; of a run that failed, when it may be tried again.
	After   time.Time `json:"after"`
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // first claimed since it was submitted, or tried again
	Ended   time.Time `json:"ended,omitzero"`
}

// Asleep reports whether the run sleeps until After, in a node that waits for an instant or for a signal
// (pregel.Sleep, pregel.Signal). No worker has it, and no attempt is counted. It keeps the thread, so that
// what is enqueued comes after it, unless somebody is asked as well: whoever answers goes before it.
func (r Run) Asleep() bool { return r.Status == Pending && r.Waiting }
