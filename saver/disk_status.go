package saver

import (
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
)

// The disk saver answers Threads from the table of threads, which is in memory, so
// the status of a thread is one of its flags. Every commit that may change it keeps
// it right.

// statusBits is the part of a thread's flags that is its status. The lowest bit alone
// is what stores had before there were statuses: the root head waits.
const statusBits uint8 = 7

// statusFlags are the thread flags of each status.
var statusFlags = map[Status]uint8{StatusUnknown: 0, StatusWaiting: 1, StatusDone: 2, StatusUnfinished: 4, StatusFailed: 6}

// StatusOfFlags is the status that the flags of a thread of the engine stand for, for
// tools. Flags of no status, which only a newer build can have written, are unknown.
func StatusOfFlags(flags uint8) Status {
	switch flags & statusBits {
	case statusFlags[StatusWaiting]:
		return StatusWaiting
	case statusFlags[StatusDone]:
		return StatusDone
	case statusFlags[StatusUnfinished]:
		return StatusUnfinished
	case statusFlags[StatusFailed]:
		return StatusFailed
	}
	return StatusUnknown
}

// updateStatus sets the status of a thread from its root head and all that was
// written against it.
func updateStatus(tx *engine.Tx, id string) {
	t := tx.Thread(id)
	if t == nil {
		return
	}
	status := StatusUnknown
	if head := headOf(t, ""); head != "" {
		var calls []WriteCall
		t.Ascend(writesPrefix("", head), func(it *index.Item) bool {
			calls = append(calls, writeCallOf(it))
			return true
		})
		status = StatusOf(outlineOf(t.Get(checkpointKey("", head))), calls)
	}
	tx.SetFlags(id, statusFlags[status])
}

// writeChangesStatus is updateStatus after one call of root writes. A head may have
// very many calls, and an output of a run under way changes nothing: then they are
// not looked at.
func writeChangesStatus(tx *engine.Tx, cfg Config, call WriteCall) {
	t := tx.Thread(threadKey(cfg.ThreadID))
	if t == nil || headOf(t, "") != cfg.CheckpointID {
		return
	}
	switch status := StatusOfFlags(t.Flags); {
	case call.Interrupt || call.Error || call.Stopped:
		updateStatus(tx, t.ID)
	case status == StatusUnfinished || status == StatusUnknown:
	case status == StatusDone && call.TaskID != NullTaskID:
	default:
		updateStatus(tx, t.ID)
	}
}

func writeCallOf(it *index.Item) WriteCall {
	channels := make([]string, 0, len(it.Slots))
	for _, s := range it.Slots[1:] {
		channels = append(channels, s.Name)
	}
	return NewWriteCall(it.Slots[0].Name, channels)
}
