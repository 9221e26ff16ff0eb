package pregel

import (
	"slices"

	"github.com/stele-go/stele/serde"
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
	// token is set on an answer that belongs to no task: the right to use it
	// once.
	token *resumeToken
}

// taskStatus is what the writes recorded for a task say about it. A task is
// finished if and only if it recorded an output: the engine records one for
// every task that succeeds, and none for one that waits or fails. An error
// beside an output is of an attempt before the one that succeeded.
type taskStatus struct {
	output     []write
	interrupts []Interrupt
	err        any // the recorded error; nil if none
	failed     bool
}

func (s taskStatus) finished() bool { return len(s.output) > 0 }

func (s taskStatus) pending() []Interrupt {
	if s.finished() {
		return nil
	}
	return s.interrupts
}

// waiting are the interrupts of a task in namespace ns that wait, given the answers it
// recorded. If it failed after it was answered it does not wait: its interrupt is still
// stored, but it will ask another question, if any.
func (s taskStatus) waiting(ns string, answers []any) []Interrupt {
	if !s.failed {
		return s.pending()
	}
	answered := map[string]bool{}
	for n := range answers {
		answered[interruptID(ns, n)] = true
	}
	return slices.DeleteFunc(slices.Clone(s.pending()), func(in Interrupt) bool { return answered[in.ID] })
}

// readStatuses reads the status of every task from the writes of a superstep.
// order has the task ids as they came.
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
	return statuses, order
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

// storedInterrupts is interrupts as they are stored.
func storedInterrupts(list []Interrupt) []any {
	out := make([]any, len(list))
	for i, in := range list {
		out[i] = in
	}
	return out
}
