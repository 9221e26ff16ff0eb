package pregel

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// write is a value for a channel.
type write struct {
	channel string
	value   any
}

// pendingWrite is a write stored against the checkpoint a superstep starts
// from.
type pendingWrite struct {
	taskID  string
	path    string
	channel string
	value   any
	// token is set on an answer that belongs to no task. It allows one use of the answer.
	token *resumeToken
}

func loadPending(stored []saver.PendingWrite) ([]pendingWrite, error) {
	stored, _ = withoutStops(stored)
	out := make([]pendingWrite, 0, len(stored))
	for _, w := range stored {
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		out = append(out, newPending(w.TaskID, w.TaskPath, w.Channel, v))
	}
	return out, nil
}

func newPending(taskID, path, channel string, v any) pendingWrite {
	w := pendingWrite{taskID: taskID, path: path, channel: channel, value: v}
	if taskID == nullTaskID && channel == chResume {
		w.token = &resumeToken{value: v}
	}
	return w
}

// taskStatus is what the recorded writes of a task say about it. A task is finished if and
// only if it recorded an output. The engine records one for every task that succeeds, and
// none for a task that waits or fails. An error beside an output is that of an earlier
// attempt.
type taskStatus struct {
	output     []write
	interrupts []Interrupt
	err        any // the recorded error; nil if none
	failed     bool
	// answered are the ids of questions of called functions that have ended. The task that
	// calls them repeats their questions. It is set if the task failed.
	answered map[string]bool
}

func (s taskStatus) finished() bool { return len(s.output) > 0 }

func (s taskStatus) pending() []Interrupt {
	if s.finished() {
		return nil
	}
	return s.interrupts
}

// waiting are the interrupts of the task that still wait. ns is its namespace, and answers its
// recorded answers. A task that failed after it was answered does not wait: its interrupt is
// still stored, but its next question is another one.
func (s taskStatus) waiting(ns string, answers []any) []Interrupt {
	if !s.failed {
		return s.pending()
	}
	answered := maps.Clone(s.answered)
	if answered == nil {
		answered = map[string]bool{}
	}
	for n := range answers {
		answered[interruptID(ns, n)] = true
	}
	return slices.DeleteFunc(slices.Clone(s.pending()), func(in Interrupt) bool { return answered[in.ID] })
}

// readStatuses reads the status of every task from the writes of a superstep. order has the
// task ids in the order of their first writes.
func readStatuses(pending []pendingWrite) (statuses map[string]*taskStatus, order []string) {
	statuses = map[string]*taskStatus{}
	for _, w := range pending {
		if w.taskID == nullTaskID {
			continue
		}
		s := statuses[w.taskID]
		if s == nil {
			s = &taskStatus{}
			statuses[w.taskID] = s
			order = append(order, w.taskID)
		}
		switch {
		case w.channel == chInterrupt:
			s.interrupts = append(s.interrupts, interruptsOf(w.value)...)
		case w.channel == chError:
			if !s.failed {
				s.err, s.failed = w.value, true
			}
		case !isControl(w.channel):
			s.output = append(s.output, write{w.channel, w.value})
		}
	}
	for _, s := range statuses {
		if s.failed && len(s.pending()) > 0 {
			s.answered = answeredIn(statuses)
		}
	}
	return statuses, order
}

// answeredIn are the ids of the questions of tasks that have ended.
func answeredIn(statuses map[string]*taskStatus) map[string]bool {
	ids := map[string]bool{}
	for _, s := range statuses {
		for _, in := range s.interrupts {
			if s.finished() {
				ids[in.ID] = true
			}
		}
	}
	return ids
}

// interruptsOf reads the value of a write on the interrupt channel: a list, one
// interrupt, or what another program stored in its place.
func interruptsOf(v any) []Interrupt {
	switch x := v.(type) {
	case []Interrupt:
		return x
	case Interrupt:
		return []Interrupt{x}
	case *serde.Interrupt:
		return []Interrupt{*x}
	case []any:
		var out []Interrupt
		for _, e := range x {
			out = append(out, interruptsOf(e)...)
		}
		return out
	}
	return []Interrupt{{Value: v, ID: "placeholder-id"}}
}

// pendingIndex has what a scratchpad needs to know about the pending writes.
type pendingIndex struct {
	any    bool
	token  *resumeToken
	resume map[string][]any    // by task
	shown  map[string][]string // interrupt ids by task
	failed map[string]bool     // tasks that stored an error
}

func indexPending(pending []pendingWrite) pendingIndex {
	ix := pendingIndex{any: len(pending) > 0}
	for _, w := range pending {
		if w.channel == chInterrupt {
			if ix.shown == nil {
				ix.shown = map[string][]string{}
			}
			for _, in := range interruptsOf(w.value) {
				ix.shown[w.taskID] = append(ix.shown[w.taskID], in.ID)
			}
		}
		if w.channel == chError {
			if ix.failed == nil {
				ix.failed = map[string]bool{}
			}
			ix.failed[w.taskID] = true
		}
		if w.channel != chResume {
			continue
		}
		if w.taskID == nullTaskID {
			if ix.token == nil && w.token != nil && !w.token.spent() {
				ix.token = w.token
			}
			continue
		}
		if ix.resume == nil {
			ix.resume = map[string][]any{}
		}
		if _, first := ix.resume[w.taskID]; !first {
			ix.resume[w.taskID] = resumeList(w.value)
		}
	}
	return ix
}

// resumeList is the stored answers of a task; a lone value is a list of one.
func resumeList(v any) []any {
	if list, ok := v.([]any); ok {
		return append([]any(nil), list...)
	}
	return []any{v}
}

// dropSpentAnswer removes an answer without a task from what was loaded if some task has
// taken it. Savers keep such answers, and a run that brings none of its own must not give
// an old answer to the next question. If the same answer was given twice and the second one
// never reached its task, the task asks again, which is safe.
func dropSpentAnswer(pending []pendingWrite) []pendingWrite {
	var given []any
	for _, w := range pending {
		if w.channel == chResume && w.taskID != nullTaskID {
			given = append(given, resumeList(w.value)...)
		}
	}
	if len(given) == 0 {
		return pending
	}
	kept := pending[:0:0]
	for _, w := range pending {
		if w.taskID == nullTaskID && w.channel == chResume && containsDeep(given, w.value) {
			continue
		}
		kept = append(kept, w)
	}
	return kept
}

func containsDeep(list []any, v any) bool {
	for _, x := range list {
		if reflect.DeepEqual(x, v) {
			return true
		}
	}
	return false
}

// withoutStops removes the writes of endStopped, which are for savers. Here the graphs inside
// show whether the thread still waits.
func withoutStops(stored []saver.PendingWrite) (kept []saver.PendingWrite, stopped bool) {
	isStop := func(w saver.PendingWrite) bool { return w.Channel == chStopped }
	if !slices.ContainsFunc(stored, isStop) {
		return stored, false
	}
	return slices.DeleteFunc(slices.Clone(stored), isStop), true
}

// refusedBefore reports whether pending has endRefused for a checkpoint.
func refusedBefore(cpID string, pending []pendingWrite) bool {
	id, err := uuid5(cpID, chError)
	return err == nil && slices.ContainsFunc(pending, func(w pendingWrite) bool { return w.taskID == id && w.channel == chError })
}
