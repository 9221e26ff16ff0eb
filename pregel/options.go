package pregel

import (
	"fmt"
	"slices"
	"sync"
)

// DefaultRecursionLimit is the number of supersteps a run may take unless its
// RunOptions say otherwise: LangGraph's default.
const DefaultRecursionLimit = 10007

// RunOptions say how a run is run. The zero value is a good default. Where a function
// takes several the last counts.
type RunOptions struct {
	// RunID is stored with every checkpoint of the run, as metadata run_id.
	RunID string
	// Metadata and Configurable are stored with every checkpoint of the run, as
	// far as they are scalars.
	Metadata     map[string]any
	Configurable map[string]any
	// Tags are shown with tasks.
	Tags []string

	// RecursionLimit is the number of supersteps; 0 is DefaultRecursionLimit.
	RecursionLimit int
	// MaxConcurrency is the number of tasks of one graph that run at a time; 0
	// is no limit. A task that waits for a call does not count.
	MaxConcurrency int
	// Durability is when progress is stored; "" is that of the graph around, or
	// Async.
	Durability Durability
	// InterruptBefore and InterruptAfter stop the run before or after nodes;
	// nil takes the graph's own. AllNodes stands for all.
	InterruptBefore, InterruptAfter []string
	// OutputKeys are the channels to show; nil is the graph's own.
	OutputKeys *Keys
	// Modes are what Stream shows; nil is the graph's own.
	Modes []Mode
	// Subgraphs shows the events of graphs inside this one as well.
	Subgraphs bool
	// ConflictRetries is how many times Invoke and Stream start over from the new
	// head when another run has the thread, or was quicker, unless a node of the run
	// was started or an event shown. They wait for the run that is under way to end,
	// or for their context; but not inside of a node, where that might be the node's
	// own run. 0: the run that loses fails with ErrConflict.
	ConflictRetries int
	// Unfinished says what new input does on a thread that a crash left
	// unfinished; "" is FinishFirst, or DiscardUnfinished if Options.LangGraph or
	// Shared is set: where several runs may be under way, what is left may be what
	// another one is at. Input at a named checkpoint is a fork: it leaves what is
	// unfinished at that checkpoint where it is.
	Unfinished Unfinished
	// Shared is LangGraph's way with several runs on one thread: all of them go on,
	// and the one that stores the last checkpoint has the thread. Without it one run
	// at a time has the thread, the others fail with ErrConflict; see the package.
	Shared bool
	// AnyAnswer is LangGraph's way with a Command that has Resume: it is taken although
	// nothing waits, and whoever asks next gets it.
	AnyAnswer bool
	// AnyCheckpoint is LangGraph's way with a CheckpointID that does not exist: the
	// thread counts as empty. Without it the error matches saver.ErrNotFound, and
	// nothing is run or stored.
	AnyCheckpoint bool
	// Control asks the run to stop between supersteps.
	Control *Control
	// Context is given to nodes as it is; see Task.
	Context any
}

// fill sets the defaults of o and checks it.
func (o *RunOptions) fill(g *Graph) error {
	if o.RecursionLimit == 0 {
		o.RecursionLimit = DefaultRecursionLimit
	}
	if o.Durability == "" {
		o.Durability = Async
	}
	if o.OutputKeys == nil {
		o.OutputKeys = &g.stream
	}
	switch {
	case o.RecursionLimit < 1:
		return &ArgumentError{Field: "RecursionLimit", Reason: "recursion_limit must be at least 1"}
	case o.MaxConcurrency < 0:
		return &ArgumentError{Field: "MaxConcurrency", Reason: "is negative; 0 is no limit"}
	case o.ConflictRetries < 0:
		return &ArgumentError{Field: "ConflictRetries", Reason: "is negative; 0 does not try again"}
	case o.Durability != Sync && o.Durability != Async && o.Durability != Exit:
		return &ArgumentError{Field: "Durability", Reason: fmt.Sprintf("%q is unknown", o.Durability)}
	case !slices.Contains([]Unfinished{"", FinishFirst, RefuseUnfinished, DiscardUnfinished}, o.Unfinished):
		return &ArgumentError{Field: "Unfinished", Reason: fmt.Sprintf("%q is unknown", o.Unfinished)}
	}
	return g.known(*o.OutputKeys)
}

// lastOf is the options a call was given, if any.
func lastOf[T any](opts []T) (last T) {
	if n := len(opts); n > 0 {
		last = opts[n-1]
	}
	return last
}

// Unfinished says what new input does on a thread whose last run did not come
// to its end because the process died: its snapshot has the Status
// saver.StatusUnfinished. On a thread that is done, waits or failed, new input
// does what it does in LangGraph, whatever this says.
type Unfinished string

const (
	// FinishFirst first goes on with the run that is there, as Invoke with nil
	// input does, and takes the new input after it. It is the default. It counts as
	// an attempt at recovery: after three from one checkpoint the input fails with
	// ErrGivenUp, so that not every message runs a node that kills its process. What
	// a graph of another name left is not run, and the input refused.
	FinishFirst Unfinished = "finish"
	// RefuseUnfinished fails with ErrUnfinished. Nothing is run or stored.
	RefuseUnfinished Unfinished = "refuse"
	// DiscardUnfinished is LangGraph's way: the tasks that did not end are given
	// up, what the others wrote is dropped, and the input is taken.
	DiscardUnfinished Unfinished = "discard"
)

// ways are the places where a run may be safer than LangGraph, or the same. They are
// those of the outermost graph: graphs inside follow it.
type ways struct {
	unfinished                       Unfinished
	shared, anyAnswer, anyCheckpoint bool
	// plain: what is stored about the end of a run is what LangGraph stores, and no more.
	plain bool
	// roundTrip: values are encoded and decoded between supersteps.
	roundTrip bool
}

// ways resolves RunOptions on top of Options.LangGraph. They can
// choose more of LangGraph's ways; only Unfinished can also take one back.
func (g *Graph) ways(o RunOptions) ways {
	all := g.opts.LangGraph
	w := ways{unfinished: o.Unfinished, shared: all || o.Shared, anyAnswer: all || o.AnyAnswer, anyCheckpoint: all || o.AnyCheckpoint, plain: all, roundTrip: g.opts.RoundTrip}
	if w.unfinished == "" {
		w.unfinished = FinishFirst
		if w.shared { // what is left may be what another run is at
			w.unfinished = DiscardUnfinished
		}
	}
	return w
}

// Control lets somebody outside ask running graphs to stop between supersteps.
// The zero Control is ready; it is safe for concurrent use, and shared with
// graphs inside.
type Control struct {
	mu     sync.Mutex
	drain  bool
	reason string
}

// RequestDrain asks for a stop. An empty reason is "shutdown". The first request
// counts.
func (c *Control) RequestDrain(reason string) {
	if reason == "" {
		reason = "shutdown"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drain {
		c.drain, c.reason = true, reason
	}
}

// DrainRequested reports whether a stop was asked for, and why. A node that works for
// long can look at it, by TaskInfo.Control, and return what it has. A nil Control was
// never asked.
func (c *Control) DrainRequested() (reason string, requested bool) {
	if c == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason, c.drain
}
