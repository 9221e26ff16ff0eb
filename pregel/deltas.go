package pregel

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// deltaState is the bookkeeping for delta channels, which are rebuilt from stored writes.
// Where those cannot be relied on, the channel is stored whole.
type deltaState struct {
	forced       map[string]bool // stored whole in the next checkpoint
	loaded       []pendingWrite  // writes a resume found; nil once checked
	reapplied    map[string]bool // tasks of the superstep that got theirs back
	written      map[string]bool // tasks of the superstep that wrote during this run
	storedWrites map[[2]string]bool
	exit         []exitWrite // exit durability: writes to store at the end
	commandExit  []write
	firstStep    *int
	initial      saver.Config // the checkpoint the run began with
}

// exitWrite is a write to a delta channel that exit durability stores at the
// end.
type exitWrite struct {
	step         int
	taskID, path string
	channel      string
	value        any
}

// beginDeltas notes which writes to delta channels are stored already.
func (l *loop) beginDeltas() {
	l.delta.forced = map[string]bool{}
	l.delta.written = map[string]bool{}
	l.delta.reapplied = map[string]bool{}
	l.delta.storedWrites = map[[2]string]bool{}
	for _, w := range l.pending {
		if w.taskID != nullTaskID && slices.Contains(l.g.deltas, w.channel) {
			l.delta.storedWrites[[2]string{w.taskID, w.channel}] = true
		}
	}
}

func (l *loop) forceDeltas(writes []pendingWrite) {
	for _, w := range writes {
		l.g.deltasAmong(l.delta.forced, w.channel)
	}
}

// keepDeltaInput makes sure that the input of a delta channel can be read back. If the run
// starts from the newest stored checkpoint, the input is stored as writes of that;
// otherwise the channel is stored whole. The writes go into one call with the input
// checkpoint, because on their own they would make a thread that waits at a breakpoint look
// as if it had been resumed.
func (l *loop) keepDeltaInput(writes []write) error {
	var mine []write
	for _, w := range writes {
		if slices.Contains(l.g.deltas, w.channel) {
			mine = append(mine, w)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	if l.exits() {
		for _, w := range mine {
			l.delta.exit = append(l.delta.exit, exitWrite{step: l.step, taskID: nullTaskID, channel: w.channel, value: w.value})
		}
		return nil
	}
	if l.from == originNewest {
		id, err := uuid5(l.cp.id, Input)
		if err != nil {
			return err
		}
		encoded, err := l.recordWrites(nil, id, mine)
		l.withNext = append(l.withNext, saver.TaskWrites{CheckpointID: l.cp.id, TaskID: id, Writes: encoded})
		return err
	}
	for _, w := range mine {
		l.delta.forced[w.channel] = true
	}
	return nil
}

// forceAfterStep finds delta channels whose stored writes would not rebuild
// them: they are stored whole.
func (l *loop) forceAfterStep() {
	loaded := l.delta.loaded
	l.delta.loaded = nil
	if len(l.g.deltas) == 0 {
		return
	}
	for _, t := range l.tasks.order {
		for _, w := range t.writes {
			if isOverwrite(w.value) {
				l.g.deltasAmong(l.delta.forced, w.channel)
			}
		}
	}
	for _, w := range loaded {
		if !l.delta.reapplied[w.taskID] {
			l.g.deltasAmong(l.delta.forced, w.channel)
		}
	}
}

// keepExitWrites remembers the superstep's writes to delta channels until the
// end of an Exit run.
func (l *loop) keepExitWrites() {
	if !l.exits() || len(l.g.deltas) == 0 {
		return
	}
	first := l.delta.firstStep == nil
	if first {
		step := l.step
		l.delta.firstStep = &step
		for _, w := range l.delta.commandExit {
			l.delta.exit = append(l.delta.exit, exitWrite{step: l.step, taskID: nullTaskID, channel: w.channel, value: w.value})
		}
	}
	for _, w := range l.pending {
		if !slices.Contains(l.g.deltas, w.channel) {
			continue
		}
		if first && (w.taskID == nullTaskID || l.delta.storedWrites[[2]string{w.taskID, w.channel}]) {
			continue
		}
		path := ""
		if t := l.tasks.get(w.taskID); t != nil {
			path = t.pathStr
		}
		l.delta.exit = append(l.delta.exit, exitWrite{step: l.step, taskID: w.taskID, path: path, channel: w.channel, value: w.value})
	}
}

// storeExitDeltas stores the run's writes to delta channels on the checkpoint it
// began with, unless the channel is stored whole at the end.
func (l *loop) storeExitDeltas() error {
	if len(l.delta.exit) == 0 {
		return nil
	}
	if l.from.found() && l.from != originNewest {
		for _, w := range l.delta.exit {
			l.delta.forced[w.channel] = true
		}
	}
	whole := l.g.dueSnapshots(l.set, countersOf(l.md), l.cp.versions, l.delta.forced)
	type key struct{ id, path string }
	groups := map[key][]write{}
	var order []key
	for _, w := range l.delta.exit {
		if whole[w.channel] {
			continue
		}
		k := key{exitDeltaTaskID(w.step, w.taskID), ""}
		switch {
		case w.taskID == nullTaskID:
		case l.delta.firstStep != nil && w.step == *l.delta.firstStep:
			k.path = w.path
		default:
			k = key{exitDeltaLateTaskID(w.step, w.taskID), fmt.Sprintf("~~%010d%s", w.step, w.path)}
		}
		if _, ok := groups[k]; !ok {
			order = append(order, k)
		}
		groups[k] = append(groups[k], write{w.channel, w.value})
	}
	if len(order) == 0 {
		return nil
	}
	anchor := l.delta.initial
	if !l.from.found() {
		anchor = l.storeAnchor()
	}
	for _, k := range order {
		encoded, err := l.encodeWrites("", groups[k])
		if err != nil {
			return err
		}
		l.submitWrites("", anchor.At(anchor.CheckpointID), encoded, k.id, k.path)
	}
	return nil
}

// storeAnchor stores an empty checkpoint that the writes of a first run can hang
// on.
func (l *loop) storeAnchor() saver.Config {
	at := l.delta.initial
	at.Namespace = l.ns
	anchor := saver.Checkpoint{V: formatVersion, ID: l.savedID, TS: timestamp(l.env().Now()),
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{}}
	put := at
	put.CheckpointID, put.ExpectHead = "", l.expected()
	s, note := l.saver, &saver.Note{Graph: l.g.noted(), Deltas: l.g.deltasOf(nil)}
	l.pipe.submit(&saveOp{what: "checkpoint", of: anchor.ID, barrier: true, run: saveFunc(func(ctx context.Context) error {
		_, err := putNoted(ctx, s, saver.PutRequest{Config: put, Checkpoint: anchor, Metadata: saver.Metadata{"step": -2}, Note: note})
		return err
	})})
	l.owned.head = anchor.ID
	l.place.CheckpointID, l.place.Namespace = anchor.ID, l.ns
	at.CheckpointID = anchor.ID
	return at
}

// countInMetadata puts the counters of delta channels into the metadata, which
// events may hold already.
func (l *loop) countInMetadata(counts map[string]any) {
	const key = "counters_since_delta_snapshot"
	if _, has := l.md[key]; !has && counts == nil {
		return
	}
	l.md = maps.Clone(l.md)
	if delete(l.md, key); counts != nil {
		l.md[key] = counts
	}
}
