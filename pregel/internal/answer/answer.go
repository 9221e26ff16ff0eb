// Package answer has the protocol by which the answers to a graph's questions find them. A task that
// asks ends its run; a later run brings the answer, runs the task again from its start, and the task
// finds the answer where it asked. Everything goes by the pending writes (Write) of one superstep.
// They survive the process, so the protocol holds across runs, crashes and graphs inside.
//
// A question is the write of a task to saver.ChannelInterrupt. Its id (ID) is made of the namespace
// of the task and the number of answers that the task had when it asked. An answer goes five ways:
//
//  1. May it? Questions are those that wait. Facts.Judge refuses an answer that no question waits
//     for, before anything is stored. Two are accepted and given to nobody: one at a breakpoint, and
//     one that the tasks have already. Callers who were not told that it arrived send that again.
//  2. Store it. One without an id is stored as the write of no task (NoTask) to
//     saver.ChannelResume. New makes it good for one use. Answers by id are stored by the tasks that
//     take them.
//  3. Hand it out. For each superstep, Of collects its answers from the pending writes. Set.Fill gives
//     a task's Pad those that it took before, and one by the id of its next question.
//  4. Take it. Pad.Take gives the n-th question of a task its n-th answer. If there is none, the
//     answer that belongs to no task goes to the question, provided that the question was stored as
//     waiting: also one of a graph around, whose run the answer was given to. Before the node goes
//     on the task records all answers that it has, as its own write to saver.ChannelResume.
//  5. Take it back. Unspent drops, from what is loaded, an answer of no task that a task recorded.
//     Guard does so for answers that a graph inside took, which shows only in its own namespace.
//     Untaken finds the one that nobody took although all tasks wait: its question was not asked again,
//     so it is removed, and what is asked instead waits for an answer of its own.
//
// With LangGraph's ways (the parameter langGraph) steps 1, 4 and 5 are loose: whoever asks gets the
// answer that is there.
package answer

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// NoTask is the id under which writes are stored that belong to no task.
const NoTask = "00000000-0000-0000-0000-000000000000"

// ErrorSource is the channel that names the node of a task that failed.
const ErrorSource = "__error_source_node__"

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

// Contains reports whether list has a value that is deeply equal to v.
func Contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, v) })
}
