package pregel

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// write is a value for a channel.
type write struct {
	channel string
	value   any
}

func loadPending(stored []saver.PendingWrite) ([]answer.Write, error) {
	stored, _ = withoutStops(stored)
	out := make([]answer.Write, 0, len(stored))
	for _, w := range stored {
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		out = append(out, answer.New(w.TaskID, w.TaskPath, w.Channel, v))
	}
	return out, nil
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
func refusedBefore(cpID string, pending []answer.Write) bool {
	id, err := uuid5(cpID, chError)
	return err == nil && slices.ContainsFunc(pending, func(w answer.Write) bool { return w.TaskID == id && w.Channel == chError })
}

// outputsOf are the writes of each task among pending that it produced, by its id. A task that has none
// did not end.
func outputsOf(pending []answer.Write) map[string][]write {
	out := map[string][]write{}
	for _, w := range pending {
		if w.TaskID != nullTaskID && !answer.IsControl(w.Channel) {
			out[w.TaskID] = append(out[w.TaskID], write{w.Channel, w.Value})
		}
	}
	return out
}
