package pregel

import (
	"context"
	"fmt"
	"maps"

	"github.com/stele-go/stele/saver"
)

// deltaState is the bookkeeping for delta channels, which are rebuilt from stored writes.
// Where those cannot be relied on, the channel is stored whole. Under Exit the writes are
// kept back until the run ends, and are then stored on the checkpoint that it began with.
type deltaState struct {
	g            *Graph
	forced       map[string]bool    // channels to store whole in the next checkpoint
	loaded       []pendingWrite     // writes that a resume found; nil once checked
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
func (d *deltaState) init(g *Graph, initial *saver.Config, stored []pendingWrite) {
	*d = deltaState{g: g, initial: *initial, forced: map[string]bool{},
		storedWrites: map[[2]string]bool{}}
	for _, w := range stored {
		if w.taskID != nullTaskID && g.isDelta(w.channel) {
			d.storedWrites[[2]string{w.taskID, w.channel}] = true
		}
	}
}

// force marks the delta channels that were written to. They are stored whole.
func (d *deltaState) force(written []pendingWrite) {
	for _, w := range written {
		d.g.addDelta(d.forced, w.channel)
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
		if !reapplied[w.taskID] {
			d.g.addDelta(d.forced, w.channel)
		}
	}
}

// keepBack keeps the superstep's writes to delta channels for the end of an Exit run.
func (d *deltaState) keepBack(step int, pending []pendingWrite, tasks *taskSet) {
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
		if !d.g.isDelta(w.channel) || first && (w.taskID == nullTaskID || d.storedWrites[[2]string{w.taskID, w.channel}]) {
			continue
		}
		path, _ := tasks.get(w.taskID).placed()
		d.exit = append(d.exit, exitWrite{step: step, taskID: w.taskID, path: path, channel: w.channel, value: w.value})
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

// keepDeltaInput makes sure that the input of a delta channel can be read back. If the run
// starts from the newest stored checkpoint, the input is stored as writes of that;
// otherwise the channel is stored whole. The writes go into one call with the input
// checkpoint, because on their own they would make a thread that waits at a breakpoint look
// as if it had been resumed.
func (l *loop) keepDeltaInput(writes []write) error {
	mine := l.saves.delta.among(writes)
	if len(mine) == 0 {
		return nil
	}
	if l.run.exits() {
		l.saves.delta.keepBackNull(l.pos.step, mine)
		return nil
	}
	if l.pos.from == originNewest {
		id, err := uuid5(l.pos.cp.id, Input)
		if err != nil {
			return err
		}
		encoded, err := l.pos.record(&l.saves.enc, nil, id, mine)
		l.saves.withNext = append(l.saves.withNext, saver.TaskWrites{CheckpointID: l.pos.cp.id, TaskID: id, Writes: encoded})
		return err
	}
	for _, w := range mine {
		l.saves.delta.forced[w.channel] = true
	}
	return nil
}

// storeExitDeltas stores the run's writes to delta channels on the checkpoint that it began
// with, except for channels that are stored whole.
func (l *loop) storeExitDeltas() error {
	if len(l.saves.delta.exit) == 0 {
		return nil
	}
	if l.pos.from.found() && l.pos.from != originNewest {
		l.saves.delta.forceKeptBack()
	}
	order, writes := l.saves.delta.exitWrites(l.run.g.dueSnapshots(l.pos.set, countersOf(l.pos.md), l.pos.cp.versions, l.saves.delta.forced))
	if len(order) == 0 {
		return nil
	}
	anchor := l.saves.delta.initial
	if !l.pos.from.found() {
		anchor = l.saves.storeAnchor(l.pos.savedID)
		l.pos.place.CheckpointID, l.pos.place.Namespace = anchor.CheckpointID, l.run.ns
	}
	for _, t := range order {
		encoded, err := l.saves.enc.encodeWrites("", writes[t])
		if err != nil {
			return err
		}
		l.saves.submitWrites("", anchor.At(anchor.CheckpointID), encoded, t.id, t.path)
	}
	return nil
}

// storeAnchor stores an empty checkpoint for the writes of the first run on a thread.
func (s *saves) storeAnchor(id string) saver.Config {
	at := s.delta.initial
	at.Namespace = s.run.ns
	anchor := saver.Checkpoint{V: formatVersion, ID: id, TS: timestamp(s.run.env().Now()),
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{}}
	put := at
	put.CheckpointID, put.ExpectHead, put.Epoch = "", s.expected(), s.run.epoch
	to, note := s.run.saver, &saver.Note{Graph: s.run.g.noted(), Deltas: s.run.g.deltasOf(nil)}
	s.pipe.submit(&saveOp{what: "checkpoint", of: anchor.ID, barrier: true, run: saveFunc(func(ctx context.Context) error {
		_, err := to.PutRequest(ctx, saver.PutRequest{Config: put, Checkpoint: anchor, Metadata: saver.Metadata{"step": -2}, Note: note})
		return err
	})})
	s.owned.head = anchor.ID
	at.CheckpointID = anchor.ID
	return at
}

// countInMetadata puts the counters of delta channels into the metadata. It copies the
// metadata, because events may hold it.
func (p *position) countInMetadata(counts map[string]any) {
	if _, has := p.md[keyDeltaCounters]; !has && counts == nil {
		return
	}
	p.md = maps.Clone(p.md)
	if delete(p.md, keyDeltaCounters); counts != nil {
		p.md[keyDeltaCounters] = counts
	}
}
