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
func (r *runConfig) exits() bool { return r.opts.Durability == Exit && r.saver != nil }

// putWrites records what a task wrote, and stores it at once unless durability is Exit. t
// is nil for writes of no task.
func (l *loop) putWrites(t *task, taskID string, writes []write) error {
	encoded, err := l.pos.record(&l.saves.enc, t, taskID, writes)
	if err != nil || len(encoded) == 0 {
		return err
	}
	path, node := t.placed()
	l.saves.submitWrites(node, l.pos.here(), encoded, taskID, path)
	return nil
}

// placed is where the writes of t belong, and its node; t may be nil.
func (t *task) placed() (path, node string) {
	if t == nil {
		return "", ""
	}
	return t.pathStr, t.name
}

// record is putWrites without storing: it returns what is to be stored.
func (p *position) record(enc *encoder, t *task, taskID string, writes []write) ([]saver.Write, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	p.written[taskID] = true
	p.run.g.nameWrites(writes)
	path, node := t.placed()
	if err := enc.writesAgain(node, writes); err != nil {
		return nil, err
	}
	writes = lastSpecials(writes)
	toStore := writes
	if taskID == nullTaskID {
		// Savers identify a write by its index in the list. So the list only grows: old
		// writes come first and special ones last, because others would change their index.
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(b2i(isSpecial(a.channel)), b2i(isSpecial(b.channel))) })
		p.pending = slices.DeleteFunc(p.pending, func(w pendingWrite) bool { return w.taskID == nullTaskID && isSpecial(w.channel) })
		toStore = nil
		for _, w := range p.pending {
			if w.taskID == nullTaskID {
				toStore = append(toStore, write{w.channel, w.value})
			}
		}
		toStore = append(toStore, writes...)
	} else if p.has[taskID] {
		p.pending = slices.DeleteFunc(p.pending, func(w pendingWrite) bool { return w.taskID == taskID })
	}
	p.has[taskID] = true
	var encoded []saver.Write
	if p.run.saver != nil && !p.run.exits() {
		var err error
		if encoded, err = enc.encodeWrites(node, toStore); err != nil {
			return nil, err
		}
	}
	for _, w := range writes {
		p.pending = append(p.pending, newPending(taskID, path, w.channel, w.value))
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
func (s *saves) writesOp(node string, at saver.Config, writes []saver.Write, taskID, path string) *saveOp {
	at.Namespace, at.Epoch = s.run.ns, s.run.epoch
	put := &putWritesOp{s: s.run.saver, at: at, writes: writes, taskID: taskID, path: path}
	op := &put.saveOp
	op.run, op.what, op.barrier = put, "writes", taskID == nullTaskID
	if node != "" {
		op.what, op.of = writesOfNode, node
	}
	return op
}

func (s *saves) submitWrites(node string, at saver.Config, writes []saver.Write, taskID, path string) {
	s.submit(s.writesOp(node, at, writes, taskID, path), false)
}

// submit submits a save of writes. last: they are those of the last task of the superstep, so
// its checkpoint follows at once.
func (s *saves) submit(op *saveOp, last bool) {
	// Without a codec the saver encodes the values, which must not change meanwhile.
	switch {
	case s.enc.codec == nil:
		_ = s.pipe.store(op) // the pipeline keeps the error
	case last:
		s.pipe.hold(op)
	default:
		s.pipe.submit(op)
	}
}

// putCheckpoint makes the checkpoint that ends a superstep, or the input, and
// stores it as durability asks.
func (l *loop) putCheckpoint(ctx context.Context, source string) error {
	counts := countersOf(l.pos.md).advance(l.run.g.deltas, func(ch string) bool { return slices.Contains(l.pos.updated, ch) })
	parents := map[string]any{}
	for ns, id := range l.run.cpMap {
		parents[ns] = id
	}
	l.pos.md = saver.Metadata{"source": source, "step": l.pos.step, "parents": parents}
	if err := l.storeCheckpoint(ctx, counts, false); err != nil {
		return err
	}
	if err := l.saves.enc.channelsAgain(l.pos.set); err != nil {
		return err
	}
	l.pos.step++
	return nil
}

// storeCheckpoint makes the next checkpoint. At the end of an Exit run, exiting, it keeps
// the id of the current one. Without a saver, or earlier under Exit, it stores nothing.
func (l *loop) storeCheckpoint(ctx context.Context, counts counters, exiting bool) error {
	stores := l.run.saver != nil && (exiting || !l.run.exits())
	mint := func() string { return l.run.env().IDs.Next(l.pos.step) }
	if exiting {
		id := l.pos.cp.id
		mint = func() string { return id }
	}
	var set *channelSet
	var snapshots map[string]bool
	var next func(saver.Version) (saver.Version, error)
	if stores {
		set, next = l.pos.set, l.run.next
		snapshots = l.run.g.dueSnapshots(l.pos.set, counts, l.pos.cp.versions, l.saves.delta.forced)
	}
	cp, captured, err := l.run.g.create(l.pos.cp, set, mint, l.pos.updated, snapshots, l.pos.stored, next)
	if err != nil {
		return err
	}
	l.pos.cp = cp
	l.pos.countInMetadata(counts.metadata(snapshots))
	if !stores {
		return nil
	}
	for name := range snapshots {
		delete(l.saves.delta.forced, name)
	}
	changed := newVersions(l.pos.stored, cp.versions)
	stored, err := l.saves.enc.encodeCheckpoint(cp, captured, changed)
	if err != nil {
		return err
	}
	l.pos.stored = stored.Versions // stored has a copy that nobody changes
	changes, err := l.saves.takeItems(ctx)
	if err != nil {
		return err
	}
	put := &putOp{s: l.run.saver, at: l.pos.place, cp: stored, md: l.pos.md, changed: changed, changes: changes, note: l.pos.note(exiting)}
	l.pos.storedAs(cp.id)
	return l.saves.submitCheckpoint(put)
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

// submitCheckpoint stores a checkpoint, as durability asks, with what waits to go with it.
func (s *saves) submitCheckpoint(put *putOp) error {
	if s.run.common != nil { // merged once for all checkpoints of the run
		put.md, put.at.Metadata, put.at.Configurable = withCommon(s.run.common, put.md), nil, nil
	}
	put.at.Namespace, put.at.Epoch, put.at.ExpectHead = s.run.ns, s.run.epoch, s.expected()
	put.writes, s.withNext = s.withNext, nil
	if held := s.pipe.unheld(); held != nil {
		put.last, _ = held.run.(*putWritesOp)
	}
	op := &put.saveOp
	op.run, op.what, op.of, op.barrier = put, "checkpoint", put.cp.ID, true
	s.lastPut, s.owned.head = op, put.cp.ID
	// Sync waits here, before the next superstep. So does a run without a codec, because the
	// saver must encode the values before they change. Items are waited for, so that the next
	// superstep finds them, but not for their sync, unless it is Sync.
	sync := s.run.opts.Durability == Sync
	op.deferred = len(put.changes) > 0 && !sync
	if sync || s.enc.codec == nil || len(put.changes) > 0 {
		return s.pipe.store(op)
	}
	s.pipe.submit(op)
	return nil
}
