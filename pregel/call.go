package pregel

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/store/cache"
)

// call schedules a function as a task of the running one.
func call(ctx context.Context, c *callSpec) (*task, *taskAttempt, error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("call %q: %w", c.name, err)
	}
	r.out.touch()
	step := r.step.Get()
	// What is not stored is another value in every run, and a call's input may have it from the state.
	if run := step.run.Get(); run.recordsCalls() && !c.ignoreInput && !step.g.untracked && len(step.g.spec.Managed) == 0 {
		c.hash = inputHash(c.input)
	}
	m := request{kind: reqCall, task: r.task, call: c, number: int(r.task.calls.Add(1) - 1), reply: make(chan *task, 1)}
	if !step.tell(m) {
		return nil, nil, fmt.Errorf("call %q: %w", c.name, ErrOutsideTask)
	}
	return <-m.reply, r, nil
}

// await waits until a called task has ended. If slots are limited, the caller gives its slot
// back meanwhile.
func (r *taskAttempt) await(ctx context.Context, t *task) (any, error) {
	select {
	case <-t.done.wait():
		return t.done.val, t.done.err
	default:
	}
	s := r.step.Get()
	if s.limited && !s.tell(request{kind: reqYield}) {
		return nil, ErrOutsideTask
	}
	var err error
	select {
	case <-t.done.wait():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if s.limited {
		m := request{kind: reqWake, grant: make(chan struct{})}
		if !s.tell(m) {
			return nil, ErrOutsideTask
		}
		select {
		case <-m.grant:
		case <-s.stepOver:
		}
	}
	if err != nil {
		return nil, err
	}
	return t.done.val, t.done.err
}

// Future is the result of a called TaskFunc.
type Future[O any] struct {
	run  *taskAttempt
	task *task
	err  error
}

// Get waits for the result. An error is that of the called function, or an *InterruptError
// if it waits for an answer. A node that does not handle the error must return it.
func (f Future[O]) Get(ctx context.Context) (O, error) {
	var zero O
	if f.err != nil {
		return zero, f.err
	}
	v, err := f.run.await(ctx, f.task)
	if err != nil {
		f.run.task.seesError("call", f.task.number, err)
		return zero, err
	}
	return channel.Convert[O](v)
}

// GetAll waits for several results and returns them in their order. It returns the first
// error only when all calls have ended, so that all their questions are asked at once.
func GetAll[O any](ctx context.Context, futures ...Future[O]) ([]O, error) {
	out := make([]O, len(futures))
	var first error
	for i, f := range futures {
		v, err := f.Get(ctx)
		if err != nil && first == nil {
			first = err
		}
		out[i] = v
	}
	return out, first
}

// TaskOptions are options of a TaskFunc.
type TaskOptions struct {
	Retry   []RetryPolicy
	Cache   *CachePolicy
	Timeout *TimeoutPolicy
	// IgnoreInput lets a call find what it did in an earlier run although its input is another now,
	// because it has the time, or a random number. Without it that is a CallMismatchError, except in a
	// graph with untracked or managed values, and where a Command with an answer also updated the state.
	IgnoreInput bool
}

// TaskFunc is a function whose result is stored. When the node that calls it runs again, a
// call that ended does not. Calls are told apart by their order, so it must be the same in
// every run. If the body of the node is changed meanwhile, so that another function is called where
// one ended, or it with another input, the run fails with a CallMismatchError before it is called.
type TaskFunc[I, O any] struct {
	name string
	f    func(ctx context.Context, input I) (O, error)
	opts TaskOptions
}

// NewTask makes a TaskFunc. The name is part of the identity of its calls.
func NewTask[I, O any](name string, f func(ctx context.Context, input I) (O, error), opts ...TaskOptions) *TaskFunc[I, O] {
	return &TaskFunc[I, O]{name: name, f: f, opts: lastOf(opts)}
}

// ClearCache deletes what the cache keeps of calls of functions with this name.
func (t *TaskFunc[I, O]) ClearCache(ctx context.Context, kept cache.Cache) error {
	return kept.Clear(ctx, cacheGroup(callGroup, t.name))
}

// Start calls the function and returns at once. It must be called within a
// running task.
func (t *TaskFunc[I, O]) Start(ctx context.Context, input I) Future[O] {
	ct, run, err := call(ctx, &callSpec{name: t.name, input: input, retry: slices.Clone(t.opts.Retry), cache: t.opts.Cache,
		timeout: t.opts.Timeout, ignoreInput: t.opts.IgnoreInput,
		run: func(ctx context.Context) (any, error) { return t.f(ctx, input) }})
	return Future[O]{run: run, task: ct, err: err}
}

// Call calls the function and waits for its result.
func (t *TaskFunc[I, O]) Call(ctx context.Context, input I) (O, error) {
	return t.Start(ctx, input).Get(ctx)
}
