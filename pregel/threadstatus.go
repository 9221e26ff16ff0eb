package pregel

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// threadStatus finds out how far a thread has come, from the newest checkpoint of a namespace and its
// pending writes.
type threadStatus struct {
	threadState // channels are as the checkpoint has them
	g           *Graph
	s           saver.Saver
	// Breakpoints, for a checkpoint without a note.
	before, after []string
	waits         *waitsReached // nil: the pending writes have their records
	given         answer.Given  // of the outermost graph
}

// progress says how far a thread has come.
type progress struct {
	status saver.Status
	// next are the nodes that an unfinished thread has left to run, each once; none if only
	// the checkpoint that ends their superstep is missing. missing are those that the graph
	// does not have, whether or not they ended.
	next, missing []string
	// waits are those that tasks have stored, the earliest first. due: one of them is over.
	waits []Wait
	due   bool
	// copied: the waits are those of a thread of which this one is a copy; see waitsReached.isCopied.
	copied bool
	// working: a question has an answer in force.
	working bool
}

// progress returns how far the thread has come. Unlike rules.StatusOf it knows the graph: it needs no
// note, and finds breakpoints at which a graph inside stopped.
func (x *threadStatus) progress(ctx context.Context) (progress, error) {
	if n := x.noted; n != nil && len(n.Next) == 0 && len(x.pending) == 0 {
		return progress{status: saver.StatusDone}, nil
	}
	prep, err := x.preparer()
	if err != nil {
		return progress{}, err
	}
	tasks, err := prep.next(nil)
	if err != nil {
		return progress{}, err
	}
	var missing []string
	if !x.g.opts.LangGraph {
		missing = x.left(x.g)
	}
	if len(tasks.order) == 0 && len(missing) == 0 {
		return progress{status: saver.StatusDone}, nil
	}
	statuses, _ := answer.Statuses(x.pending)
	answered := !x.given.Recorded() && slices.ContainsFunc(answer.Unspent(x.pending), func(w answer.Write) bool {
		return w.TaskID == nullTaskID && w.Channel == chResume && w.Value != nil
	})
	asks, cut, working, failed := false, false, false, refusedBefore(x.cp.id, x.pending)
	var open []Interrupt
	left := &taskSet{}
	for _, t := range tasks.order {
		s := x.outcome(prep, t, statuses)
		if s != nil && s.Finished {
			continue
		}
		left.order = append(left.order, t)
		if s == nil {
			cut = true
			continue
		}
		asked := s.Waiting(t.ns, prep.answers.Taken(t.id))
		waiting := x.given.Unanswered(asked)
		working = working || len(waiting) < len(asked) && !s.Failed
		open = append(open, waiting...)
		asks = asks || len(answer.WithoutWaits(waiting)) > 0
		failed = failed || s.Failed
	}
	sleeps := waitsOf(open)
	reached := x.waits
	if reached == nil {
		_, found := takeWaits(slices.Clone(x.pending))
		reached = &found
	}
	due, err := x.g.anyReady(ctx, x.place.ThreadID, sleeps, reached)
	if err != nil {
		return progress{}, err
	}
	copied := len(sleeps) > 0 && reached.isCopied(x.place.ThreadID)
	switch stop := x.stopped(tasks); {
	// Where an answer has not been taken, or a task has been cut off, the run that would go on is not over.
	case asks && !answered && !working, len(sleeps) > 0 && !cut && !asks:
		return progress{status: saver.StatusWaiting, waits: sleeps, due: due, copied: copied}, nil
	case failed:
		return progress{status: saver.StatusFailed}, nil
	case stop == saver.StopBreakpoint:
		return progress{status: saver.StatusWaiting}, nil
	case stop == saver.StopSteps:
		return progress{status: saver.StatusFailed}, nil
	}
	if inside, err := x.stoppedInside(ctx, tasks, statuses); err != nil || inside {
		return progress{status: saver.StatusWaiting}, err
	}
	return progress{status: saver.StatusUnfinished, next: append(left.names(), missing...), missing: missing, waits: sleeps, due: due, copied: copied, working: working}, nil
}

// preparer prepares the tasks with which a run with nil input would begin. It applies a stored
// Command, which may have steered the thread elsewhere.
func (x *threadStatus) preparer() (*preparer, error) {
	cp, set := x.cp, x.set
	if null := nullTask(slices.DeleteFunc(slices.Clone(x.pending), func(w answer.Write) bool { return w.Channel == chResume })); null != nil {
		cp, set = cp.clone(), set.copy()
		next := func(v saver.Version) (saver.Version, error) { return x.s.NextVersion(v, "") }
		a := &applier{cp: cp, set: set, triggers: x.g.triggers, next: next}
		if _, err := a.apply(null); err != nil {
			return nil, err
		}
	}
	return x.g.snapshotPreparer(cp, set, x.place.Namespace, x.pending, stepOf(x.md)+1), nil
}

// outcome is the recorded status of t, or of the error handler that took over from it.
func (x *threadStatus) outcome(prep *preparer, t *task, statuses map[string]*answer.Status) *answer.Status {
	s := statuses[t.id]
	if s == nil || s.Finished || !s.Failed || t.node == nil || t.node.ErrorHandler == "" {
		return s
	}
	if slices.ContainsFunc(x.pending, func(w answer.Write) bool { return w.TaskID == t.id && w.Channel == chErrorSource }) {
		return statuses[prep.handling(t, storedError(s.Err)).id]
	}
	return s
}

// stopped is why the last run stopped at the checkpoint, if nothing was written since.
func (x *threadStatus) stopped(tasks *taskSet) saver.Stop {
	switch {
	case len(x.pending) > 0:
		return saver.StopNone
	case x.noted != nil:
		return x.noted.Stop
	case x.md.Source() == "update":
		return saver.StopBreakpoint
	}
	if x.cp.breaksAt(x.before, tasks) || x.cp.breaksAt(x.after, x.ranLast()) {
		return saver.StopBreakpoint
	}
	return saver.StopNone
}

// ranLast are tasks of the nodes that ran since the last breakpoint was passed. If one of these
// nodes has a breakpoint, it ran last, because otherwise the run would have stopped earlier.
func (x *threadStatus) ranLast() *taskSet {
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
func (x *threadStatus) stoppedInside(ctx context.Context, tasks *taskSet, statuses map[string]*answer.Status) (bool, error) {
	at := x.place
	if x.noted == nil {
		for _, t := range tasks.order {
			sub := x.g.subgraphOf(t.name)
			if s := statuses[t.id]; sub == nil || s != nil && s.Finished {
				continue
			}
			state, err := sub.stateAt(ctx, x.s, saver.Config{ThreadID: at.ThreadID, Namespace: sub.ownNamespace(t.ns)}, x.given, false)
			if err != nil || state.Status == saver.StatusWaiting || state.Status == saver.StatusSleeping {
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
		if tup.Checkpoint.ID <= x.cp.id { // checkpoints of graphs inside are newer
			break
		}
		ns := tup.Config.Namespace
		if parentsOf(tup.Metadata)[at.Namespace] != x.cp.id || looked[ns] {
			continue
		}
		looked[ns] = true
		if tup.Note != nil && tup.Note.Stop == saver.StopBreakpoint && len(tup.PendingWrites) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// threadStatus returns the status of the thread as the loop found it. It must not be called after the
// input was taken.
func (p *position) threadStatus() *threadStatus {
	return &threadStatus{threadState: p.threadState, g: p.run.g, s: p.run.saver, waits: &p.waits, given: p.given, before: p.run.opts.InterruptBefore,
		after: p.run.opts.InterruptAfter}
}

// atBreakpoint reports whether the thread waits although nobody asks: at a breakpoint of
// this graph or of one inside. A checkpoint of another program does not say. It counts as
// one if something is left to run and no task failed.
func (p *position) atBreakpoint(ctx context.Context) (bool, error) {
	if p.noted == nil && !slices.ContainsFunc(p.pending, func(w answer.Write) bool { return w.TaskID != nullTaskID }) {
		left, err := p.hasWork()
		return left && err == nil, nil
	}
	how, err := p.threadStatus().progress(ctx)
	return how.status == saver.StatusWaiting && len(how.waits) == 0, err
}
