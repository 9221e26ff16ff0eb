package pregel

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// enter loads the checkpoint with which the run begins.
func (l *loop) enter(ctx context.Context) error {
	if err := l.saves.own(ctx, l.pos.addressed()); err != nil {
		return err
	}
	if around := l.run.parent; around != nil && l.run.saver != nil && around.task.call != nil {
		// The namespace of this graph is below that call.
		step := around.step.Get()
		if err := around.recordCall(false); err != nil {
			return err
		}
		if err := step.pipe.flush(); err != nil {
			return err
		}
	}
	l.saves.open(ctx)
	saved, err := l.pos.find(ctx)
	if err == nil {
		err = l.saves.ownHead(saved, l.pos.from)
	}
	if err == nil {
		err = l.pos.load(ctx, saved)
	}
	return err
}

// begin decides how the run begins, and makes the state from which the first superstep starts.
func (l *loop) begin(ctx context.Context) error {
	l.saves.delta.init(l.run.g, &l.pos.place, l.pos.pending)
	l.saves.delta.forceAll(maps.Keys(l.pos.renamed))
	if l.run.was != "" { // their history is elsewhere
		l.saves.delta.forceAll(maps.Keys(l.pos.cp.versions))
	}
	if err := l.decide(ctx); err != nil {
		return err
	}
	if err := l.countRecovery(ctx); err != nil {
		return err
	}
	if err := l.settlePending(); err != nil {
		return err
	}
	l.lookAtWaits()
	e := &l.pos.entry
	var bound *saver.Config
	if e.kind == entryFork && e.branch {
		bound = l.pos.prev
	}
	var err error
	if e.kind.resumes() {
		err = l.resume(ctx)
	} else {
		err = l.takeInput(ctx)
	}
	if err != nil {
		return err
	}
	if !l.run.nested() && e.kind.travels() {
		l.run.replay = l.pos.replayFrom(bound)
	}
	if e.answer == answer.None || e.answer == answer.Spent {
		at := l.pos.place
		at.Namespace = l.run.ns
		answer.Guard(ctx, l.pos.pending, l.run.saver, at)
	}
	l.pos.stopAs(statusPending)
	h := l.run.hooks
	h.guard("Resume", h.Resume != nil && e.kind.resumes(), func() { h.Resume(l.pos.info()) })
	return nil
}

// decide finds out how the run begins.
func (l *loop) decide(ctx context.Context) error {
	var f facts
	l.collect(&f)
	if f.kind().travels() {
		l.pos.drop(chResume)
	}
	var err error
	if f.looksBack() {
		if f.left, err = l.pos.threadStatus().progress(ctx); err != nil {
			return err
		}
	}
	if f.input == inputAnswer && f.kind().resumes() && l.run.saver != nil {
		if f.answer, err = l.answerFacts(ctx, f.from); err != nil {
			return err
		}
	}
	l.pos.enterAs(f.entry())
	l.run.answers = l.run.answers || f.input == inputAnswer && !l.run.policy.langGraph
	if l.recovery != nil {
		l.recovery.progress = f.left
	}
	return l.pos.entry.err
}

// collect collects the facts that are cheap to find out.
func (l *loop) collect(f *facts) {
	cmd, isCommand := commandOf(l.input)
	source := l.pos.md.Source()
	*f = facts{thread: l.run.thread, policy: l.run.policy, input: inputValues, from: l.pos.from, nested: l.run.nested(), fromParent: l.run.fromParent,
		noSaver: l.run.saver == nil, empty: len(l.pos.cp.versions) == 0, branch: (source == "update" || source == "fork") && l.run.was == "",
		sameRun: !l.run.nested() && l.run.opts.RunID != "" && l.run.opts.RunID == l.pos.md.RunID(), replays: l.run.replay != nil && l.run.saver != nil,
		answers: l.run.answers && l.run.toldAt == ""}
	switch {
	case l.recovery != nil:
		f.input = inputRecovery
	case l.input == nil:
		f.input = inputNil
	case isCommand && cmd.Resume != nil:
		f.input = inputAnswer
	case isCommand:
		f.input = inputCommand
	}
	if !l.run.policy.langGraph {
		f.missing = l.pos.left(l.run.g)
	}
	if n := l.pos.noted; n != nil && n.Graph != "" && l.run.g.name != "" && n.Graph != l.run.g.name {
		f.leftBy = n.Graph
	}
	_, mapped := l.run.cpMap[l.run.ns]
	f.mapped = (mapped || l.run.was != "") && f.nested
	if f.nested && f.from.found() && !f.empty {
		f.spent = f.fromParent == fromParentResume && l.input != nil && l.pos.spentState()
		f.answered = l.pos.answeredSince()
	}
	if f.fits = true; f.looksBack() && f.input != inputRecovery {
		writes, err := l.inputWrites()
		if f.fits = err == nil && len(writes) > 0; f.fits {
			l.pos.keepFitting(writes)
		}
	}
}

// answerFacts looks up the facts about the answer that the run was given.
func (l *loop) answerFacts(ctx context.Context, from origin) (a answer.Facts, err error) {
	cmd, _ := commandOf(l.input)
	ids, byID := answer.ByID(cmd.Resume)
	if !byID { // an answer that is a map of something else
		ids = nil
	}
	a = answer.Facts{ByID: byID, Empty: len(ids) == 0, Old: from == originOld && !l.run.policy.langGraph}
	if l.run.policy.langGraph {
		a.Waiting = answer.Unended(l.pos.pending)
		return a, nil
	}
	if inside, err := l.movedPastInside(ctx); err != nil || inside {
		a.Old = true
		return a, err
	}
	var asked map[string]bool
	var answered map[string]any
	if a.Waiting, asked, answered, err = answer.Questions(l.pos.pending, l.pos.taskNamespaces); err != nil {
		return a, err
	}
	if err := l.questionsInside(ctx, &a, ids, answered); err != nil {
		return a, err
	}
	inForce := l.pos.given.Answers
	if a.Old { // those of questions whose tasks have not ended
		open := answer.Unended(l.pos.pending)
		inForce = l.pos.given.With(answered)
		maps.DeleteFunc(inForce, func(id string, _ any) bool { return !slices.Contains(open, id) })
	}
	maps.Copy(answered, inForce)
	a.Waiting = slices.DeleteFunc(a.Waiting, func(id string) bool { _, ok := inForce[id]; return ok })
	a.Given = !byID && slices.ContainsFunc(slices.Collect(maps.Values(inForce)), func(v any) bool { return l.isSameAnswer(v, cmd.Resume) })
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		v, known := answered[id]
		_, works := inForce[id]
		switch {
		case !known && !asked[id]:
			a.Unknown = append(a.Unknown, id)
		case !slices.Contains(a.Waiting, id) && !(known && (works || !a.Old) && l.isSameAnswer(v, ids[id])):
			a.Answered = append(a.Answered, id)
		}
	}
	if a.Old && len(ids) > 0 && len(a.Waiting)+len(a.Unknown)+len(a.Answered) == 0 {
		a.Given = true
	}
	if len(a.Waiting) == 0 && !a.Old && from.found() && !l.run.nested() {
		work, err := l.pos.hasWork()
		a.Finished = !work && err == nil
	}
	if len(a.Waiting) == 0 && (!byID || a.Empty) {
		if a.Given = a.Given || !a.Old && !byID && l.gaveBefore(cmd.Resume); !a.Given && !(a.Old && len(asked) > 0) {
			a.AtBreakpoint, err = l.pos.atBreakpoint(ctx)
			if !byID {
				a.Answered = slices.Sorted(maps.Keys(inForce))
			}
		}
	}
	return a, err
}

// movedPastInside reports whether a graph inside has moved past the checkpoint that the run was told for it, or
// has no such checkpoint.
func (l *loop) movedPastInside(ctx context.Context) (bool, error) {
	for ns, id := range l.run.cpMap {
		if !l.pos.inside(ns) {
			continue
		}
		newest, err := getTuple(ctx, l.run.saver, saver.Config{ThreadID: l.run.thread, Namespace: ns})
		if err != nil || newest == nil || newest.Checkpoint.ID != id {
			return true, err
		}
	}
	return false, nil
}

// questionsInside looks up what only graphs inside know: the answers to questions that the task around does
// not ask any more, and to those that a task asked which then failed. They do not wait. Nor do those that a graph
// inside asked before it moved on; it has done so only where the thread has, too.
func (l *loop) questionsInside(ctx context.Context, a *answer.Facts, ids, answered map[string]any) error {
	statuses, _ := answer.Statuses(l.pos.pending)
	var unsure []string
	for _, s := range statuses {
		for _, in := range s.Pending() {
			if s.Failed {
				unsure = append(unsure, in.ID)
			}
		}
	}
	for id := range ids {
		if _, known := answered[id]; !known && !slices.Contains(a.Waiting, id) {
			unsure = append(unsure, id)
		}
	}
	at := l.pos.place
	at.CheckpointID = l.pos.cp.id
	found, err := answer.Inside(ctx, l.run.saver, at, unsure)
	if err != nil {
		return &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
	}
	maps.Copy(answered, found)
	a.Waiting = slices.DeleteFunc(a.Waiting, func(id string) bool { _, ok := found[id]; return ok })
	if !a.Old || len(a.Waiting) == 0 {
		return nil
	}
	moved, err := answer.MovedPast(ctx, l.run.saver, at, a.Waiting)
	if err != nil {
		return &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
	}
	a.Waiting = slices.DeleteFunc(a.Waiting, func(id string) bool { return slices.Contains(moved, id) })
	return nil
}

// gaveBefore reports whether resume is the answer that is stored for this superstep.
func (l *loop) gaveBefore(resume any) bool {
	return answer.AnyGiven(l.pos.pending, func(v any) bool { return l.isSameAnswer(v, resume) })
}

// isSameAnswer reports whether two answers are stored alike.
func (l *loop) isSameAnswer(a, b any) bool {
	enc := &l.saves.enc
	x, errX := enc.encode("", chResume, a)
	y, errY := enc.encode("", chResume, b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// countRecovery counts a recovery that is about to begin, if the run is one. Like a save it may
// complete after the caller has left: a count that was cut off may or may not be stored, so it could
// not be taken back.
func (l *loop) countRecovery(ctx context.Context) error {
	r := l.recovery
	if r == nil || !l.pos.entry.kind.resumes() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing begins
	}
	r.at = l.pos.place
	n, err := l.run.g.countAttempt(l.saves.pipe.ctx, r.at, l.run.epoch)
	if err != nil {
		return err
	}
	if n -= l.pos.waits.before; n > r.attempts {
		return fmt.Errorf("thread %q: %w: %d", r.at.ThreadID, ErrGivenUp, r.attempts)
	}
	r.attempt = n
	return nil
}

// settlePending drops the pending writes that no longer count, and adds those of a Command.
func (l *loop) settlePending() error {
	e := &l.pos.entry
	if e.answer == answer.None || e.answer == answer.Spent {
		l.pos.dropSpent()
	}
	if e.kind == entryResume {
		l.saves.delta.found(l.pos.pending)
	} else {
		l.saves.delta.force(l.pos.pending)
	}
	carried, given, err := l.takeCommand()
	if err != nil {
		return err
	}
	if err := l.pos.applyNull(carried); err != nil {
		return err
	}
	record, err := l.recordAnswers()
	if err != nil {
		return err
	}
	var null *saveOp
	if len(given) > 0 {
		null = l.saves.writesOp("", l.pos.here(), given, nullTaskID, "")
	}
	ops := []*saveOp{record, null}
	if cmd, _ := commandOf(l.input); cmd.Update != nil || cmd.Goto != nil { // no answer is in force without them
		slices.Reverse(ops)
	}
	if record != nil && null != nil {
		ops[0].deferred = true // the sync of the second is for both
	}
	for _, op := range ops {
		if op != nil {
			l.saves.submit(op, false)
		}
	}
	return nil
}

// takeCommand prepares a Command's writes. A fork carries them over to its checkpoint;
// otherwise they are given to the checkpoint that the run starts from, and stored once the
// channels have taken them.
func (l *loop) takeCommand() (carried []answer.Write, given []saver.Write, err error) {
	cmd, ok := commandOf(l.input)
	if !ok {
		return nil, nil, nil
	}
	use := l.pos.entry.answer
	if use != answer.One {
		cmd.Resume = nil
	}
	writes, err := commandWrites(cmd)
	if err == nil && !l.run.nested() {
		err = l.run.g.refuseUnknown(cmd)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(writes) == 0 {
		if use == answer.None {
			err = fmt.Errorf("%w: the Command is empty", ErrEmptyInput)
		}
		return nil, nil, err
	}
	if l.pos.entry.kind == entryFork {
		l.run.g.nameWrites(writes)
		if err := l.saves.enc.writesAgain("", writes); err != nil {
			return nil, nil, err
		}
		for _, w := range writes {
			carried = append(carried, answer.New(nullTaskID, "", w.channel, w.value))
		}
		l.saves.delta.force(carried)
		return carried, nil, nil
	}
	if given, err = l.pos.record(&l.saves.enc, nil, nullTaskID, writes); err != nil {
		return nil, nil, err
	}
	if !l.pos.from.found() && !l.pos.entry.kind.resumes() && !l.run.policy.langGraph { // no checkpoint is stored that could have these writes
		l.saves.delta.force(l.pos.pending)
	}
	if l.run.exits() {
		l.saves.delta.keepCommand(writes)
	}
	return nil, given, nil
}

// resume continues the thread from its present checkpoint.
func (l *loop) resume(ctx context.Context) error {
	l.pos.passBreakpoint()
	if l.pos.entry.kind == entryFork {
		// The fork gives all tasks new ids, so what the old ones asked is not
		// pending here.
		l.pos.drop(chInterrupt)
		if err := l.pos.leave(); err != nil {
			return err
		}
		// A fork is no superstep, so its checkpoint names no updated channels.
		updated := l.pos.updated
		l.pos.applied(nil)
		if err := l.putCheckpoint(ctx, "fork"); err != nil {
			return err
		}
		l.pos.applied(updated)
		l.pos.forgetPrepared() // it was prepared without knowing what was updated
	}
	if err := l.keepTravel(); err != nil {
		return err
	}
	if l.pos.entry.kind == entryResume {
		l.pos.travelOn()
	}
	if err := l.goOnFromStop(); err != nil {
		return err
	}
	l.view.emitValues(nil)
	return nil
}

// goOnFromStop cancels the endStopped of an earlier run. Until the graph inside has stored
// something, a snapshot still shows the thread at its breakpoint. A list of threads shows
// that the run has begun, and Recover leaves it alone.
func (l *loop) goOnFromStop() error {
	if !l.pos.stopped || l.run.nested() || l.pos.entry.kind == entryFork || l.run.exits() || l.run.saver == nil {
		return nil
	}
	return l.saves.putEnding(l.pos.here(), endWentOn, "")
}

// takeInput begins with new input. It discards pending writes, and stores the input as a checkpoint.
func (l *loop) takeInput(ctx context.Context) error {
	writes, err := l.pos.takeFitting(), error(nil)
	if writes == nil {
		writes, err = l.inputWrites()
	}
	if err != nil {
		return err
	}
	if len(writes) == 0 {
		if l.run.nested() && l.pos.entry.toInside != fromParentNothing {
			return nil
		}
		if l.input == nil && l.run.thread != "" {
			return fmt.Errorf("thread %q has no checkpoint to go on from: %w", l.run.thread, ErrEmptyInput)
		}
		return fmt.Errorf("%w for %v", ErrEmptyInput, l.run.g.input)
	}
	l.run.g.nameWrites(writes)
	discarded, err := l.pos.preparer().next(l.pos.updated)
	if err != nil {
		return err
	}
	l.saves.delta.forceOverwritten(writes)
	tasks := append(discarded.asWrites(), inputTask(writes))
	updated, err := l.pos.applier().apply(tasks)
	if err != nil {
		return err
	}
	if l.pos.entry.kind == entryInput {
		if err := l.putSignalsBack(ctx); err != nil {
			return err
		}
	}
	// The items of the discarded superstep are discarded too, and what its bodies called.
	l.pos.drop(chItems)
	l.pos.calls.forget()
	if err := l.keepDeltaInput(writes); err != nil {
		return err
	}
	l.pos.applied(updated)
	return l.putCheckpoint(ctx, "input")
}

// inputWrites are the writes that the run's input stands for. Where a thread begins with a Command, settlePending
// has applied its update, and the first node goes where it says; LangGraph's applies the update again.
func (l *loop) inputWrites() ([]write, error) {
	input := l.input
	if !l.run.nested() {
		if err := l.run.g.refuseUnknown(l.input); err != nil {
			return nil, err
		}
	}
	if cmd, ok := commandOf(input); ok && l.run.g.spec.CheckInput != nil && !l.run.policy.langGraph {
		input = Command{Goto: cmd.Goto}
	}
	return l.run.g.inputWrites(l.pos.set, input)
}
