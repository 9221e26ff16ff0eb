package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
)

// standing is the newest checkpoint of a namespace and what was written against it:
// all that tells how far a thread has come.
type standing struct {
	g    *Graph
	s    saver.Saver
	at   saver.Config
	md   saver.Metadata
	note *saver.Note // nil if it has none
	cp   *liveCheckpoint
	// set are the channels as the checkpoint has them, without what was written since.
	set     *channelSet
	pending []pendingWrite
	// Breakpoints, for a checkpoint without a note.
	before, after []string
}

// status tells how far the thread has come, and which nodes are left if it is
// unfinished. It knows more than rules.StatusOf, which knows no graph: it needs no
// note, and it finds breakpoints at which a graph inside stopped.
func (x *standing) status(ctx context.Context) (status saver.Status, next []string, err error) {
	if n := x.note; n != nil && len(n.Next) == 0 && len(x.pending) == 0 {
		return saver.StatusDone, nil, nil
	}
	prep, err := x.preparer()
	if err != nil {
		return "", nil, err
	}
	tasks, err := prep.next(nil)
	if err != nil {
		return "", nil, err
	}
	if len(tasks.order) == 0 {
		return saver.StatusDone, nil, nil
	}
	statuses, _ := readStatuses(x.pending)
	answered := slices.ContainsFunc(dropSpentAnswer(x.pending), func(w pendingWrite) bool {
		return w.taskID == nullTaskID && w.channel == chResume && w.value != nil
	})
	waits, failed := false, refusedBefore(x.cp.id, x.pending)
	for _, t := range tasks.order {
		s := x.outcome(prep, t, statuses)
		if s == nil || s.finished() {
			continue
		}
		waits = waits || len(s.waiting(t.ns, prep.pending.resume[t.id])) > 0 && !answered
		failed = failed || s.failed
	}
	switch stop := x.stopped(tasks); {
	case waits:
		return saver.StatusWaiting, nil, nil
	case failed:
		return saver.StatusFailed, nil, nil
	case stop == saver.StopBreakpoint:
		return saver.StatusWaiting, nil, nil
	case stop == saver.StopSteps:
		return saver.StatusFailed, nil, nil
	}
	if inside, err := x.stoppedInside(ctx, tasks, statuses); err != nil || inside {
		return saver.StatusWaiting, nil, err
	}
	return saver.StatusUnfinished, tasks.names(), nil
}

// preparer makes the tasks that a run with nil would begin with: a Command that was
// stored may have steered the thread elsewhere.
func (x *standing) preparer() (*preparer, error) {
	step, ok := x.md.Step()
	if !ok {
		step = -1
	}
	var null []write
	for _, w := range x.pending {
		if w.taskID == nullTaskID && w.channel != chResume {
			null = append(null, write{w.channel, w.value})
		}
	}
	cp, set := x.cp, x.set
	if len(null) > 0 {
		cp, set = cp.clone(), set.copy()
		next := func(v saver.Version) (saver.Version, error) { return x.s.NextVersion(v, "") }
		a := &applier{cp: cp, set: set, triggers: x.g.triggers, next: next}
		if _, err := a.apply([]taskWrites{{path: Path{}.String(), node: Input, writes: null}}); err != nil {
			return nil, err
		}
	}
	return x.g.snapshotPreparer(cp, set, x.at.Namespace, x.pending, step+1), nil
}

// outcome is what is recorded of t, or of the error handler that took over from it.
func (x *standing) outcome(prep *preparer, t *task, statuses map[string]*taskStatus) *taskStatus {
	s := statuses[t.id]
	if s == nil || s.finished() || !s.failed || t.node == nil || t.node.ErrorHandler == "" {
		return s
	}
	if slices.ContainsFunc(x.pending, func(w pendingWrite) bool { return w.taskID == t.id && w.channel == chErrorSource }) {
		return statuses[prep.handling(t, storedError(s.err)).id]
	}
	return s
}

// stopped is why the run before stopped at the checkpoint, if nothing was written
// since.
func (x *standing) stopped(tasks *taskSet) saver.Stop {
	switch {
	case len(x.pending) > 0:
		return saver.StopNone
	case x.note != nil:
		return x.note.Stop
	case x.md.Source() == "update":
		return saver.StopBreakpoint
	}
	at := &loop{cp: x.cp}
	if at.breaksAt(x.before, tasks) || at.breaksAt(x.after, x.ranLast()) {
		return saver.StopBreakpoint
	}
	return saver.StopNone
}

// ranLast are tasks of the nodes that ran since the last breakpoint was passed. One
// of them that is a breakpoint ended last: the run would have stopped there before.
func (x *standing) ranLast() *taskSet {
	passed := x.cp.seen[chInterrupt]
	ran := &taskSet{}
	for name, seen := range x.cp.seen {
		for ch, v := range seen {
			if n := x.g.nodes[name]; n != nil && v.Compare(passed[ch]) > 0 {
				ran.order = append(ran.order, &task{node: n, name: name})
				break
			}
		}
	}
	return ran
}

// stoppedInside reports whether a graph inside a task that has not ended stopped at a
// breakpoint. That leaves nothing behind in the graph around.
func (x *standing) stoppedInside(ctx context.Context, tasks *taskSet, statuses map[string]*taskStatus) (bool, error) {
	at := x.at
	if x.note == nil {
		for _, t := range tasks.order {
			sub := x.g.subgraphOf(t.name)
			if s := statuses[t.id]; sub == nil || s != nil && s.finished() {
				continue
			}
			state, err := sub.stateAt(ctx, x.s, saver.Config{ThreadID: at.ThreadID, Namespace: sub.ownNamespace(t.ns)}, false)
			if err != nil || state.Status == saver.StatusWaiting {
				return true, err
			}
		}
		return false, nil
	}
	looked := map[string]bool{}
	for tup, err := range x.s.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
		if err != nil {
			return false, &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
		}
		if tup.Checkpoint.ID <= x.cp.id { // what is inside is newer
			break
		}
		parents, _ := tup.Metadata["parents"].(map[string]any)
		ns := tup.Config.Namespace
		if parents[at.Namespace] != x.cp.id || looked[ns] {
			continue
		}
		looked[ns] = true
		if tup.Note != nil && tup.Note.Stop == saver.StopBreakpoint && len(tup.PendingWrites) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// guardUnfinished keeps new input from discarding what an earlier run left. Input
// that is refused anyway is refused later, and nothing is finished for it.
func (l *loop) guardUnfinished(ctx context.Context) error {
	way := l.ways().unfinished
	if way == DiscardUnfinished || l.nested() || !l.hadParent || !l.loadedLatest {
		return nil
	}
	if writes, err := l.g.inputWrites(l.set, l.input); err != nil || len(writes) == 0 {
		return nil //nolint:nilerr // takeInput says so
	}
	status, next, err := l.standing().status(ctx)
	if err != nil || status != saver.StatusUnfinished {
		return err
	}
	return &UnfinishedError{ThreadID: l.cfg.ThreadID, Next: next, runID: l.md.RunID(), first: way == FinishFirst}
}

// standing is where the loop found the thread; before it takes its input.
func (l *loop) standing() *standing {
	return &standing{g: l.g, s: l.saver, at: l.place, md: l.md, note: l.noted, cp: l.cp, set: l.set, pending: l.pending,
		before: l.interruptBefore(), after: l.interruptAfter()}
}

// finishFirst runs new input with take, and before it what an earlier run left on the
// thread, if take finds something. What it left is run under the RunID it had, and
// nobody sees its events: the caller asked for a run of the input.
func (g *Graph) finishFirst(ctx context.Context, cfg Config, again bool, take func(cfg Config, again bool) error) error {
	err := take(cfg, again)
	var left *UnfinishedError
	if !errors.As(err, &left) || !left.first {
		return err
	}
	e := &UnfinishedError{ThreadID: left.ThreadID, Next: left.Next}
	earlier := cfg
	earlier.RunID = left.runID
	l, err := g.goOn(ctx, earlier, again, nil)
	switch {
	case err != nil:
		e.Err = err
		return e
	case l.status != statusDone:
		e.Stopped, e.Interrupts = true, l.waiting
		return e
	}
	cfg.Unfinished = RefuseUnfinished // somebody else left something in the meantime
	return take(cfg, again)
}

// goOn runs what is left on a thread, as Invoke with nil does, and shows nobody its
// events. admit, if not nil, is asked once the thread is loaded and before anything
// runs; again says that the run lost the thread before, and waits for it now.
func (g *Graph) goOn(ctx context.Context, cfg Config, again bool, admit func(context.Context, *loop) error) (*loop, error) {
	l, err := g.newLoop(ctx, nil, cfg)
	if err != nil {
		return nil, err
	}
	l.admit, l.owned.again = admit, again
	l.setStream(&stream{put: func(Event) {}}, nil)
	return l, l.runAll(ctx)
}
