package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// tick gets the next superstep ready. more is false if there is nothing to run.
func (l *loop) tick() (more bool, err error) {
	if err := l.prepare(); err != nil {
		return false, err
	}
	if l.pos.step > l.pos.stop {
		l.pos.status = statusOutOf
		return false, nil
	}
	if len(l.pos.tasks.order) == 0 {
		l.pos.status = statusDone
		return false, nil
	}
	if !l.pos.reruns() && len(l.pos.pending) > 0 {
		l.pos.reapply(l.pos.tasks.order...)
		l.pos.resumeHandlers()
	}
	if l.pos.cp.breaksAt(l.run.opts.InterruptBefore, l.pos.tasks) {
		l.pos.status = statusBefore
		return false, &InterruptError{}
	}
	if _, drain := l.run.opts.Control.DrainRequested(); drain {
		l.pos.status = statusDraining
		return false, nil
	}
	l.view.emitTasks(l.pos.tasks.order...)
	for _, t := range l.pos.tasks.order {
		if len(t.writes) > 0 {
			l.view.emitWrites(t, t.writes, true)
		}
	}
	if h := l.run.g.opts.Hooks.StepStart; h != nil {
		l.run.g.guardHook("StepStart", func() { h(l.pos.info(), l.pos.tasks.namePerTask()) })
	}
	return true, nil
}

// prepare makes the tasks of the next superstep and shows the checkpoint they
// start from.
func (l *loop) prepare() error {
	tasks, err := l.pos.takeNext()
	if err != nil {
		return err
	}
	l.pos.tasks = tasks
	l.view.emitCheckpoint()
	return nil
}

// breaksAt reports whether one of tasks is at a breakpoint and a channel has moved since
// the last breakpoint was passed.
func (cp *liveCheckpoint) breaksAt(names []string, tasks *taskSet) bool {
	if len(names) == 0 {
		return false
	}
	passed := cp.seen[chInterrupt]
	moved := false
	for ch, v := range cp.versions {
		moved = moved || v.Compare(passed[ch]) > 0
	}
	if !moved {
		return false
	}
	all := slices.Contains(names, AllNodes)
	return slices.ContainsFunc(tasks.order, func(t *task) bool {
		return all && !t.hidden() || slices.Contains(names, t.name)
	})
}

// reapply gives finished tasks what they wrote before, so that they do not run
// again. A task that waits or failed gets nothing.
func (p *position) reapply(tasks ...*task) {
	var mine []pendingWrite
	for _, w := range p.pending {
		if slices.ContainsFunc(tasks, func(t *task) bool { return t.id == w.taskID }) {
			mine = append(mine, w)
		}
	}
	statuses, _ := readStatuses(mine)
	for _, t := range tasks {
		if s := statuses[t.id]; s != nil && s.finished() {
			t.writes = append(t.writes, s.output...)
			p.reapplied[t.id] = true
		}
	}
}

// resumeHandlers replaces tasks that failed in an earlier run by their error handlers.
func (p *position) resumeHandlers() {
	statuses, _ := readStatuses(p.pending)
	for _, w := range slices.Clone(p.pending) {
		t := p.tasks.get(w.taskID)
		if w.channel != chErrorSource || t == nil || t.node == nil || t.node.ErrorHandler == "" || len(t.writes) > 0 {
			continue
		}
		s := statuses[w.taskID]
		if s == nil || !s.failed {
			continue
		}
		t.writes = append(t.writes, write{chError, s.err})
		p.tasks.add(p.prep.handling(t, storedError(s.err)))
		p.reapply(p.tasks.order[len(p.tasks.order)-1])
	}
}

// afterTick ends a superstep. It applies the writes of all tasks and makes the new
// checkpoint.
func (l *loop) afterTick(ctx context.Context) error {
	l.saves.delta.forceAfterStep(l.pos.tasks, l.pos.reapplied)
	updated, err := l.pos.applier().apply(l.pos.tasks.asWrites())
	if err != nil {
		l.pos.ending = endRefused
		return err
	}
	l.pos.updated = updated
	l.view.emitUpdated(updated)
	if l.run.exits() {
		l.saves.delta.keepBack(l.pos.step, l.pos.pending, l.pos.tasks)
	}
	l.saves.items = append(l.saves.items, l.pos.itemPuts()...)
	clear(l.pos.pending) // nobody keeps the list
	l.pos.pending = l.pos.pending[:0]
	clear(l.pos.has)
	clear(l.pos.written) // its keys are tasks of the superstep that ended
	clear(l.pos.reapplied)
	l.pos.stepped = true
	if err := l.putCheckpoint(ctx, "loop"); err != nil {
		return err
	}
	if l.run.saver == nil && l.run.parent == nil {
		if err := l.saves.passItems(ctx); err != nil {
			return err
		}
	}
	if h := l.run.g.opts.Hooks.StepEnd; h != nil {
		l.run.g.guardHook("StepEnd", func() { h(l.pos.info()) })
	}
	if l.pos.cp.breaksAt(l.run.opts.InterruptAfter, l.pos.tasks) {
		l.pos.status = statusAfter
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
	if _, waits := err.(*InterruptError); waits && l.pos.entered() && ctx.Err() == nil { //nolint:errorlint // the loop's own
		err = alsoFailed(err, l.voidAnswer())
	}
	if l.run.exits() && l.saves.pipe != nil && l.pos.entered() && (!l.run.nested() || err != nil || l.run.stableNamespace()) {
		err = alsoFailed(err, l.storeAtExit(ctx))
	}
	err = alsoFailed(err, l.storeEnding(ctx, err))
	if err == nil && l.run.parent != nil {
		err = l.saves.passItems(ctx)
	}
	if l.saves.pipe != nil {
		err = alsoFailed(err, l.saves.settle(ctx))
	}
	// Questions are reported even if a sibling failed, but not if they may not have been
	// stored.
	if ctx.Err() == nil && !errors.Is(err, ErrPersist) {
		for _, report := range l.view.held {
			report()
		}
	}
	if in, ok := err.(*InterruptError); ok && !l.run.nested() { //nolint:errorlint // the loop's own, not one a node wrapped
		err = alsoFailed(err, l.reportInterrupt(in))
	}
	return l.saves.closePipe(err)
}

// settle waits until all saves are durable; a cancelled run does not wait for ever.
func (s *saves) settle(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil // closePipe waits with a bound
	}
	return s.pipe.settle()
}

func (s *saves) closePipe(err error) error {
	if s.pipe == nil {
		return err
	}
	pipe := s.pipe
	s.pipe = nil
	return alsoFailed(err, pipe.close())
}

// alsoFailed is the outcome of a run that ends with err, when storing failed with saveErr.
// An interrupt that is not stored did not happen.
func alsoFailed(err, saveErr error) error {
	switch {
	case saveErr == nil || errors.Is(err, saveErr):
		return err
	case err == nil || isBubble(err):
		return saveErr
	}
	return fmt.Errorf("%w; and %w", err, saveErr)
}

// stableNamespace reports whether no part of the namespace names a task. Then the graph keeps
// its history across calls.
func (r *runConfig) stableNamespace() bool {
	return !slices.ContainsFunc(splitNS(r.ns), func(p string) bool { return slices.Contains([]byte(p), nsEnd[0]) })
}

// reportInterrupt shows the state with what finished siblings wrote, and the breakpoint if
// no task raised the interrupt. If their writes conflict the run ends with that error, but
// the interrupt is stored all the same.
func (l *loop) reportInterrupt(in *InterruptError) error {
	l.view.waiting = in.Interrupts
	if h := l.run.g.opts.Hooks.Interrupt; h != nil {
		l.run.g.guardHook("Interrupt", func() { h(l.pos.info(), in.Interrupts) })
	}
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

// storeAtExit stores what an Exit run kept back: writes to delta channels, the
// last checkpoint, and what the unfinished superstep's tasks wrote.
func (l *loop) storeAtExit(ctx context.Context) error {
	if err := l.storeExitDeltas(); err != nil {
		return err
	}
	if l.pos.cp.id != l.pos.savedID {
		if err := l.storeCheckpoint(ctx, countersOf(l.pos.md), true); err != nil {
			return err
		}
	}
	byTask := map[string][]write{}
	var order []string
	for _, w := range l.pos.pending {
		if !l.pos.written[w.taskID] || w.token != nil && w.token.spent() {
			continue
		}
		if _, ok := byTask[w.taskID]; !ok {
			order = append(order, w.taskID)
		}
		byTask[w.taskID] = append(byTask[w.taskID], write{w.channel, w.value})
	}
	for _, id := range order {
		path, node := l.pos.tasks.get(id).placed()
		encoded, err := l.saves.enc.encodeWrites(node, byTask[id])
		if err != nil {
			return err
		}
		if len(encoded) > 0 {
			l.saves.submitWrites(node, l.pos.here(), encoded, id, path)
		}
	}
	return nil
}
