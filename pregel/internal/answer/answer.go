// Package answer has the protocol by which the answers to a graph's questions find them. A task that
// asks ends its run; a later run brings the answer, runs the task again from its start, and the task
// finds the answer where it asked. Everything goes by the pending writes (Write) of one superstep.
// They survive the process, so the protocol holds across runs, crashes and graphs inside.
//
// A question is the write of a task to saver.ChannelInterrupt. Its id (ID) is made of the namespace
// of the task and the number of answers that the task had when it asked. An answer goes five ways:
//
//  1. May it? Questions are those that wait. Facts.Judge refuses an answer that no question waits
//     for, or that is another than a question has, before anything is stored. Two are accepted and given
//     to nobody: one at a breakpoint, and one that the tasks have already. Callers who were not told that it arrived send that again.
//     At a checkpoint that the thread has moved past, that one is refused, too: its tasks would run with the answer
//     that they have. A run from there without an answer asks again.
//  2. Store it. Given is the record of all answers in force by the ids of their questions. One without an id
//     is stored as the write of no task (NoTask) to saver.ChannelResume as well, as LangGraph does. New makes it
//     good for one use.
//  3. Hand it out. For each superstep, Of collects its answers from the pending writes. Set.Fill gives
//     a task's Pad those that it took before, and one by the id of its next question: one that this run was
//     given, or one in force since an earlier run.
//  4. Take it. Pad.Take gives the n-th question of a task its n-th answer. If there is none, the
//     answer that belongs to no task goes to the question, provided that the question was stored as
//     waiting: also one of a graph around, whose run the answer was given to. Before the node goes
//     on the task records all answers that it has, as its own write to saver.ChannelResume.
//  5. Take it back. Unspent drops, from what is loaded, an answer of no task that a task recorded.
//     Guard does so for answers that a graph inside took, which shows only in its own namespace.
//     Untaken finds the one that nobody took although all tasks wait: its question was not asked again,
//     so it is removed, and what is asked instead waits for an answer of its own.
//
// With langGraph, the ways of LangGraph, step 1 lets any answer pass,
// step 4 gives it to whoever asks, and an answer that nobody took stays.
package answer

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// NoTask is the id under which writes are stored that belong to no task.
const NoTask = "00000000-0000-0000-0000-000000000000"

// ErrorSource is the channel that names the node of a task that failed.
const ErrorSource = rules.ChannelErrorSource

// IsControl reports whether a write to the channel describes what happened to a task rather than what
// it produced.
func IsControl(channel string) bool {
	return channel == saver.ChannelError || channel == ErrorSource || channel == saver.ChannelInterrupt || channel == saver.ChannelResume
}

// Write is a pending write: what a task wrote, asked or was given, stored against the checkpoint that
// its superstep starts from. Make it with New.
type Write struct {
	TaskID  string
	Path    string // of the task, as stored
	Channel string
	Value   any
	token   *token // of an answer that belongs to no task
}

// New makes a write. If it is an answer that belongs to no task, one task can take it.
func New(taskID, path, channel string, v any) Write {
	w := Write{TaskID: taskID, Path: path, Channel: channel, Value: v}
	if taskID == NoTask && channel == saver.ChannelResume {
		w.token = &token{value: v}
	}
	return w
}

// IsSpent reports whether w is an answer that was taken in this run.
func (w Write) IsSpent() bool { return w.token != nil && w.token.spent() }

// ID is the id of the question that the task in namespace ns asks when it has n answers.
func ID(ns string, n int) string {
	if n > 0 {
		ns += "|" + strconv.Itoa(n)
	}
	sum := xxh3.HashString128(ns).Bytes()
	return hex.EncodeToString(sum[:])
}

// ByID reads an answer as a map by the ids of questions, if it is one.
func ByID(answer any) (byID map[string]any, ok bool) {
	byID, ok = answer.(map[string]any)
	for id := range byID {
		ok = ok && IsID(id)
	}
	return byID, ok
}

// IsID reports whether s has the form of an ID.
func IsID(s string) bool {
	return len(s) == 32 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// Interrupts reads the value of a write of questions: a list, one question, or what another program
// stored in its place.
func Interrupts(v any) []serde.Interrupt {
	switch x := v.(type) {
	case []serde.Interrupt:
		return x
	case serde.Interrupt:
		return []serde.Interrupt{x}
	case *serde.Interrupt:
		return []serde.Interrupt{*x}
	case []any:
		var out []serde.Interrupt
		for _, e := range x {
			out = append(out, Interrupts(e)...)
		}
		return out
	}
	return []serde.Interrupt{{Value: v, ID: "placeholder-id"}}
}

// listOf is the stored answers of a task; a lone value is a list of one.
func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return slices.Clone(list)
	}
	return []any{v}
}

// contains reports whether list has a value that is deeply equal to v.
func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, v) })
}

// Use says what is done with an answer.
type Use int

// The uses.
const (
	None  Use = iota // there is none
	One              // it answers the question that waits
	ByIDs            // each task takes its own by the id of its question
	Spent            // nobody gets it: it passes a breakpoint, or was given before

	Refused   // nobody waits for it
	Ambiguous // several questions wait, and it does not say which it is for
	Unknown   // it has an id that nobody asked
	Answered  // its question has another answer
)

// Facts are the facts about an answer that decide its Use.
type Facts struct {
	// ByID: the answer is a map by the ids of questions. Empty: the map is empty.
	ByID, Empty bool
	// Old: the thread has moved past the checkpoint that the run begins with, or past one of a graph inside that
	// the run was told. A question there that has an answer is not answered again, not even with the same one, as
	// its tasks would go on with the answer that they have; but one whose task has not ended since it was given the
	// answer, as after a crash, may be given that again.
	Old bool
	// Waiting are the ids of the questions that wait, sorted. Unknown are the ids in the
	// answer that nobody asked, and Answered those that have another answer already: of an answer without
	// an id, all that an answer in force has.
	Waiting, Unknown, Answered []string
	// Finished: nothing is left to run.
	Finished bool
	// Given: the tasks were given this answer before. AtBreakpoint: the thread waits although nobody asks; set only
	// if no question waits.
	Given, AtBreakpoint bool
}

// Judge decides the Use of an answer. resumes: the run continues from a checkpoint. An answer must be
// for a stored question that waits at that checkpoint. Any other is refused before anything is stored, except two
// that do no harm and are given to nobody (Spent).
func (f *Facts) Judge(resumes, langGraph bool) Use {
	use := One
	if f.ByID {
		use = ByIDs
	}
	switch {
	case !resumes && !langGraph, f.Old && len(f.Waiting) == 0 && !f.AtBreakpoint && !f.Given:
		return Refused
	case langGraph && f.ByID:
		return use
	case !langGraph && f.Given: // before a question that may wait now
		return Spent
	case !langGraph && f.ByID && len(f.Waiting) > 0 && (f.Empty || len(f.Unknown) > 0):
		return Unknown
	case !langGraph && f.ByID && len(f.Answered) > 0:
		return Answered
	case len(f.Waiting) > 1 && !f.ByID:
		return Ambiguous
	case langGraph || len(f.Waiting) > 0:
		return use
	case f.ByID && !f.Empty && len(f.Unknown) == 0, f.Given, f.AtBreakpoint:
		return Spent
	}
	if len(f.Answered) > 0 {
		return Answered
	}
	return Refused
}

// Status has the questions of a task, and whether it ended, according to its writes. A task has ended
// exactly if it recorded an output: the engine records one for every task that succeeds, and none for a
// task that waits or fails. An error beside an output is that of an earlier attempt.
type Status struct {
	Finished   bool
	Interrupts []serde.Interrupt
	Err        any // the recorded error; nil if none
	Failed     bool
	// questionEnded has the questions of all tasks, and is shared by their statuses. Several tasks may
	// record one question, as a task repeats the questions of the functions that it calls. The question
	// has ended once one of them has finished.
	questionEnded map[string]bool
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
	answered := map[string]bool{}
	for n := range answers {
		answered[ID(ns, n)] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Pending()), func(in serde.Interrupt) bool { return answered[in.ID] || s.questionEnded[in.ID] })
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
		case w.Channel == saver.ChannelError && !s.Failed:
			s.Err, s.Failed = w.Value, true
		case !IsControl(w.Channel):
			s.Finished = true
		}
	}
	questionEnded := map[string]bool{}
	for _, s := range statuses {
		s.questionEnded = questionEnded
		for _, in := range s.Interrupts {
			questionEnded[in.ID] = questionEnded[in.ID] || s.Finished
		}
	}
	return statuses, order
}

// Unended are the ids of the stored questions of tasks that have not ended, sorted.
func Unended(pending []Write) []string {
	statuses, _ := Statuses(pending)
	ids := map[string]bool{}
	for _, s := range statuses {
		for _, in := range WithoutWaits(s.Pending()) {
			ids[in.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Questions returns the ids of the questions that wait, sorted, those of all questions that tasks of
// the superstep have stored, and the answers that they have. namespaces has those of its tasks by id.
// It is called only if a task was answered.
func Questions(pending []Write, namespaces func() (map[string]string, error)) (waiting []string, asked map[string]bool, answered map[string]any, err error) {
	asked, answered = map[string]bool{}, map[string]any{}
	statuses, order := Statuses(pending)
	taken := Of(pending).taken
	var spaces map[string]string
	if len(taken) > 0 {
		if spaces, err = namespaces(); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, id := range order {
		ns, known := spaces[id]
		answers := taken[id]
		if !known {
			answers = nil
		}
		for n, v := range answers {
			asked[ID(ns, n)], answered[ID(ns, n)] = true, v
		}
		for _, in := range WithoutWaits(statuses[id].Interrupts) {
			asked[in.ID] = true
			// Of a function that a task called, which is in no namespace. The last answer is to its last
			// question, the one that it has stored.
			if last := len(taken[id]) - 1; !known && last >= 0 && statuses[id].Finished {
				answered[in.ID] = taken[id][last]
			}
		}
		for _, in := range WithoutWaits(statuses[id].Waiting(ns, answers)) {
			if !slices.Contains(waiting, in.ID) {
				waiting = append(waiting, in.ID)
			}
		}
	}
	for _, id := range waiting {
		delete(answered, id) // it is asked again
	}
	slices.Sort(waiting)
	return waiting, asked, answered, nil
}
