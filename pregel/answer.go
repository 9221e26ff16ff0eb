package pregel

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// answerUse is what becomes of the Resume of a Command.
type answerUse int

const (
	answerNone  answerUse = iota // the Command has none
	answerOne                    // it answers the question that waits
	answerByID                   // each task takes its own by the id of its question
	answerSpent                  // nobody gets it: it passes a breakpoint, or was given before
)

// answerFacts are the facts about an answer that decide what becomes of it.
type answerFacts struct {
	// byID: the answer is a map by the ids of questions. empty: the map is empty.
	byID, empty bool
	// steers: the Command also has an Update or a Goto.
	steers bool
	// old: the questions are those of a checkpoint that the thread has moved past. The
	// answer is accepted as in LangGraph, because they were answered before.
	old bool
	// waiting are the ids of the questions that wait, sorted. unknown are the ids in the
	// answer that nobody asked.
	waiting, unknown []string
	// left: something is left to run. given: the tasks were given this answer before.
	// atBreakpoint: the thread waits although nobody asks. They are set only if no
	// question waits.
	left, given, atBreakpoint bool
}

// judge decides what becomes of a Command's answer. An answer is for a question that waits
// in what is stored. Any other answer is refused before anything is stored, with two
// exceptions that do no harm and are given to nobody: an answer at a breakpoint, and one
// that the tasks of this superstep already have. The second is what callers send who were
// not told that their answer arrived.
func (f *facts) judge(resumes bool) (answerUse, error) {
	a := &f.answer
	use := answerOne
	if a.byID {
		use = answerByID
	}
	loose := f.ways.langGraph || a.old
	switch {
	case f.given != givenAnswer:
		return answerNone, nil
	case f.noSaver:
		return answerNone, fmt.Errorf("resume: %w", ErrNoSaver)
	case !resumes, loose && len(a.waiting) == 0 && !a.steers && !a.left:
		return answerNone, fmt.Errorf("thread %q: %w", f.thread, ErrNoInterrupt)
	case loose && a.byID:
		return use, nil
	case !loose && a.byID && len(a.waiting) > 0 && (a.empty || len(a.unknown) > 0):
		return answerNone, &UnknownInterruptError{Unknown: a.unknown, Pending: a.waiting}
	case len(a.waiting) > 1 && !a.byID:
		return answerNone, &AmbiguousResumeError{Pending: a.waiting}
	case loose || len(a.waiting) > 0:
		return use, nil
	case a.byID && !a.empty && len(a.unknown) == 0, a.given, a.atBreakpoint:
		return answerSpent, nil
	}
	if !a.left {
		return answerNone, fmt.Errorf("thread %q: %w", f.thread, ErrNoInterrupt)
	}
	return answerNone, fmt.Errorf("thread %q: %w; without an answer the run goes on with what is left", f.thread, ErrNoInterrupt)
}

// answerFacts looks up what decides about the answer the run was given.
func (l *loop) answerFacts(ctx context.Context, from origin) (a answerFacts, err error) {
	cmd, _ := commandOf(l.input)
	ids, byID := answersByID(cmd.Resume)
	a = answerFacts{byID: byID, empty: len(ids) == 0, steers: cmd.Goto != nil || cmd.Update != nil}
	if !l.run.ways.langGraph {
		var asked map[string]bool
		if a.waiting, asked, err = l.pos.questions(); err != nil {
			return a, err
		}
		a.old = from == originOld && len(asked) > 0
		a.unknown = slices.DeleteFunc(slices.Sorted(maps.Keys(ids)), func(id string) bool { return asked[id] })
	}
	if l.run.ways.langGraph || a.old {
		if a.waiting = l.pos.pendingInterrupts(); len(a.waiting) == 0 && !a.steers {
			a.left, err = l.pos.hasWork()
		}
		return a, err
	}
	if len(a.waiting) == 0 && (!byID || a.empty) {
		if a.given = !byID && l.gaveBefore(cmd.Resume); !a.given {
			a.atBreakpoint, err = l.atBreakpoint(ctx)
		}
	}
	return a, err
}

// answersByID reads an answer as a map by interrupt id, if it is one.
func answersByID(answer any) (byID map[string]any, ok bool) {
	byID, ok = answer.(map[string]any)
	for id := range byID {
		ok = ok && isInterruptID(id)
	}
	return byID, ok
}

// questions returns the ids of the interrupts that wait, sorted, and of all interrupts that
// tasks of this superstep have stored.
func (p *position) questions() (waiting []string, asked map[string]bool, err error) {
	asked = map[string]bool{}
	statuses, order := readStatuses(p.pending)
	resume := indexPending(p.pending).resume
	var tasks *taskSet
	if len(resume) > 0 {
		if tasks, err = p.preparer().next(p.updated); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range order {
		ns, answers := "", []any(nil)
		if t := tasks.get(id); t != nil {
			ns, answers = t.ns, resume[id]
		}
		for n := range answers {
			asked[interruptID(ns, n)] = true
		}
		for _, in := range statuses[id].interrupts {
			asked[in.ID] = true
		}
		for _, in := range statuses[id].waiting(ns, answers) {
			if !slices.Contains(waiting, in.ID) {
				waiting = append(waiting, in.ID)
			}
		}
	}
	slices.Sort(waiting)
	return waiting, asked, nil
}

// gaveBefore reports whether answer is the one that is stored for this superstep.
func (l *loop) gaveBefore(answer any) bool {
	given, err := l.saves.enc.encode("", chResume, answer)
	if err != nil {
		return false
	}
	for _, w := range l.pos.pending {
		if w.token == nil {
			continue
		}
		stored, err := l.saves.enc.encode("", chResume, w.value)
		if err == nil && (l.saves.enc.codec != nil && sameBytes(given, stored) || l.saves.enc.codec == nil && containsDeep([]any{answer}, w.value)) {
			return true
		}
	}
	return false
}

func sameBytes(a, b saver.Value) bool {
	x, errA := a.Typed()
	y, errB := b.Typed()
	return errA == nil && errB == nil && x.Kind == y.Kind && bytes.Equal(x.Data, y.Data)
}

// atBreakpoint reports whether the thread waits although nobody asks: at a breakpoint of
// this graph or of one inside. A checkpoint of another program does not say. It counts as
// one if something is left to run and no task failed.
func (l *loop) atBreakpoint(ctx context.Context) (bool, error) {
	if l.pos.noted == nil && !slices.ContainsFunc(l.pos.pending, func(w pendingWrite) bool { return w.taskID != nullTaskID }) {
		left, err := l.pos.hasWork()
		return left && err == nil, nil
	}
	how, err := l.pos.threadStatus().progress(ctx)
	return how.status == saver.StatusWaiting, err
}

// voidAnswer takes back an answer that nobody took, once all tasks wait. The question it
// was meant for was not asked again, and what is asked instead waits for an answer of its
// own.
func (l *loop) voidAnswer() error {
	if l.run.nested() || l.run.saver == nil || l.run.ways.langGraph {
		return nil
	}
	i := slices.IndexFunc(l.pos.pending, func(w pendingWrite) bool { return w.token != nil && w.token.value != nil && !w.token.spent() })
	if i < 0 {
		return nil
	}
	if l.run.exits() && l.pos.written[nullTaskID] { // it is not stored
		l.pos.pending = slices.Delete(l.pos.pending, i, i+1)
		return nil
	}
	l.pos.ending = endStopped
	return l.putWrites(nil, nullTaskID, []write{{chResume, nil}})
}

// guardAnswers keeps the answers that an earlier run stored from being given twice. A graph
// inside records an answer that its task took in its own namespace, where dropSpentAnswer
// does not see it. LangGraph gives such an answer again, to whatever the graph inside asks
// next.
func (l *loop) guardAnswers(ctx context.Context) {
	for _, w := range l.pos.pending {
		if w.token == nil || l.run.saver == nil {
			continue
		}
		w.token.takenBelow = func(value any) bool { return l.answeredBelow(ctx, value) }
	}
}

// answeredBelow reports whether a task of a graph inside this superstep took value as an
// answer. If that cannot be read the answer is not given, and the task asks again.
func (l *loop) answeredBelow(ctx context.Context, value any) bool {
	at := l.pos.place
	for tup, err := range l.run.saver.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
		if err != nil {
			return true
		}
		if tup.Config.Namespace == l.run.ns || parentsOf(tup.Metadata)[l.run.ns] != at.CheckpointID {
			continue
		}
		for _, w := range tup.PendingWrites {
			if w.Channel != chResume || w.TaskID == nullTaskID {
				continue
			}
			taken, err := w.Value.Any()
			if err != nil || containsDeep(resumeList(taken), value) {
				return true
			}
		}
	}
	return false
}
