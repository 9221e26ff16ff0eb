package pregel

import (
	"fmt"
	"iter"
	"slices"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// deltaState is the bookkeeping for delta channels, which are rebuilt from stored writes.
// Where those cannot be relied on, the channel is stored whole. Under Exit the writes are
// kept back until the run ends, and are then stored on the checkpoint that it began with.
type deltaState struct {
	g            *Graph
	forced       map[string]bool    // channels to store whole in the next checkpoint
	loaded       []answer.Write     // writes that a resume found; nil once checked
	storedWrites map[[2]string]bool // by task and channel: writes that an earlier run stored

	initial     saver.Config // the checkpoint the run began with
	exit        []exitWrite  // writes that Exit keeps back
	commandExit []write      // those of the Command, until the first superstep ends
	firstStep   *int         // the first superstep that kept writes back
}

// exitWrite is a write to a delta channel that Exit keeps back.
type exitWrite struct {
	step         int
	taskID, path string
	channel      string
	value        any
}

// init begins with the writes that are stored on the checkpoint initial.
func (d *deltaState) init(g *Graph, initial *saver.Config, stored []answer.Write) {
	*d = deltaState{g: g, initial: *initial, forced: map[string]bool{},
		storedWrites: map[[2]string]bool{}}
	for _, w := range stored {
		if w.TaskID != nullTaskID && g.isDelta(w.Channel) {
			d.storedWrites[[2]string{w.TaskID, w.Channel}] = true
		}
	}
}

// found: a resume found these writes.
func (d *deltaState) found(pending []answer.Write) {
	d.loaded = slices.DeleteFunc(slices.Clone(pending), func(w answer.Write) bool { return w.TaskID == nullTaskID })
}

// restart: the run goes on as if it had begun with the checkpoint initial.
func (d *deltaState) restart(initial saver.Config) {
	d.initial, d.exit, d.commandExit, d.firstStep = initial, nil, nil, nil
	clear(d.storedWrites)
}

// force marks the delta channels that were written to. They are stored whole.
func (d *deltaState) force(written []answer.Write) {
	for _, w := range written {
		d.g.addDelta(d.forced, w.Channel)
	}
}

// among are the writes to delta channels.
func (d *deltaState) among(writes []write) (to []write) {
	for _, w := range writes {
		if d.g.isDelta(w.channel) {
			to = append(to, w)
		}
	}
	return to
}

// forceAll has delta channels among those named stored whole in the next checkpoint.
func (d *deltaState) forceAll(channels iter.Seq[string]) {
	for name := range channels {
		d.g.addDelta(d.forced, name)
	}
}

// forceOverwritten does so for delta channels that writes overwrite.
func (d *deltaState) forceOverwritten(writes []write) { d.g.addOverwritten(d.forced, writes) }

// storedWhole notes the channels that a checkpoint has whole.
func (d *deltaState) storedWhole(whole map[string]bool) {
	for name := range whole {
		delete(d.forced, name)
	}
}

// forceWritten has the channels of writes stored whole in the next checkpoint.
func (d *deltaState) forceWritten(writes []write) {
	for _, w := range writes {
		d.forced[w.channel] = true
	}
}

// keepCommand keeps the writes of a Command for the end of an Exit run.
func (d *deltaState) keepCommand(writes []write) { d.commandExit = d.among(writes) }

// forceAfterStep marks the delta channels that the stored writes of the superstep would not
// rebuild. reapplied are the tasks that got their writes back.
func (d *deltaState) forceAfterStep(tasks *taskSet, reapplied map[string]bool) {
	loaded := d.loaded
	d.loaded = nil
	if len(d.g.deltas) == 0 {
		return
	}
	for _, t := range tasks.order {
		d.g.addOverwritten(d.forced, t.writes)
	}
	for _, w := range loaded {
		if !reapplied[w.TaskID] {
			d.g.addDelta(d.forced, w.Channel)
		}
	}
}

// keepBack keeps the superstep's writes to delta channels for the end of an Exit run.
func (d *deltaState) keepBack(step int, pending []answer.Write, tasks *taskSet) {
	if len(d.g.deltas) == 0 {
		return
	}
	first := d.firstStep == nil
	if first {
		d.firstStep = new(int)
		*d.firstStep = step
		d.keepBackNull(step, d.commandExit)
	}
	for _, w := range pending {
		if !d.g.isDelta(w.Channel) || first && (w.TaskID == nullTaskID || d.storedWrites[[2]string{w.TaskID, w.Channel}]) {
			continue
		}
		path, _ := tasks.get(w.TaskID).placed()
		d.exit = append(d.exit, exitWrite{step: step, taskID: w.TaskID, path: path, channel: w.Channel, value: w.Value})
	}
}

// keepBackNull keeps writes that belong to no task.
func (d *deltaState) keepBackNull(step int, writes []write) {
	for _, w := range writes {
		d.exit = append(d.exit, exitWrite{step: step, taskID: nullTaskID, channel: w.channel, value: w.value})
	}
}

// forceKeptBack marks the channels whose writes were kept back.
func (d *deltaState) forceKeptBack() {
	for _, w := range d.exit {
		d.forced[w.channel] = true
	}
}

// exitTask is a task under whose id and path Exit stores writes.
type exitTask struct{ id, path string }

// exitWrites groups the writes that were kept back by the tasks they are stored for, in
// the order of first mention. It leaves out channels that are stored whole.
func (d *deltaState) exitWrites(whole map[string]bool) (order []exitTask, writes map[exitTask][]write) {
	writes = map[exitTask][]write{}
	for _, w := range d.exit {
		if whole[w.channel] {
			continue
		}
		t := exitTask{id: exitDeltaTaskID(w.step, w.taskID)}
		switch {
		case w.taskID == nullTaskID:
		case d.firstStep != nil && w.step == *d.firstStep:
			t.path = w.path
		default:
			t = exitTask{exitDeltaLateTaskID(w.step, w.taskID), fmt.Sprintf("~~%010d%s", w.step, w.path)}
		}
		if writes[t] == nil {
			order = append(order, t)
		}
		writes[t] = append(writes[t], write{w.channel, w.value})
	}
	return order, writes
}
