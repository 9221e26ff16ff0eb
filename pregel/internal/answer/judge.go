package answer

import (
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Use is what becomes of an answer.
type Use int

// The uses.
const (
	None  Use = iota // there is none
	One              // it answers the question that waits
	ByIDs            // each task takes its own by the id of its question
	Spent            // nobody gets it: it passes a breakpoint, or was given before

	// Nobody waits for it. WorkLeft: without an answer the run goes on with what is left.
	Refused
	RefusedWorkLeft
	Ambiguous // several questions wait, and it says not for which it is
	Unknown   // it has an id that nobody asked
)

// Facts are the facts about an answer that decide what becomes of it.
type Facts struct {
	// ByID: the answer is a map by the ids of questions. Empty: the map is empty.
	ByID, Empty bool
	// Steers: it comes with an update, or with nodes to go to.
	Steers bool
	// Old: the questions are those of a checkpoint that the thread has moved past. The
	// answer is accepted as in LangGraph, because they were answered before.
	Old bool
	// Waiting are the ids of the questions that wait, sorted. Unknown are the ids in the
	// answer that nobody asked.
	Waiting, Unknown []string
	// Left: something is left to run. Given: the tasks were given this answer before.
	// AtBreakpoint: the thread waits although nobody asks. They are set only if no
	// question waits.
	Left, Given, AtBreakpoint bool
}

// Judge decides what becomes of an answer. resumes: the run goes on from a checkpoint. An answer is
// for a question that waits in what is stored. Any other is refused before anything is stored, but
// for the two that do no harm and are given to nobody (Spent).
func (f *Facts) Judge(resumes, langGraph bool) Use {
	loose := langGraph || f.Old
	use, nobody := One, Refused
	if f.ByID {
		use = ByIDs
	}
	if f.Left {
		nobody = RefusedWorkLeft
	}
	switch {
	case !resumes, loose && len(f.Waiting) == 0 && !f.Steers && !f.Left:
		return Refused
	case loose && f.ByID:
		return use
	case !loose && f.ByID && len(f.Waiting) > 0 && (f.Empty || len(f.Unknown) > 0):
		return Unknown
	case len(f.Waiting) > 1 && !f.ByID:
		return Ambiguous
	case loose || len(f.Waiting) > 0:
		return use
	case f.ByID && !f.Empty && len(f.Unknown) == 0, f.Given, f.AtBreakpoint:
		return Spent
	}
	return nobody
}

// Status is what the writes of a task say about its questions, and whether it ended. It has if and
// only if it recorded an output. The engine records one for every task that succeeds, and none for a
// task that waits or fails. An error beside an output is that of an earlier attempt.
type Status struct {
	Finished   bool
	Interrupts []serde.Interrupt
	Err        any // the recorded error; nil if none
	Failed     bool
	// answered are the ids of questions of called functions that have ended. The task that
	// calls them repeats their questions. It is set if the task failed.
	answered map[string]bool
}

// Pending are the interrupts of a task that has not ended.
func (s Status) Pending() []serde.Interrupt {
	if s.Finished {
		return nil
	}
	return s.Interrupts
}

// Waiting are the interrupts of the task that still wait. ns is its namespace, and answers its
// recorded answers. A task that failed after it was answered does not wait: its interrupt is
// still stored, but its next question is another one.
func (s Status) Waiting(ns string, answers []any) []serde.Interrupt {
	if !s.Failed {
		return s.Pending()
	}
	answered := maps.Clone(s.answered)
	if answered == nil {
		answered = map[string]bool{}
	}
	for n := range answers {
		answered[ID(ns, n)] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Pending()), func(in serde.Interrupt) bool { return answered[in.ID] })
}

// Statuses reads the status of every task from the writes of a superstep. order has the
// task ids in the order of their first writes.
func Statuses(pending []Write) (statuses map[string]*Status, order []string) {
	statuses = map[string]*Status{}
	for _, w := range pending {
		if w.TaskID == NoTask {
			continue
		}
		s := statuses[w.TaskID]
		if s == nil {
			s = &Status{}
			statuses[w.TaskID] = s
			order = append(order, w.TaskID)
		}
		switch {
		case w.Channel == saver.ChannelInterrupt:
			s.Interrupts = append(s.Interrupts, Interrupts(w.Value)...)
		case w.Channel == saver.ChannelError:
			if !s.Failed {
				s.Err, s.Failed = w.Value, true
			}
		case !IsControl(w.Channel):
			s.Finished = true
		}
	}
	for _, s := range statuses {
		if s.Failed && len(s.Pending()) > 0 {
			s.answered = answeredIn(statuses)
		}
	}
	return statuses, order
}

// answeredIn are the ids of the questions of tasks that have ended.
func answeredIn(statuses map[string]*Status) map[string]bool {
	ids := map[string]bool{}
	for _, s := range statuses {
		for _, in := range s.Interrupts {
			if s.Finished {
				ids[in.ID] = true
			}
		}
	}
	return ids
}

// Open are the ids of the stored questions of tasks that have not ended, sorted.
func Open(pending []Write) []string {
	statuses, _ := Statuses(pending)
	ids := map[string]bool{}
	for _, s := range statuses {
		for _, in := range s.Pending() {
			ids[in.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Questions returns the ids of the questions that wait, sorted, and of all questions that tasks of
// the superstep have stored. namespaces has those of its tasks by id. It is called only if a task was
// answered.
func Questions(pending []Write, namespaces func() (map[string]string, error)) (waiting []string, asked map[string]bool, err error) {
	asked = map[string]bool{}
	statuses, order := Statuses(pending)
	taken := Of(pending).taken
	var spaces map[string]string
	if len(taken) > 0 {
		if spaces, err = namespaces(); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range order {
		ns, known := spaces[id]
		var answers []any
		if known {
			answers = taken[id]
		}
		for n := range answers {
			asked[ID(ns, n)] = true
		}
		for _, in := range statuses[id].Interrupts {
			asked[in.ID] = true
		}
		for _, in := range statuses[id].Waiting(ns, answers) {
			if !slices.Contains(waiting, in.ID) {
				waiting = append(waiting, in.ID)
			}
		}
	}
	slices.Sort(waiting)
	return waiting, asked, nil
}
