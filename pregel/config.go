package pregel

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// DefaultRecursionLimit is the number of supersteps a run may take unless its
// Config says otherwise: LangGraph's default.
const DefaultRecursionLimit = 10007

// Config says on which thread a call works and how a run is run. The zero
// Config runs without a thread, which is an error if the graph has a saver.
// Snapshots carry a Config with only the address filled in.
//
// Inside a node, a Config without ThreadID, Namespace, CheckpointID and
// CheckpointMap makes the graph a part of the running one: it inherits thread,
// saver, namespace and limits. With any of them it is a run of its own.
type Config struct {
	// ThreadID names the thread.
	ThreadID string
	// Namespace addresses a graph inside this one, as snapshots name it.
	Namespace string
	// CheckpointID names the checkpoint to start from: time travel, unless it is
	// the newest and the run resumes.
	CheckpointID string
	// CheckpointMap names the checkpoints of other namespaces that belong with
	// it.
	CheckpointMap map[string]string

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
	// another one is at. An input with a CheckpointID is a fork: it leaves what is
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

// addressed reports whether the Config names a place of its own.
func (c Config) addressed() bool {
	return c.ThreadID != "" || c.Namespace != "" || c.CheckpointID != "" || len(c.CheckpointMap) > 0
}

func (c Config) place() saver.Config {
	return saver.Config{ThreadID: c.ThreadID, Namespace: c.Namespace, CheckpointID: c.CheckpointID}
}

func placeConfig(p saver.Config) Config {
	return Config{ThreadID: p.ThreadID, Namespace: p.Namespace, CheckpointID: p.CheckpointID}
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

// Hooks are called as a run goes on, from the run's own goroutines; they must
// not block. Nil functions are not called. Tracing can be built on them. A hook
// that panics is logged and does not harm the run.
type Hooks struct {
	RunStart  func(RunInfo)
	RunEnd    func(RunInfo, error)
	Resume    func(RunInfo)
	Interrupt func(RunInfo, []Interrupt)
	StepStart func(info RunInfo, tasks []string)
	StepEnd   func(RunInfo)
	TaskStart func(TaskInfo)
	TaskEnd   func(TaskInfo, time.Duration, error)
	Save      func(info RunInfo, op string, took time.Duration, err error)
	// Span is called when something begins. It returns the context that is used for
	// everything inside, which must be derived from the one it is given, and what to
	// call when it ends, once, with its error: nil also for a run that was
	// interrupted, an error that matches ErrInterrupted for a task. Either may be nil.
	Span func(ctx context.Context, s Span) (context.Context, func(err error))
}

// guardHook calls a hook.
func (g *Graph) guardHook(name string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			g.env.Logger.Error("a hook panicked", "graph", g.opts.Name, "hook", name, "err", panicError(p))
		}
	}()
	call()
}

// RunInfo says which run a hook is about.
type RunInfo struct {
	Graph        string
	ThreadID     string
	Namespace    string
	CheckpointID string
	RunID        string
	Step         int
	// Status is why the run stands where it does: "pending", "done", "draining",
	// "out_of_steps", or at a breakpoint "interrupt_before" or
	// "interrupt_after"; "" before it took its input.
	Status string
}

// Environment is what runs take from outside. The zero value is the system's.
type Environment struct {
	Now    func() time.Time                            // the clock of checkpoints
	IDs    *IDSource                                   // nil: one per process
	Jitter func() float64                              // in [0,1), for retries
	Sleep  func(d time.Duration, done <-chan struct{}) // waits between retries
	Logger *slog.Logger                                // nil: silent
	// MessageID names messages that nodes return without an id; nil: random
	// UUIDs.
	MessageID func() string
	// DrainTimeout bounds how long a cancelled run waits for its saves; 0 is 30
	// seconds.
	DrainTimeout time.Duration
}

var processIDs = NewIDSource(nil, nil)

func (e Environment) withDefaults() Environment {
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.IDs == nil {
		e.IDs = processIDs
	}
	if e.Jitter == nil {
		e.Jitter = randomFloat
	}
	if e.Sleep == nil {
		e.Sleep = sleep
	}
	if e.Logger == nil {
		e.Logger = slog.New(slog.DiscardHandler)
	}
	if e.MessageID == nil {
		e.MessageID = channel.NewMessageID
	}
	if e.DrainTimeout == 0 {
		e.DrainTimeout = 30 * time.Second
	}
	return e
}

func sleep(d time.Duration, done <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	}
}
