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

// judge says what becomes of a Command's answer, by what is stored: an answer is
// for a question that waits there. Any other is refused before anything is stored,
// but for two that do no harm and are given to nobody: one to a breakpoint, and one
// that the tasks of this superstep were given before, which is what a caller sends
// who was not told that it arrived.
func (l *loop) judge(ctx context.Context, cmd Command, resumes bool) (answerUse, error) {
	switch {
	case cmd.Resume == nil:
		return answerNone, nil
	case l.saver == nil:
		return answerNone, fmt.Errorf("resume: %w", ErrNoSaver)
	case !resumes:
		return answerNone, fmt.Errorf("thread %q: %w", l.cfg.ThreadID, ErrNoInterrupt)
	}
	answers, isMap := answersByID(cmd.Resume)
	if l.ways().anyAnswer {
		return l.judgeAny(cmd, isMap)
	}
	waiting, asked, err := l.questions()
	switch {
	case err != nil:
		return answerNone, err
	case l.superseded && len(asked) > 0:
		return l.judgeAny(cmd, isMap)
	case isMap && len(waiting) > 0:
		unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(answers)), func(id string) bool { return asked[id] })
		if len(unknown) > 0 || len(answers) == 0 {
			return answerNone, &UnknownInterruptError{Unknown: unknown, Pending: waiting}
		}
		return answerByID, nil
	case len(waiting) > 1:
		return answerNone, &AmbiguousResumeError{Pending: waiting}
	case len(waiting) == 1:
		return answerOne, nil
	case isMap && len(answers) > 0:
		for id := range answers {
			if !asked[id] {
				return answerNone, l.noInterrupt()
			}
		}
		return answerSpent, nil
	case !isMap && l.gaveBefore(cmd.Resume):
		return answerSpent, nil
	}
	stands, err := l.atBreakpoint(ctx)
	if err == nil && !stands {
		err = l.noInterrupt()
	}
	return answerSpent, err
}

// judgeAny is LangGraph's way, and that of an answer to an older checkpoint: an answer is refused only if several questions
// wait, or if nothing is left to run.
func (l *loop) judgeAny(cmd Command, isMap bool) (answerUse, error) {
	waiting := l.pendingInterrupts()
	if len(waiting) == 0 && cmd.Goto == nil && cmd.Update == nil {
		if err := l.checkUnfinished(); err != nil {
			return answerNone, err
		}
	}
	switch {
	case isMap:
		return answerByID, nil
	case len(waiting) > 1:
		return answerNone, &AmbiguousResumeError{Pending: waiting}
	}
	return answerOne, nil
}

func (l *loop) noInterrupt() error {
	return fmt.Errorf("thread %q: %w; nil input goes on with what is left to run", l.cfg.ThreadID, ErrNoInterrupt)
}

// checkUnfinished refuses an answer to a thread that has nothing left to run.
func (l *loop) checkUnfinished() error {
	for _, w := range l.pending {
		if w.taskID == nullTaskID { // an earlier Command may start something
			return nil
		}
	}
	tasks, err := l.preparer().next(l.updated)
	if err == nil && len(tasks.order) == 0 {
		err = fmt.Errorf("thread %q: %w", l.cfg.ThreadID, ErrNoInterrupt)
	}
	return err
}

// answersByID reads an answer as a map by interrupt id, if it is one.
func answersByID(answer any) (byID map[string]any, ok bool) {
	byID, ok = answer.(map[string]any)
	for id := range byID {
		ok = ok && isInterruptID(id)
	}
	return byID, ok
}

// pendingInterrupts are the ids of the interrupts that tasks without a result
// were stored to wait for, sorted.
func (l *loop) pendingInterrupts() []string {
	statuses, _ := readStatuses(l.pending)
	ids := map[string]bool{}
	for _, s := range statuses {
		for _, in := range s.pending() {
			ids[in.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// questions are the ids of the interrupts that wait, sorted, and of all that tasks
// of this superstep are stored to have asked.
func (l *loop) questions() (waiting []string, asked map[string]bool, err error) {
	asked = map[string]bool{}
	statuses, order := readStatuses(l.pending)
	resume := indexPending(l.pending).resume
	var tasks *taskSet
	if len(resume) > 0 {
		if tasks, err = l.preparer().next(l.updated); err != nil {
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
	given, err := l.encode("", chResume, answer)
	if err != nil {
		return false
	}
	for _, w := range l.pending {
		if w.token == nil {
			continue
		}
		stored, err := l.encode("", chResume, w.value)
		if err == nil && (l.codec != nil && sameBytes(given, stored) || l.codec == nil && containsDeep([]any{answer}, w.value)) {
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

// atBreakpoint reports whether the thread waits though nobody asks: at a breakpoint, of
// this graph or of one inside. A checkpoint that another program made does not say: it
// may be one if something is left to run and no task failed.
func (l *loop) atBreakpoint(ctx context.Context) (bool, error) {
	if l.noted == nil && !slices.ContainsFunc(l.pending, func(w pendingWrite) bool { return w.taskID != nullTaskID }) {
		return l.checkUnfinished() == nil, nil
	}
	how, err := l.standing().progress(ctx)
	return how.status == saver.StatusWaiting, err
}

// voidAnswer takes an answer back that nobody took, when all tasks wait: the
// question it was meant for was not asked again, and what is asked instead waits
// for an answer of its own.
func (l *loop) voidAnswer() error {
	if l.nested() || l.saver == nil || l.ways().anyAnswer {
		return nil
	}
	i := slices.IndexFunc(l.pending, func(w pendingWrite) bool { return w.token != nil && w.token.value != nil && !w.token.spent() })
	if i < 0 {
		return nil
	}
	if l.exits() && l.delta.written[nullTaskID] { // it is not stored
		l.pending = slices.Delete(l.pending, i, i+1)
		return nil
	}
	l.voided = true
	return l.putWrites(nil, nullTaskID, []write{{chResume, nil}})
}
