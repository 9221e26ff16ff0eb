package pregel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/pregel/internal/frozen"
)

// job is a task to run. Its result goes to done, which the loop reads until no task is live, so
// sending it does not block for ever.
type job struct {
	step frozen.Value[stepView]
	task *task
	done chan<- result
}

// errGoexit: the body of a node ended its goroutine.
var errGoexit = errors.New("the node ended its goroutine (runtime.Goexit)")

// run runs the task to its end, in a goroutine of workers.
func (j job) run() {
	t, r, end := j.task, result{task: j.task, err: errGoexit}, noSpan
	defer func() {
		if p := recover(); p != nil { // not the node's body, but a policy of it
			r.err = panicError(p)
		}
		end(r.err)
		j.done <- r
	}()
	w := j.work()
	if w.messages != nil && !t.hidden() {
		w.messages.know(t.input)
	}
	hooks := w.hooks
	hooks.guard("TaskStart", hooks.TaskStart != nil, func() { hooks.TaskStart(w.info(1)) })
	if hooks.Span != nil {
		t.ctx, end = w.span(w.ctx, SpanTask, 1)
	}
	r.writes, r.err = w.execute()
	t.took = time.Since(w.begin)
	hooks.guard("TaskEnd", hooks.TaskEnd != nil, func() { hooks.TaskEnd(w.info(1), time.Since(w.begin), r.err) })
}

// taskWork runs a task with its retries, in the goroutine of the task.
type taskWork struct {
	step  frozen.Value[stepView]
	task  *task
	begin time.Time
	// What the goroutine needs of step.
	ctx      context.Context
	g        *Graph
	hooks    *runHooks
	outer    *taskOutput
	fenced   func() error
	messages *messageLog
	timedOut <-chan struct{}
}

// work is kept out of run: a copy of the stepView would lie on the stack of each task as long as
// the task runs, and the stacks of a thousand tasks would grow for it.
//
//go:noinline
func (j job) work() taskWork {
	v := j.step.Get()
	return taskWork{step: j.step, task: j.task, begin: time.Now(), ctx: v.ctx, g: v.g, hooks: v.run.Get().hooks, outer: v.outer, fenced: v.fenced,
		messages: v.messages, timedOut: v.timedOut}
}

// info returns the TaskInfo of the n-th attempt.
func (w *taskWork) info(n int) TaskInfo {
	step := w.step.Get()
	return step.taskInfo(w.task, n, w.begin)
}

// execute runs the task with its retries and returns its writes.
func (w *taskWork) execute() ([]write, error) {
	t := w.task
	for n := 1; ; n++ {
		t.tries = n
		t.reset()
		end := w.spanAttempt(n)
		run := w.newAttempt(n)
		err := w.attempt(run)
		end(err)
		writes := run.out.close()
		if err == nil {
			t.returned, t.given = run.out.returned, run.out.given
			return writes, nil
		}
		var pc *ParentCommandError
		switch {
		case errors.As(err, &pc):
			return w.parentCommand(n, pc, err)
		case isBubble(err):
			return writes, err
		case w.failsOnItsOwn(err):
			return writes, err // nothing is tried again any more
		case w.ctx.Err() != nil:
			return writes, fmt.Errorf("%w: %w: %w", errCancelled, context.Cause(w.ctx), err)
		case errors.Is(err, context.Canceled):
			err = &NodeCancelledError{Node: t.name, Err: err}
		}
		wait, again := w.retry(n, err)
		if !again {
			return writes, err
		}
		w.g.env.Logger.Info("retrying", "graph", w.g.opts.Name, "node", t.name, "attempt", n, "wait", wait, "err", err)
		w.g.env.Sleep(wait, w.ctx.Done())
		if w.ctx.Err() != nil {
			return writes, fmt.Errorf("%w: %w: %w", errCancelled, context.Cause(w.ctx), err)
		}
	}
}

// errCancelled marks a task that ended because its superstep was cancelled.
var errCancelled = errors.New("cancelled")

// failsOnItsOwn reports whether a task that ends after a sibling failed does so for a
// reason of its own: its error does not mention the end of its context. Such a failure is
// stored like any other, as in LangGraph, so that a resumed run calls the task's error
// handler and not the task. If the caller cancelled the run, whatever a task returns counts
// as a consequence of that.
func (w *taskWork) failsOnItsOwn(err error) bool {
	var sibling *TaskError
	return w.ctx.Err() != nil && errors.As(context.Cause(w.ctx), &sibling) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// retry says whether to try again after n failures, and how long to wait. The
// first policy that wants the error decides.
func (w *taskWork) retry(n int, err error) (time.Duration, bool) {
	for _, p := range w.task.retry {
		p = p.withDefaults()
		if !p.RetryOn(err) {
			continue
		}
		if n >= p.MaxAttempts {
			return 0, false
		}
		wait := min(float64(p.MaxInterval), float64(p.InitialInterval)*math.Pow(p.BackoffFactor, float64(n-1)))
		if !p.NoJitter {
			wait += w.g.env.Jitter() * float64(time.Second)
		}
		return time.Duration(wait), true
	}
	return 0, false
}

// parentCommand handles a Command that a graph inside sent outwards. It is carried out if
// it is for this graph, and otherwise passed on.
func (w *taskWork) parentCommand(n int, pc *ParentCommandError, err error) ([]write, error) {
	t := w.task
	switch pc.Command.Graph {
	case t.ns, recastNS(t.ns), t.name:
		run := w.newAttempt(n)
		cmd := pc.Command
		cmd.Graph = ""
		err := guard(func() error { return run.output(cmd) })
		return run.out.close(), err
	case Parent:
		cmd := pc.Command
		cmd.Graph = parentNS(t.ns)
		return nil, &ParentCommandError{Command: cmd}
	}
	return nil, err
}

func (w *taskWork) newAttempt(n int) *taskAttempt {
	t := w.task
	r := &taskAttempt{step: w.step, task: t, attempt: n, begin: w.begin}
	r.out.writes = r.out.room[:0]
	r.out.outer = w.outer
	r.ctx.outer, r.ctx.run = w.ctx, r
	if t.ctx != nil {
		r.ctx.outer = t.ctx
	}
	r.writing = Writing{ctx: &r.ctx, node: t.name, to: r}
	return r
}

// attempt runs the body once, within its time limits. A body that does not return when its context ends
// is abandoned, and its writes are ignored.
func (w *taskWork) attempt(run *taskAttempt) error {
	p := run.task.timeout
	bounded := p != nil && (p.Run() > 0 || p.Idle() > 0)
	defer run.ctx.end()
	if err := w.fenced(); err != nil {
		return err
	}
	if !bounded && w.g.opts.StepTimeout == 0 {
		return guard(run.invoke)
	}
	var runTimer, idleTimer <-chan time.Time
	var idle *time.Timer
	if bounded {
		if d := p.Run(); d > 0 {
			t := time.NewTimer(d)
			defer t.Stop()
			runTimer = t.C
		}
		if d := p.Idle(); d > 0 {
			idle = time.NewTimer(d)
			defer idle.Stop()
			idleTimer = idle.C
			run.out.progress = make(chan struct{}, 1)
			run.out.auto = p.RefreshOn != "heartbeat"
		}
	}
	begin := time.Now()
	result := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { result <- err }()
		err = guard(run.invoke)
	}()
	expired := func(kind string, bound time.Duration) error {
		return &NodeTimeoutError{Node: run.task.name, Kind: kind, Timeout: bound, Elapsed: time.Since(begin), RunTimeout: p.Run(), IdleTimeout: p.Idle()}
	}
	for {
		select {
		case err := <-result:
			return err
		case <-runTimer:
			return expired("run", p.Run())
		case <-idleTimer:
			select {
			case <-run.out.progress: // progress came at the same time
				idle.Reset(p.Idle())
			default:
				return expired("idle", p.Idle())
			}
		case <-run.out.progress:
			idle.Reset(p.Idle())
		case <-w.timedOut:
			return ErrStepTimeout
		}
	}
}

// spanAttempt begins the span of the n-th attempt. The task has its context until the span ends.
func (w *taskWork) spanAttempt(n int) (end func(error)) {
	t := w.task
	if w.hooks.Span == nil || len(t.retry) == 0 {
		return noSpan
	}
	outer := t.ctx
	inside, done := w.span(outer, SpanAttempt, n)
	t.ctx = inside
	return func(err error) {
		t.ctx = outer
		done(err)
	}
}

// span begins a span about the task.
func (w *taskWork) span(ctx context.Context, kind SpanKind, n int) (context.Context, func(error)) {
	info := w.info(n)
	step := w.step.Get()
	run := RunInfo{Graph: w.g.opts.Name, Version: w.g.version, ThreadID: info.ThreadID, Namespace: step.run.Get().ns, RunID: info.RunID, Step: info.Step,
		CheckpointID: info.CheckpointID}
	return w.hooks.span(ctx, Span{Kind: kind, Run: run, Task: &info})
}

// taskOutput has the writes of one attempt of a task so far. Once the attempt has ended, writes of
// goroutines that it left behind are ignored.
type taskOutput struct {
	progress chan struct{} // buffer of one; nil without an idle timeout
	auto     bool          // writes, events and calls count as progress
	outer    *taskOutput   // of the task that runs this graph; progress here is progress there

	// mu guards the fields below.
	mu       sync.Mutex
	writes   []write
	returned any // by the body; kept only while messages are streamed
	given    map[string]bool
	closed   bool
	room     [3]write // enough for most tasks, including the mark of no writes
}

func (a *taskOutput) write(channel string, value any) {
	a.mu.Lock()
	if !a.closed {
		a.writes = append(a.writes, write{channel, value})
	}
	a.mu.Unlock()
	a.touch()
}

// whileOpen calls f with the writes so far. The attempt does not end meanwhile, so the channels that f
// reads stay as they are. If the attempt has ended, f is not called.
func (a *taskOutput) whileOpen(f func(writes []write) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrOutsideTask
	}
	return f(slices.Clip(a.writes))
}

// keep records what the body returned, and the ids that its messages were given for a cached task.
func (a *taskOutput) keep(returned any, given map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.returned, a.given = returned, given
	}
}

func (a *taskOutput) close() []write {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.writes
}

func (a *taskOutput) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// touch records progress.
func (a *taskOutput) touch() {
	for ; a != nil; a = a.outer {
		if a.auto {
			a.note()
		}
	}
}

// beat records a heartbeat.
func (a *taskOutput) beat() {
	for ; a != nil; a = a.outer {
		a.note()
	}
}

func (a *taskOutput) note() {
	select {
	case a.progress <- struct{}{}:
	default: // there is no idle timeout, or progress is already recorded
	}
}

// idleWorkers is the largest number of goroutines of a run that wait for the tasks of the next
// superstep. Others end.
const idleWorkers = 8

// workers are the goroutines that run a loop's tasks. After a task, a worker waits for another
// one. A new goroutine would have to grow its stack to what a node needs each time, which
// costs more than many nodes do.
type workers struct {
	jobs chan job      // unbuffered: a job is handed to a worker that waits
	quit chan struct{} // closed when the run is over
	idle atomic.Int32  // workers that wait
}

func newWorkers() *workers { return &workers{jobs: make(chan job), quit: make(chan struct{})} }

// start runs j in a worker that waits, or in a new one.
func (w *workers) start(j job) {
	select {
	case w.jobs <- j:
	default:
		go w.work(j)
	}
}

// work is the body of a worker. A node that calls runtime.Goexit ends the worker; the superstep
// still gets a result.
func (w *workers) work(j job) {
	for {
		j.run()
		j = job{}
		if w.idle.Add(1) > idleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case j = <-w.jobs:
			w.idle.Add(-1)
		case <-w.quit:
			return
		}
	}
}

// end ends the workers. No task may be running.
func (w *workers) end() { close(w.quit) }

// pool has the goroutines and the memory that the supersteps of a run share.
type pool struct {
	// run is the run's config, which does not change from the first superstep on, and outer the
	// attempt of the task that runs this graph; nil at the root.
	run   frozen.Value[runConfig]
	outer *taskOutput
	// taskCtx is the parent of the contexts of all tasks. It is cancelled when a
	// superstep fails, which is then the last one.
	taskCtx context.Context
	cancel  context.CancelCauseFunc
	workers *workers // from the first superstep on
	// Memory that supersteps reuse, for the tasks to run and for their results.
	ready   []*task
	results chan result
}

// of says whose pool it is, before the first superstep.
func (p *pool) of(r *runConfig) {
	p.run = frozen.Of(*r)
	if r.nested() {
		p.outer = &r.parent.out
	}
}

// begin begins a superstep, and returns the parent of its tasks' contexts. ctx is the run's.
func (p *pool) begin(ctx context.Context) context.Context {
	if p.cancel == nil {
		p.taskCtx, p.cancel = context.WithCancelCause(ctx)
		p.workers = newWorkers()
	}
	return p.taskCtx
}

// take returns the tasks that have not ended yet, and room for their results. Every result of the
// superstep before was read: no task of it is live.
func (p *pool) take(tasks *taskSet) (ready []*task, results chan result) {
	p.ready = slices.Grow(p.ready[:0], len(tasks.order))
	for _, t := range tasks.order {
		if len(t.writes) == 0 {
			p.ready = append(p.ready, t)
		}
	}
	if room := min(len(p.ready), resultsWaiting); cap(p.results) < room {
		p.results = make(chan result, room)
	}
	return p.ready, p.results
}

// end ends the goroutines. No task is running.
func (p *pool) end() {
	if p.cancel != nil {
		p.cancel(nil)
		p.workers.end()
	}
}
