package pregel

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// exits reports whether the run stores everything at its end.
func (l *loop) exits() bool { return l.opts.Durability == Exit && l.saver != nil }

// putWrites records what a task wrote, and stores it at once unless durability is Exit. t
// is nil for writes of no task.
func (l *loop) putWrites(t *task, taskID string, writes []write) error {
	encoded, err := l.recordWrites(t, taskID, writes)
	if err != nil || len(encoded) == 0 {
		return err
	}
	path, node := t.placed()
	l.submitWrites(node, l.place.At(l.cp.id), encoded, taskID, path)
	return nil
}

// placed is where the writes of t belong, and its node; t may be nil.
func (t *task) placed() (path, node string) {
	if t == nil {
		return "", ""
	}
	return t.pathStr, t.name
}

// recordWrites is putWrites without storing: it returns what is to be stored.
func (l *loop) recordWrites(t *task, taskID string, writes []write) ([]saver.Write, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	l.delta.written[taskID] = true
	l.g.nameWrites(writes)
	path, node := t.placed()
	if err := l.writesAgain(node, writes); err != nil {
		return nil, err
	}
	writes = lastSpecials(writes)
	toStore := writes
	if taskID == nullTaskID {
		// Savers identify a write by its index in the list. So the list only grows: old
		// writes come first and special ones last, because others would change their index.
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(b2i(isSpecial(a.channel)), b2i(isSpecial(b.channel))) })
		l.pending = slices.DeleteFunc(l.pending, func(w pendingWrite) bool { return w.taskID == nullTaskID && isSpecial(w.channel) })
		toStore = nil
		for _, w := range l.pending {
			if w.taskID == nullTaskID {
				toStore = append(toStore, write{w.channel, w.value})
			}
		}
		toStore = append(toStore, writes...)
	} else if l.has[taskID] {
		l.pending = slices.DeleteFunc(l.pending, func(w pendingWrite) bool { return w.taskID == taskID })
	}
	l.has[taskID] = true
	var encoded []saver.Write
	if l.saver != nil && !l.exits() {
		var err error
		if encoded, err = l.encodeWrites(node, toStore); err != nil {
			return nil, err
		}
	}
	for _, w := range writes {
		l.pending = append(l.pending, newPending(taskID, path, w.channel, w.value))
	}
	return encoded, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lastSpecials keeps the last write of each channel if all are special. Otherwise it
// returns writes itself.
func lastSpecials(writes []write) []write {
	if slices.ContainsFunc(writes, func(w write) bool { return !isSpecial(w.channel) }) {
		return writes
	}
	var out []write
	for i, w := range writes {
		if !slices.ContainsFunc(writes[i+1:], func(x write) bool { return x.channel == w.channel }) {
			out = append(out, w)
		}
	}
	return out
}

// putWritesOp stores the writes of a task.
type putWritesOp struct {
	saveOp

	s            saver.Saver
	at           saver.Config
	writes       []saver.Write
	taskID, path string
}

func (o *putWritesOp) save(ctx context.Context) error {
	return o.s.PutWrites(ctx, o.at, o.writes, o.taskID, o.path)
}

// writesOp is the save of writes against a checkpoint of this graph.
func (l *loop) writesOp(node string, at saver.Config, writes []saver.Write, taskID, path string) *saveOp {
	at.Namespace, at.Epoch = l.ns, l.owned.epoch
	put := &putWritesOp{s: l.saver, at: at, writes: writes, taskID: taskID, path: path}
	op := &put.saveOp
	op.run, op.what, op.barrier = put, "writes", taskID == nullTaskID
	if node != "" {
		op.what, op.of = writesOfNode, node
	}
	return op
}

func (l *loop) submitWrites(node string, at saver.Config, writes []saver.Write, taskID, path string) {
	l.submit(l.writesOp(node, at, writes, taskID, path), false)
}

// submit submits a save of writes. last: they are those of the last task of the superstep, so
// its checkpoint follows at once.
func (l *loop) submit(op *saveOp, last bool) {
	// Without a codec the saver encodes the values, which must not change meanwhile.
	switch {
	case l.codec == nil:
		_ = l.pipe.store(op) // the pipeline keeps the error
	case last:
		l.pipe.hold(op)
	default:
		l.pipe.submit(op)
	}
}

// putCheckpoint makes the checkpoint that ends a superstep, or the input, and
// stores it as durability asks.
func (l *loop) putCheckpoint(ctx context.Context, source string) error {
	counts := countersOf(l.md).advance(l.g.deltas, func(ch string) bool { return slices.Contains(l.updated, ch) })
	parents := map[string]any{}
	for ns, id := range l.cpMap {
		parents[ns] = id
	}
	l.md = saver.Metadata{"source": source, "step": l.step, "parents": parents}
	if err := l.storeCheckpoint(ctx, counts, false); err != nil {
		return err
	}
	if err := l.channelsAgain(); err != nil {
		return err
	}
	l.step++
	return nil
}

// storeCheckpoint makes the next checkpoint. At the end of an Exit run, exiting, it keeps
// the id of the current one. Without a saver, or earlier under Exit, it stores nothing.
func (l *loop) storeCheckpoint(ctx context.Context, counts counters, exiting bool) error {
	stores := l.saver != nil && (exiting || !l.exits())
	mint := func() string { return l.env().IDs.Next(l.step) }
	if exiting {
		id := l.cp.id
		mint = func() string { return id }
	}
	var set *channelSet
	var snapshots map[string]bool
	var next func(saver.Version) (saver.Version, error)
	if stores {
		set, next = l.set, l.next
		snapshots = l.g.dueSnapshots(l.set, counts, l.cp.versions, l.delta.forced)
	}
	cp, captured, err := l.g.create(l.cp, set, mint, l.updated, snapshots, l.stored, next)
	if err != nil {
		return err
	}
	l.cp = cp
	l.countInMetadata(counts.metadata(snapshots))
	if !stores {
		return nil
	}
	for name := range snapshots {
		delete(l.delta.forced, name)
	}
	changed := newVersions(l.stored, cp.versions)
	put, err := l.encodeCheckpoint(cp, captured, changed)
	if err != nil {
		return err
	}
	l.stored = put.Versions // put has a copy that nobody changes
	return l.submitCheckpoint(ctx, put, l.md, changed, exiting)
}

// putOp stores a checkpoint, and items with it.
type putOp struct {
	saveOp

	s       saver.Saver
	at      saver.Config
	cp      saver.Checkpoint
	md      saver.Metadata
	changed map[string]saver.Version
	changes []saver.Change
	writes  []saver.TaskWrites
	note    *saver.Note
	// last are the writes of the task that ended last, which go with the checkpoint that they
	// made: one commit for both. If it is refused they are stored by themselves, so that the
	// task does not run again; and if it was too large, the checkpoint then as well. May be nil.
	last *putWritesOp
}

func (o *putOp) save(ctx context.Context) error {
	return o.afterPut(ctx, o.put(ctx, o.withLast()))
}

// withLast are all writes that go with the checkpoint.
func (o *putOp) withLast() []saver.TaskWrites {
	w := o.last
	if w == nil {
		return o.writes
	}
	return append(slices.Clip(o.writes), saver.TaskWrites{CheckpointID: w.at.CheckpointID, TaskID: w.taskID, TaskPath: w.path, Writes: w.writes})
}

// afterPut is the outcome of a save whose checkpoint was put with all writes and err.
func (o *putOp) afterPut(ctx context.Context, err error) error {
	switch {
	case o.last == nil || err == nil || errors.Is(err, saver.ErrOutcomeUnknown):
		return err
	case errors.Is(err, saver.ErrTooLarge): // together; by itself each may be within the limits
		if err = o.last.save(ctx); err == nil {
			err = o.put(ctx, o.writes)
		}
		return err
	}
	return alsoFailed(err, o.last.save(ctx))
}

func (o *putOp) put(ctx context.Context, writes []saver.TaskWrites) error {
	_, err := o.s.PutRequest(ctx, o.request(writes))
	return err
}

func (o *putOp) request(writes []saver.TaskWrites) saver.PutRequest {
	return saver.PutRequest{Config: o.at, Checkpoint: o.cp, Metadata: o.md, NewVersions: o.changed, Writes: writes, Changes: o.changes, Note: o.note}
}

// withCommon is the metadata of a checkpoint with what the config of its run adds to it.
func withCommon(common, md saver.Metadata) saver.Metadata {
	out := maps.Clone(common)
	maps.Copy(out, md)
	return out
}

func (l *loop) submitCheckpoint(ctx context.Context, cp saver.Checkpoint, md saver.Metadata, changed map[string]saver.Version, exiting bool) error {
	changes, err := l.takeItems(ctx)
	if err != nil {
		return err
	}
	at := l.place
	if l.common != nil { // merged once for all checkpoints of the run
		md, at.Metadata, at.Configurable = withCommon(l.common, md), nil, nil
	}
	at.Namespace, at.Epoch = l.ns, l.owned.epoch
	at.ExpectHead = l.expected()
	if l.place.CheckpointID != "" {
		prev := l.place.At(l.place.CheckpointID)
		l.prev = &prev
	} else {
		l.prev = nil
	}
	put := &putOp{s: l.saver, at: at, cp: cp, md: md, changed: changed, changes: changes, writes: l.withNext, note: l.note(exiting)}
	l.withNext = nil
	if held := l.pipe.unheld(); held != nil {
		put.last, _ = held.run.(*putWritesOp)
	}
	op := &put.saveOp
	op.run, op.what, op.of, op.barrier = put, "checkpoint", cp.ID, true
	l.lastPut, l.owned.head = op, cp.ID
	l.place.CheckpointID, l.place.Namespace = cp.ID, l.ns
	// Sync waits here, before the next superstep. So does a run without a codec, because the
	// saver must encode the values before they change. Items are waited for, so that the next
	// superstep finds them, but not for their sync, unless it is Sync.
	op.deferred = len(changes) > 0 && l.opts.Durability != Sync
	if l.opts.Durability == Sync || l.codec == nil || len(changes) > 0 {
		return l.pipe.store(op)
	}
	l.pipe.submit(op)
	return nil
}
