package transfer

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// maxIndex is the greatest index of a write that a saver stores.
const maxIndex = 1<<16 - 3

// taskWrites are the calls that store writes at their indexes. A saver counts the index of a write from
// its position in the call, and keeps the first write at an index, on a special channel the last. So an
// unused position is filled with a write that changes nothing: a special one of the same call, which
// replaces itself, or any one if an earlier call has stored the index. Writes must be in the order of a
// Tuple. If this is not possible, the error names the task.
func taskWrites(writes []PendingWrite) ([]saver.TaskWrites, error) {
	var calls []saver.TaskWrites
	type slot struct {
		task  string
		index int
	}
	stored := map[slot]bool{}
	for len(writes) > 0 {
		n := 1
		for n < len(writes) && writes[n].TaskID == writes[0].TaskID && writes[n].TaskPath == writes[0].TaskPath {
			n++
		}
		group := slices.Clone(writes[:n])
		writes = writes[n:]
		specials := 0
		for specials < n && group[specials].Index < 0 {
			specials++
		}
		slices.SortStableFunc(group[:specials], func(a, b PendingWrite) int { return last(a) - last(b) })
		call := saver.TaskWrites{TaskID: group[0].TaskID, TaskPath: group[0].TaskPath}
		var special []saver.Write
		next := 0 // of special, for the next position that is not taken
		for _, w := range group {
			write := saver.Write{Channel: w.Channel, Value: saver.ValueTyped(w.Value)}
			if at := (slot{w.TaskID, w.Index}); stored[at] {
				return nil, fmt.Errorf("task %q has two writes at index %d", w.TaskID, w.Index)
			}
			if w.Index < 0 {
				if saver.WriteIndex(w.Channel, 0) != w.Index {
					return nil, fmt.Errorf("task %q: channel %q has no index %d", w.TaskID, w.Channel, w.Index)
				}
				special = append(special, write)
				continue
			}
			if w.Index > maxIndex || saver.WriteIndex(w.Channel, w.Index) != w.Index {
				return nil, fmt.Errorf("task %q: channel %q has no index %d", w.TaskID, w.Channel, w.Index)
			}
			for len(call.Writes) < w.Index {
				switch {
				case len(special) > 0:
					call.Writes = append(call.Writes, special[next%len(special)])
					next++
				case stored[slot{w.TaskID, len(call.Writes)}]:
					call.Writes = append(call.Writes, write)
				default:
					return nil, fmt.Errorf("task %q has no write at index %d, but one at %d", w.TaskID, len(call.Writes), w.Index)
				}
			}
			call.Writes = append(call.Writes, write)
		}
		if next < len(special) {
			call.Writes = append(call.Writes, special[next:]...)
		}
		for _, w := range group {
			stored[slot{w.TaskID, w.Index}] = true
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// last is 1 for a write that stands behind the others in its call, see rules.EndsWait, and else 0.
func last(w PendingWrite) int {
	if rules.EndsWait(w.Channel, saver.ValueTyped(w.Value)) {
		return 1
	}
	return 0
}

// placed is tup without the writes of tasks that cannot be stored at their indexes. These are
// rejected: all of a task, because a task with a part of its writes would pass for done.
func (o *Options) placed(rep *Report, tup *Tuple) (*Tuple, error) {
	if _, err := taskWrites(tup.Writes); err == nil {
		return tup, nil
	}
	small := *tup
	small.Writes = nil
	reasons := map[string]error{}
	for _, w := range tup.Writes {
		reason, seen := reasons[w.TaskID]
		if !seen {
			var task []PendingWrite
			for _, other := range tup.Writes {
				if other.TaskID == w.TaskID {
					task = append(task, other)
				}
			}
			_, reason = taskWrites(task)
			reasons[w.TaskID] = reason
		}
		if reason == nil {
			small.Writes = append(small.Writes, w)
		} else if err := o.reject(&rep.Rejected, RejectedWrite(tup.Config, w, reason)); err != nil {
			return nil, err
		}
	}
	return &small, nil
}

// RejectedWrite is a pending write of the checkpoint that cfg names as a Rejected.
func RejectedWrite(cfg saver.Config, w PendingWrite, reason error) *Rejected {
	return &Rejected{Config: cfg, What: "write", Name: fmt.Sprintf("%s %d %s", w.TaskID, w.Index, w.Channel), Kind: w.Value.Kind,
		Raw: w.Value.Data, Reason: reason}
}
