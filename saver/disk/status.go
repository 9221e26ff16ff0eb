package disk

import (
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// The disk saver answers Threads from the table of threads, which is in memory, so
// the status of a thread is one of its flags. Every commit that may change it keeps
// it right.

// updateStatus sets the status of a thread from its root head and all that was
// written against it.
func updateStatus(tx *engine.Tx, id string) {
	t := tx.Partition(id)
	if t == nil {
		return
	}
	status := saver.StatusUnknown
	if head := headOf(t, ""); head != "" {
		var calls []rules.WriteCall
		t.Ascend(layout.WritesPrefix("", head), func(it *index.Entry) bool {
			calls = append(calls, writeCallOf(it))
			return true
		})
		status = rules.StatusOf(layout.OutlineOf(t.Get(t.Head)), calls)
	}
	tx.SetFlags(id, layout.StatusFlags[status])
}

// writeChangesStatus is updateStatus after one call of root writes. A head may have
// very many calls: each answer of many questions stores those that wait once more. They
// are not looked at where the call says by itself what the status is: a question that a
// task asks, and a stop, make it waiting, and an output of a run under way changes nothing.
func writeChangesStatus(tx *engine.Tx, id, checkpoint string, call rules.WriteCall) {
	t := tx.Partition(id)
	if t == nil || headOf(t, "") != checkpoint {
		return
	}
	switch status := layout.StatusOfFlags(t.Flags); {
	case call.Stopped || call.Interrupt && call.TaskID != saver.NullTaskID:
		tx.SetFlags(t.ID, layout.StatusFlags[saver.StatusWaiting])
	case call.Error:
		updateStatus(tx, t.ID)
	case status == saver.StatusUnfinished || status == saver.StatusUnknown:
	case status == saver.StatusDone && call.TaskID != saver.NullTaskID:
	default:
		updateStatus(tx, t.ID)
	}
}

func writeCallOf(it *index.Entry) rules.WriteCall {
	channels := make([]string, 0, it.Slots.Len())
	for _, s := range it.Slots.From(1) {
		channels = append(channels, s.Name)
	}
	return rules.NewWriteCall(it.Slots.At(0).Name, channels)
}
