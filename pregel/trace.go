package pregel

import "context"

// SpanKind says what a Span is about.
type SpanKind string

// The kinds of spans. Tasks are inside of supersteps, supersteps inside of runs, and
// the run of a graph that a node calls inside of that node's task.
const (
	// SpanRun is a run from loading its checkpoint to its last save, once for each
	// attempt after a conflict.
	SpanRun SpanKind = "run"
	// SpanSuperstep is the tasks of a superstep, and applying what they wrote.
	SpanSuperstep SpanKind = "superstep"
	// SpanTask is a task with all its attempts.
	SpanTask SpanKind = "task"
)

// Span is what Hooks.Span is told of something that begins.
type Span struct {
	Kind SpanKind
	// Run is the run it belongs to, as it stands.
	Run RunInfo
	// Tasks are the names of a superstep's tasks.
	Tasks []string
	// Task is the task of SpanTask, and nil else.
	Task *TaskInfo
}

// noSpan ends a span that nobody began.
func noSpan(error) {}

// span begins a span. A hook that panics, or returns nothing, is as none.
func (l *loop) span(ctx context.Context, s Span) (inside context.Context, end func(error)) {
	inside, end = ctx, noSpan
	l.g.guardHook("Span", func() {
		c, e := l.g.opts.Hooks.Span(ctx, s)
		if c != nil {
			inside = c
		}
		if e != nil {
			end = func(err error) { l.g.guardHook("Span", func() { e(err) }) }
		}
	})
	return inside, end
}

// spanRun begins the span of the run.
func (l *loop) spanRun(ctx context.Context) (context.Context, func(error)) {
	if l.g.opts.Hooks.Span == nil {
		return ctx, noSpan
	}
	return l.span(ctx, Span{Kind: SpanRun, Run: l.info()})
}

// spanStep begins the span of a superstep.
func (l *loop) spanStep(ctx context.Context) (context.Context, func(error)) {
	if l.g.opts.Hooks.Span == nil {
		return ctx, noSpan
	}
	names := make([]string, len(l.tasks.order))
	for i, t := range l.tasks.order {
		names[i] = t.name
	}
	return l.span(ctx, Span{Kind: SpanSuperstep, Run: l.info(), Tasks: names})
}

// spanTask begins the span of a task: it may be called beside the loop, and asks it
// for nothing that changes during a superstep.
func (s *superstep) spanTask(ctx context.Context, info TaskInfo) (context.Context, func(error)) {
	l := s.l
	if l.g.opts.Hooks.Span == nil {
		return ctx, noSpan
	}
	run := RunInfo{Graph: l.g.opts.Name, ThreadID: info.ThreadID, Namespace: l.ns, RunID: info.RunID, Step: info.Step, CheckpointID: info.CheckpointID}
	return l.span(ctx, Span{Kind: SpanTask, Run: run, Task: &info})
}
