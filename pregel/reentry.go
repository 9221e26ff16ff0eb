package pregel

import (
	"context"
	"slices"

	"github.com/stele-go/stele/saver"
)

// spentState reports whether the state that a graph inside found is that of an
// earlier call, which came to its end: the graph around is resumed, but had not
// called this one yet, so it takes its input. Only a Stable graph finds such a
// state. LangGraph goes on from it: it runs nothing, and gives the earlier result
// for the new input.
func (l *loop) spentState() bool {
	if !l.nested() || !l.loadedLatest || !l.stableNamespace() || l.begunHere() {
		return false
	}
	// Writes of tasks stored on the head are of work that did not end.
	if slices.ContainsFunc(l.pending, func(w pendingWrite) bool { return w.taskID != nullTaskID }) {
		return false
	}
	tasks, err := l.preparer().next(l.updated)
	return err == nil && len(tasks.order) == 0
}

// begunHere reports whether the graph's checkpoint was made inside the superstep
// that the graph around is in: it names the checkpoint that superstep starts from.
func (l *loop) begunHere() bool {
	outer := l.parent.step.l.ns
	parents, _ := l.md["parents"].(map[string]any)
	id, known := l.cpMap[outer]
	return known && parents[outer] == id
}

// answeredSince reports whether none of the interrupts that the graph around was
// stored to wait for, in the task that runs this graph, waits here any more: a
// crash came after they were answered and before the graph around could store
// what its task came to. An answer without an id is meant for them, and must not
// be given to what is asked next. LangGraph gives it.
func (l *loop) answeredSince() bool {
	if !l.nested() || l.saver == nil || !l.hadParent {
		return false
	}
	shown := l.parent.task.pad.shown
	return len(shown) > 0 && !slices.ContainsFunc(l.pendingInterrupts(), func(id string) bool { return slices.Contains(shown, id) })
}

// guardAnswers keeps the answers that an earlier run stored from being given
// twice. A graph inside stores that its task took one in its own namespace, where
// dropSpentAnswer does not see it. LangGraph gives such an answer again, to
// whatever the graph inside asks next.
func (l *loop) guardAnswers(ctx context.Context) {
	for _, w := range l.pending {
		if w.token == nil || l.saver == nil {
			continue
		}
		w.token.takenBelow = func(value any) bool { return l.answeredBelow(ctx, value) }
	}
}

// answeredBelow reports whether a task of a graph inside this superstep took
// value as an answer. If that cannot be read the answer is not given: the task
// asks again.
func (l *loop) answeredBelow(ctx context.Context, value any) bool {
	at := l.place
	for tup, err := range l.saver.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
		if err != nil {
			return true
		}
		parents, _ := tup.Metadata["parents"].(map[string]any)
		if tup.Config.Namespace == l.ns || parents[l.ns] != at.CheckpointID {
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
