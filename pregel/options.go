package pregel

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/stele-go/stele/saver"
)

// DefaultRecursionLimit is the number of supersteps a run may take unless its
// RunOptions say otherwise: LangGraph's default.
const DefaultRecursionLimit = 10007

// RunOptions say how a run is run. The zero value is a good default. Of several that a
// function is given, the last counts.
type RunOptions struct {
	// RunID is stored with every checkpoint of the run, as metadata run_id.
	RunID string
	// Metadata and Configurable are stored with every checkpoint of the run. Only scalars
	// are stored. What Configurable says of the user, under names that begin with
	// "langgraph_auth_", a run also has that a task of this one begins on another thread.
	Metadata     map[string]any
	Configurable map[string]any
	// Tags are shown with tasks.
	Tags []string

	// RecursionLimit bounds the number of supersteps; 0 is DefaultRecursionLimit.
	RecursionLimit int
	// MaxConcurrency bounds how many tasks of one graph run at a time; 0 is no bound. A
	// task that waits for a call does not count.
	MaxConcurrency int
	// Durability says when progress is stored. Empty means Async, or what the graph around
	// uses.
	Durability Durability
	// InterruptBefore and InterruptAfter stop the run before or after these nodes, in place
	// of those that the graph was made with. AllNodes stands for all. A name that no node
	// has is an ArgumentError.
	InterruptBefore, InterruptAfter []string
	// OutputKeys are the channels to show; nil is the graph's own.
	OutputKeys *Keys
	// Modes are what Stream shows; nil is the graph's own.
	Modes []Mode
	// Subgraphs also shows the events of graphs inside. SubgraphTasks shows, of these, those of mode tasks, if that is
	// among Modes; with Subgraphs it changes nothing.
	Subgraphs     bool
	SubgraphTasks bool
	// ConflictRetries is how often Invoke and Stream start over at the new head if another run owns the
	// thread or was quicker. They do so only while no node of the run was started and no event shown.
	// Each retry waits until the other run ends, except inside a node, where that could be the node's
	// own run. With 0 the run fails with ErrConflict immediately.
	ConflictRetries int
	// Unfinished says what new input does on a thread that a crash left unfinished. Empty
	// means FinishFirst; with Options.LangGraph it means DiscardUnfinished,
	// because what is left may be the work of a run that is still going on. Input at a
	// named checkpoint is a fork, and leaves unfinished work there alone.
	Unfinished Unfinished
	// RefuseWaiting refuses new input on a thread that waits for an answer or at a breakpoint:
	// the run fails with ErrWaiting, and nothing is run or stored. Without it, and without
	// Options.RefuseWaiting, the input is taken and the question is given up, as in LangGraph. Input
	// at a named checkpoint is a fork, which leaves the question alone.
	RefuseWaiting bool
	// Lease is that of a caller who owns the thread already. The run stores under it, and leaves it to
	// the caller to release it. Nil: the run owns the thread by itself. A caller that reads the thread
	// to decide whether and how to run must own it before reading.
	Lease *saver.Lease
	// DeferSync leaves it to the caller to make durable what the run has stored, before anybody hears
	// of it: by Sync of the saver, or by a later call in the same log. Without it the run does that.
	// Stored data survives the death of the process immediately, as Durability says. With Sync it
	// changes nothing.
	DeferSync bool
	// Children starts the children of nodes; see Child. A runs.Worker sets it.
	Children Children
	// Control can ask the run to stop between supersteps.
	Control *Control
	// Context is handed to nodes unchanged; see Task.
	Context any
}

// fill sets the defaults of o and checks it.
func (o *RunOptions) fill(g *Graph) error {
	o.RecursionLimit = cmp.Or(o.RecursionLimit, DefaultRecursionLimit)
	o.Durability = cmp.Or(o.Durability, Async)
	if len(o.InterruptBefore) == 0 {
		o.InterruptBefore = g.opts.InterruptBefore
	}
	if len(o.InterruptAfter) == 0 {
		o.InterruptAfter = g.opts.InterruptAfter
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
	if err := g.checkBreakpoints("InterruptBefore", o.InterruptBefore); err != nil {
		return err
	}
	if err := g.checkBreakpoints("InterruptAfter", o.InterruptAfter); err != nil {
		return err
	}
	return g.known(*o.OutputKeys)
}

// checkBreakpoints refuses a name that no node has: the run would not stop where somebody wants to look at it.
func (g *Graph) checkBreakpoints(field string, names []string) error {
	for _, n := range names {
		if _, ok := g.nodes[n]; !ok && n != AllNodes && !g.opts.LangGraph {
			return &ArgumentError{Field: field, Reason: fmt.Sprintf("there is no node %q", n)}
		}
	}
	return nil
}

// lastOf is the options a call was given, if any.
func lastOf[T any](opts []T) (last T) {
	if n := len(opts); n > 0 {
		last = opts[n-1]
	}
	return last
}

// Unfinished says what new input does on a thread whose last run died before its end, so
// that its Status is saver.StatusUnfinished. On any other thread new input does what it
// does in LangGraph.
type Unfinished string

const (
	// FinishFirst resumes the earlier run, as Invoke with nil does, and takes the new input
	// after it. It is the default. Each time counts as an attempt at recovery. After three
	// attempts from one checkpoint the input fails with ErrGivenUp, so that a node that
	// kills its process is not run for every message. What a graph of another name left is
	// not run, and the input is refused.
	FinishFirst Unfinished = "finish"
	// RefuseUnfinished fails with ErrUnfinished. Nothing is run or stored.
	RefuseUnfinished Unfinished = "refuse"
	// DiscardUnfinished gives up the tasks that did not end, drops what the others wrote,
	// and takes the input, as LangGraph does.
	DiscardUnfinished Unfinished = "discard"
)

// Control asks running graphs to stop between supersteps. The zero Control is ready to use.
// It is safe for concurrent use, and graphs inside share it.
type Control struct {
	mu     sync.Mutex
	drain  bool
	reason string
}

// RequestDrain asks for a stop. An empty reason means "shutdown". Only the first request
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

// DrainRequested reports whether a stop was requested, and why. A node that works for long
// can check it through TaskInfo.Control and return what it has. On a nil Control nothing is
// ever requested.
func (c *Control) DrainRequested() (reason string, requested bool) {
	if c == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason, c.drain
}
