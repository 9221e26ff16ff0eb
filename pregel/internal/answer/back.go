package answer

import (
	"context"
	"slices"

	"github.com/stele-go/stele/saver"
)

// Unspent is pending without an answer of no task that some task has taken. Savers keep such
// answers, and a run that brings none of its own must not give an old answer to the next question.
// If the same answer was given twice and the second one never reached its task, the task asks again,
// which is safe.
func Unspent(pending []Write) []Write {
	var given []any
	for _, w := range pending {
		if w.Channel == saver.ChannelResume && w.TaskID != NoTask {
			given = append(given, listOf(w.Value)...)
		}
	}
	if len(given) == 0 {
		return pending
	}
	return slices.DeleteFunc(slices.Clone(pending), func(w Write) bool {
		return w.TaskID == NoTask && w.Channel == saver.ChannelResume && Contains(given, w.Value)
	})
}

// AnyGiven reports whether is holds for an answer of no task.
func AnyGiven(pending []Write, is func(value any) bool) bool {
	return slices.ContainsFunc(pending, func(w Write) bool { return w.token != nil && is(w.Value) })
}

// Untaken is the place of the answer of no task that nobody took; -1 if there is none.
func Untaken(pending []Write) int {
	return slices.IndexFunc(pending, func(w Write) bool { return w.token != nil && w.token.value != nil && !w.token.spent() })
}

// Guard keeps the answers that an earlier run stored from being given twice. A graph
// inside records an answer that its task took in its own namespace, where Unspent
// does not see it. LangGraph gives such an answer again, to whatever the graph inside asks
// next. The superstep starts from the checkpoint at. The saver, which may be nil, is asked only if a
// graph inside asks.
func Guard(ctx context.Context, pending []Write, s saver.Saver, at saver.Config) {
	for _, w := range pending {
		if w.token != nil && s != nil {
			w.token.takenInside = func(value any) bool { return takenInside(ctx, s, at, value) }
		}
	}
}

// takenInside reports whether a task of a graph inside the superstep took value as an
// answer. If that cannot be read the answer is not given, and the task asks again.
func takenInside(ctx context.Context, s saver.Saver, at saver.Config, value any) bool {
	for tup, err := range s.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
		if err != nil {
			return true
		}
		parents, _ := tup.Metadata["parents"].(map[string]any)
		if tup.Config.Namespace == at.Namespace || parents[at.Namespace] != at.CheckpointID {
			continue
		}
		for _, w := range tup.PendingWrites {
			if w.Channel != saver.ChannelResume || w.TaskID == NoTask {
				continue
			}
			taken, err := w.Value.Any()
			if err != nil || Contains(listOf(taken), value) {
				return true
			}
		}
	}
	return false
}
