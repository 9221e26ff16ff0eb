package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stele-go/stele/pregel/internal/frozen"
)

// loop runs one run of one graph, superstep after superstep. It coordinates the objects below, which
// have the state of the run. Each owns its fields, and changes them by its methods alone. No other
// goroutine reaches them: tasks have a stepView, which is a copy, and by it read the channels while the
// superstep waits for them (taskOutput.whileOpen).
type loop struct {
	run      runConfig // which run it is
	input    any
	recovery *recovery // what Recover, or new input that finishes a run first, runs; nil else

	pos   position // where it stands
	saves saves    // what is stored, and when
	view  view     // what is shown
	pool  pool     // what its supersteps share
}

// runAll runs the loop and returns what the run ends with. An interrupt of the outermost
// graph is no error, because its events report it.
func (l *loop) runAll(ctx context.Context) (err error) {
	defer l.saves.disown()
	hooks := l.run.hooks
	ctx, end := hooks.span(ctx, Span{Kind: SpanRun, Run: l.pos.info()})
	defer func() {
		if p := recover(); p != nil { // a reducer, a mapper or a hook
			err = l.finish(ctx, panicError(p))
		}
		end(err)
		hooks.guard("RunEnd", hooks.RunEnd != nil, func() { hooks.RunEnd(l.pos.info(), err) })
	}()
	hooks.guard("RunStart", hooks.RunStart != nil, func() { hooks.RunStart(l.pos.info()) })
	if err = l.enter(ctx); err == nil {
		err = l.begin(ctx)
	}
	ctx, stop := l.run.untilLost(ctx)
	defer stop()
	if err == nil {
		err = l.supersteps(ctx)
	}
	if err = l.finish(ctx, err); err != nil && l.run.nested() {
		l.run.parent.task.seesError("graph", l.run.nth, err)
	}
	var in *InterruptError
	switch {
	case errors.As(err, &in) && !l.run.nested():
		return nil
	case errors.Is(err, ErrConflict) && l.pool.workers != nil: // tasks were run
		return fmt.Errorf("%w %w", err, errRanTasks)
	case err != nil:
		return err
	}
	switch l.pos.status {
	case statusOutOf:
		return &RecursionError{Limit: l.run.opts.RecursionLimit, langGraph: l.run.policy.langGraph}
	case statusDraining:
		reason, _ := l.run.opts.Control.DrainRequested()
		return &DrainedError{Reason: reason}
	}
	return nil
}

// supersteps runs until nothing is left to do.
//
// # The way of one superstep
//
//  1. tick gets it ready. position.takeNext makes the tasks that follow the checkpoint (preparer).
//     Writes that an earlier attempt has stored are applied again, and their tasks do not run.
//     A breakpoint, the recursion limit or a drain ends the run here.
//  2. runTasks takes what the cache has, keeps back tasks whose wait is not over (loop.stillWaiting), and gives
//     the others to a superstep. Each runs in a goroutine of its own: job.run, taskWork (retries and time
//     limits), taskAttempt (one attempt, which the node's context carries). The superstep reads their
//     requests until none is live.
//  3. superstep.ended notes what a task wrote, or asked, as pending (position.record), and hands it to
//     the pipeline (saves.submit). After a crash here the next run finds these writes, and runs the
//     other tasks.
//  4. endStep applies all writes in the order of the tasks' paths (applier). putCheckpoint makes the
//     checkpoint that follows, and saves hands it to the pipeline. After a crash before it is stored
//     the next run has the checkpoint before and its pending writes, and comes to the same one.
//  5. The pipeline stores in this order: the writes of the tasks, then the checkpoint that they made,
//     in one commit with those of the task that ended last (putOp.last). Under Sync the loop waits for
//     that before the next superstep; under Exit only the end of the run stores.
func (l *loop) supersteps(ctx context.Context) error {
	l.pool.of(&l.run)
	defer l.pool.end()
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		more, err := l.tick()
		if err != nil || !more {
			return err
		}
		if err := l.runStep(ctx); err != nil {
			return err
		}
		if l.saves.pipe != nil {
			if err := l.saves.pipe.firstError(); err != nil {
				return err
			}
		}
		l.view.queue.waitRoom(ctx)
	}
}

// tick gets the next superstep ready. more is false if there is nothing to run.
func (l *loop) tick() (more bool, err error) {
	if err := l.prepare(); err != nil {
		return false, err
	}
	if l.pos.step > l.pos.stop {
		l.pos.stopAs(statusOutOf)
		return false, nil
	}
	if len(l.pos.tasks.order) == 0 {
		l.pos.stopAs(statusDone)
		return false, nil
	}
	if !l.pos.reruns() && len(l.pos.pending) > 0 {
		l.pos.reapply(l.pos.tasks.order...)
		l.pos.resumeHandlers()
	}
	if l.pos.cp.breaksAt(l.run.opts.InterruptBefore, l.pos.tasks) {
		l.pos.stopAs(statusBefore)
		return false, &InterruptError{}
	}
	if _, drain := l.run.opts.Control.DrainRequested(); drain {
		l.pos.stopAs(statusDraining)
		return false, nil
	}
	l.view.emitTasks(l.pos.tasks.order...)
	for _, t := range l.pos.tasks.order {
		if len(t.writes) > 0 {
			l.view.emitWrites(t, t.writes, true)
		}
	}
	h := l.run.hooks
	h.guard("StepStart", h.StepStart != nil, func() { h.StepStart(l.pos.info(), l.pos.tasks.namePerTask()) })
	return true, nil
}

// prepare makes the tasks of the next superstep and shows the checkpoint they
// start from.
func (l *loop) prepare() error {
	if err := l.pos.takeNext(); err != nil {
		return err
	}
	l.view.emitCheckpoint()
	return nil
}

// runStep runs the tasks of a superstep and applies what they wrote.
func (l *loop) runStep(ctx context.Context) error {
	taskCtx, end := l.pool.begin(ctx), noSpan
	if l.run.hooks.Span != nil {
		taskCtx, end = l.run.hooks.span(taskCtx, Span{Kind: SpanSuperstep, Run: l.pos.info(), Tasks: l.pos.tasks.namePerTask()})
	}
	outcome := errLoopPanicked
	defer func() { end(outcome) }()
	if outcome = l.runTasks(ctx, taskCtx); outcome == nil {
		outcome = l.endStep(ctx)
	}
	return outcome
}

// runTasks runs the tasks that have not ended yet. It returns the error of the superstep, or an
// InterruptError if tasks wait. ctx is the caller's; taskCtx is what tasks get, and is cancelled when
// the superstep fails.
func (l *loop) runTasks(ctx, taskCtx context.Context) error {
	if err := l.matchCache(ctx, l.pos.tasks.order...); err != nil {
		return err
	}
	ready, results := l.pool.take(l.pos.tasks)
	if len(ready) == 0 {
		return nil
	}
	holds := map[*task][]Interrupt{}
	if l.run.waits && !l.pos.stepped {
		for _, t := range ready {
			list, err := l.stillWaiting(ctx, t)
			if err != nil {
				return err
			}
			if len(list) > 0 {
				holds[t] = list
			}
		}
		ready = slices.DeleteFunc(ready, func(t *task) bool { return holds[t] != nil })
	}
	g, set, step, stop := l.run.g, l.pos.set, l.pos.step, l.pos.stop
	most, stepOver := l.run.opts.MaxConcurrency, make(chan struct{})
	defer close(stepOver)
	s := &superstep{l: l, prep: l.pos.prep, caller: ctx, ctx: taskCtx, cancel: l.pool.cancel, queue: ready, done: results,
		requests: make(chan request), slots: cmp.Or(most, math.MaxInt)}
	if g.opts.StepTimeout > 0 {
		s.timedOut = make(chan struct{})
	}
	s.seen = frozen.Of(stepView{audience: l.view.audience, g: g, run: l.pool.run, outer: l.pool.outer, fenced: l.run.fenced,
		toInside: l.pos.toInside, step: step, cpID: l.pos.cp.id,
		last: l.saves.lastPut, pipe: l.saves.pipe, ctx: taskCtx,
		read:     func(sel Keys, own []write) (Pairs, error) { return readLocal(g, set, step, stop, sel, own) },
		sent:     func() any { return set.read(One(chTasks)) },
		requests: s.requests, stepOver: stepOver, timedOut: s.timedOut, limited: most > 0})
	for _, t := range l.pos.tasks.order {
		if list := holds[t]; len(list) > 0 {
			if err := s.keepWaiting(t, list); err != nil {
				return err
			}
		}
	}
	return s.run(ctx)
}

// endStep ends a superstep. It applies the writes of all tasks and makes the new
// checkpoint.
func (l *loop) endStep(ctx context.Context) error {
	l.saves.delta.forceAfterStep(l.pos.tasks, l.pos.reapplied)
	updated, err := l.pos.applier().apply(l.pos.tasks.asWrites())
	if err != nil {
		l.pos.endAs(endRefused)
		return err
	}
	l.pos.applied(updated)
	l.view.emitUpdated(updated)
	if l.run.exits() {
		l.saves.delta.keepBack(l.pos.step, l.pos.pending, l.pos.tasks)
	}
	l.saves.keepItems(l.pos.itemPuts())
	l.pos.forgetStep()
	if err := l.putCheckpoint(ctx, "loop"); err != nil {
		return err
	}
	if l.run.saver == nil && l.run.parent == nil {
		if err := l.saves.passItems(ctx); err != nil {
			return err
		}
	}
	h := l.run.hooks
	h.guard("StepEnd", h.StepEnd != nil, func() { h.StepEnd(l.pos.info()) })
	if l.pos.cp.breaksAt(l.run.opts.InterruptAfter, l.pos.tasks) {
		l.pos.stopAs(statusAfter)
		if err := l.prepare(); err != nil { // shows the checkpoint
			return err
		}
		return &InterruptError{}
	}
	return nil
}

// finish ends the loop and returns what the run ends with. Under Exit everything is stored
// now. Interrupts are reported once they are stored, and the pipeline is emptied.
func (l *loop) finish(ctx context.Context, err error) error {
	if l.pos.cp == nil || l.pos.set == nil {
		return l.saves.closePipe(err)
	}
	if _, waits := err.(*InterruptError); waits && l.pos.status != "" && ctx.Err() == nil { //nolint:errorlint // the loop's own
		err = alsoFailed(err, l.voidAnswer())
	}
	err = alsoFailed(err, l.endGiven(ctx, err))
	if l.run.exits() && l.saves.pipe != nil && l.pos.status != "" && (!l.run.nested() || err != nil || l.run.stableNamespace()) {
		err = alsoFailed(err, l.storeAtExit(ctx))
	}
	err = alsoFailed(err, l.storeEnding(ctx, err))
	if err == nil && l.run.parent != nil {
		err = l.saves.passItems(ctx)
	}
	err = alsoFailed(err, l.saves.settle(ctx))
	// Questions are reported even if a sibling failed, but not if they may not have been
	// stored.
	if ctx.Err() == nil && !errors.Is(err, ErrPersist) {
		for _, report := range l.view.reports {
			report()
		}
	}
	if in, ok := err.(*InterruptError); ok && !l.run.nested() { //nolint:errorlint // the loop's own, not one a node wrapped
		err = alsoFailed(err, l.reportInterrupt(in))
	}
	return l.saves.closePipe(err)
}

// reportInterrupt shows the state with the writes of finished siblings, and the breakpoint if no task
// raised the interrupt. If these writes conflict, the run ends with that error, but the interrupt is
// stored all the same.
func (l *loop) reportInterrupt(in *InterruptError) error {
	l.view.waitFor(in.Interrupts)
	h := l.run.hooks
	h.guard("Interrupt", h.Interrupt != nil, func() { h.Interrupt(l.pos.info(), in.Interrupts) })
	wrote := l.pos.tasks != nil && slices.ContainsFunc(l.pos.tasks.order, func(t *task) bool { return len(t.writes) > 0 })
	if wrote && len(l.pos.pending) > 0 {
		updated, err := l.pos.applier().apply(l.pos.tasks.asWrites())
		if err != nil {
			return err
		}
		l.view.emitUpdated(updated)
	}
	if len(in.Interrupts) == 0 {
		l.view.emit(Event{Mode: ModeUpdates, Data: Update{Node: KeyInterrupt}})
	}
	return nil
}

// finishEarlier resumes the run that left the thread as l found it, under that run's RunID. Its events
// are not shown, because the caller asked for a run of the input. If the input cannot be taken, it
// returns refused, with the outcome of the earlier run.
func (l *loop) finishEarlier(ctx context.Context, at *Address, o *RunOptions, refused error) error {
	var e *UnfinishedError
	if !errors.As(refused, &e) {
		return refused
	}
	same := *o
	same.RunID = l.pos.md.RunID()
	if same.Metadata["run_id"] != nil { // else input would seem to be taken, of a thread that no run with an id left
		same.Metadata = maps.Clone(same.Metadata)
		delete(same.Metadata, "run_id")
	}
	switch earlier, _, err := l.run.g.recoverOne(ctx, at, &same, l.saves.owned.again, defaultAttempts); {
	case errors.Is(err, errSettled): // another run has finished it in the meantime
	case err != nil:
		e.Err = err
		return e
	case earlier.pos.status != statusDone:
		e.Stopped, e.Interrupts = true, earlier.view.waiting
		return e
	}
	return nil
}
