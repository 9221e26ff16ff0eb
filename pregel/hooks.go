package pregel

import (
	"context"
	"log/slog"
	"reflect"
	"time"
)

// Hooks are called during a run, from the run's own goroutines, and must not block. Any of them may be
// nil. Tracing can be built on them. A panic in a hook is logged and does not harm the run.
//
// Hooks reach graphs within graphs: where a graph that runs in a task has no hook of a kind, that of
// the graph around it is called, with the name and the namespace of the graph inside. Questions are
// reported once: Interrupt is called by the outermost graph alone.
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
	// Span is called when something begins. It returns a context derived from the one it
	// was given, which is used for everything inside, and a function to call once at the
	// end with the outcome. Either may be nil. The outcome of an interrupted run is nil;
	// that of an interrupted task is an error that matches ErrInterrupted.
	Span func(ctx context.Context, s Span) (context.Context, func(err error))
}

// runHooks are the hooks of one run.
type runHooks struct {
	Hooks
	graph string
	log   *slog.Logger
}

// within are h, and those of the run around where h has none.
func (h *runHooks) within(around *runHooks) *runHooks {
	both := *h
	own, outer := reflect.ValueOf(&both.Hooks).Elem(), reflect.ValueOf(&around.Hooks).Elem()
	for i := range own.NumField() {
		if own.Field(i).IsNil() {
			own.Field(i).Set(outer.Field(i))
		}
	}
	return &both
}

// guard calls a hook, if it is set, and logs a panic.
func (h *runHooks) guard(name string, set bool, call func()) {
	if !set {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("a hook panicked", "graph", h.graph, "hook", name, LogError(panicError(p)))
		}
	}()
	call()
}

// RunInfo says which run a hook is about.
type RunInfo struct {
	Graph        string
	Version      string // of the graph
	ThreadID     string
	Namespace    string
	CheckpointID string
	RunID        string
	Step         int
	// Status says why the run is where it is: "pending", "done", "draining",
	// "out_of_steps", or "interrupt_before" or "interrupt_after" at a breakpoint. It is ""
	// before the run has taken its input.
	Status string
}

// SpanKind says what a Span is about.
type SpanKind string

// The kinds of spans. Attempts are inside of tasks, tasks inside of supersteps, supersteps
// inside of runs, and the run of a graph that a node calls inside of that node's task.
const (
	// SpanRun is a run, from loading its checkpoint to its last save. After a conflict each
	// attempt has its own.
	SpanRun SpanKind = "run"
	// SpanSuperstep covers the tasks of a superstep and the applying of their writes.
	SpanSuperstep SpanKind = "superstep"
	// SpanTask is a task with all its attempts.
	SpanTask SpanKind = "task"
	// SpanAttempt is one attempt of a task that has a RetryPolicy; others have none.
	// Span.Task.Attempt counts them from 1.
	SpanAttempt SpanKind = "attempt"
)

// Span describes a part of a run that begins, for Hooks.Span.
type Span struct {
	Kind SpanKind
	// Run is the run that the span belongs to, as it stands.
	Run RunInfo
	// Tasks are the names of a superstep's tasks.
	Tasks []string
	// Task is set for SpanTask and SpanAttempt only.
	Task *TaskInfo
}

// noSpan is the end of a span if there is no hook.
func noSpan(error) {}

// span begins a span. A hook that panics or returns nil is ignored.
func (h *runHooks) span(ctx context.Context, s Span) (inside context.Context, end func(error)) {
	inside, end = ctx, noSpan
	h.guard("Span", h.Span != nil, func() {
		c, e := h.Span(ctx, s)
		if c != nil {
			inside = c
		}
		if e != nil {
			end = func(err error) { h.guard("Span", true, func() { e(err) }) }
		}
	})
	return inside, end
}
