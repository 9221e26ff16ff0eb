package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// How a checkpoint is an entry: slot 0 names the parent (Name) and the run (Tag) and holds the
// record. With layout.FlagDeltas, slot 1 is the set of delta channels. Each further slot is a
// channel, its version, and its value.
//
// How writes are an entry: the first slot names task (Name) and path (Tag) and
// holds no value; each further slot is a channel, the index, and the value.

// flagLegacy is the entry flag of a checkpoint of format 3 or older, whose state
// includes packets its parent's tasks wrote.
const flagLegacy = index.FlagUser

// Put implements Saver.
func (s *Saver) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, newVersions map[string]saver.Version) (saver.Config, error) {
	return s.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: newVersions})
}

// PutRequest implements saver.Saver: checkpoint and writes are one record of
// the log. The whole way of a put stands at engine.Engine.CommitWith.
func (s *Saver) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	begin := engine.Now()
	p := &diskPut{s: s}
	step, err := p.prepare(ctx, &req, begin)
	if err == nil {
		err = s.e.CommitWith(ctx, step.CommitOptions, step.IDs, step.Do)
	}
	s.m.saved(begin, err)
	if err != nil { // the committer may still use it
		return saver.Config{}, err
	}
	return p.plan.Target, nil
}

// groupBytes is the size from which a group takes no further checkpoint. It is how much the log writes
// in one call: a larger group gains nothing, and would have to wait until the queue of the log has room
// for all of it, while smaller records overtake it.
const groupBytes = 1 << 20

// putter is a Saver that stores several checkpoints together.
type putter struct{ s *Saver }

// PutGroup implements group.Putter: each checkpoint is a record of the log, and the log gets all of
// them together.
func (t putter) PutGroup(ctx context.Context, reqs []saver.PutRequest) (n int, err error) {
	begin := engine.Now()
	s := t.s
	following, steps := new(engine.Following), make([]engine.Step, 0, len(reqs))
	var size int64
	for i := range reqs {
		if size >= groupBytes {
			break
		}
		p := &diskPut{s: s, following: following}
		var step engine.Step
		if step, err = p.prepare(ctx, &reqs[i], engine.Now()); err != nil {
			break // those before it are stored
		}
		steps, size = append(steps, step), size+step.Size
	}
	if len(steps) > 0 {
		var refused error
		if n, refused = s.e.CommitAll(ctx, steps); refused != nil {
			err = refused
		}
	}
	for range n {
		s.m.saved(begin, nil)
	}
	if err != nil {
		s.m.saved(begin, err)
	}
	return n, err
}

// prepare does all the work that does not depend on stored data.
func (p *diskPut) prepare(ctx context.Context, req *saver.PutRequest, begin engine.Time) (step engine.Step, err error) {
	s := p.s
	err = p.plan.Make(req, rules.Encoding{Codec: s.codec.Serializer, Room: layout.KindRoom, Borrow: true})
	encoded := s.m.countEncoded(begin, p.plan.Encoded, err)
	if err != nil {
		return step, err
	}
	changes, err := s.prepared(req.Changes)
	if err != nil {
		return step, err
	}
	if err := ctx.Err(); err != nil {
		return step, err
	}
	p.changes = changes
	p.name()
	if err := p.encode(); err != nil {
		return step, err
	}
	ids := append(make([]string, 0, 2), p.id)
	if p.run != "" {
		ids = append(ids, p.runKey)
	}
	for _, c := range p.changes {
		ids = append(ids, c.Partitions...)
	}
	return engine.Step{CommitOptions: engine.CommitOptions{Size: p.size(), Deferred: saver.SyncDeferred(ctx), Began: encoded}, IDs: ids, Do: p.commit}, nil
}

// name makes the names under which the put is stored.
func (p *diskPut) name() {
	target := &p.plan.Target
	p.id, p.key = layout.ThreadKey(target.ThreadID), layout.CheckpointKey(target.Namespace, target.CheckpointID)
	if p.run = shortRun(p.plan.Run); p.run != "" {
		p.runKey = layout.RunKey(p.run)
	}
	if source := p.plan.Record.Source(); source != "" {
		p.source = layout.CheckpointKey(target.Namespace, source)
	}
}

// prepared are changes of other parts of this store; those of another are refused.
func (s *Saver) prepared(changes []saver.Change) ([]engine.Prepared, error) {
	var out []engine.Prepared
	for i, c := range changes {
		p, ok := c.(engine.Prepared)
		if !ok || p.Engine != s.e {
			return nil, saver.Invalidf(fmt.Sprintf("changes[%d]", i), "belongs to another store; prepare it with one on this saver")
		}
		out = append(out, p)
	}
	return out, nil
}

// shortRun returns the key by which DeleteForRuns finds the checkpoints of a run: the run id or, if
// that is too long for a key, its hash.
func shortRun(run string) string {
	if len(run) <= saver.MaxName {
		return run
	}
	sum := sha256.Sum256([]byte(run))
	return "\x00sha256:" + hex.EncodeToString(sum[:])
}

// diskPut is one Put on its way into the log. The log has a single committer, so everything that
// does not depend on stored data is prepared before the commit is queued. The method commit may run
// after the call has returned, because the call's context can end first. So commit must not touch
// what the plan borrows from the request.
type diskPut struct {
	s       *Saver
	plan    rules.PutPlan
	id      string // of the thread, for the engine
	run     string
	runKey  string // of run, for the engine; "" if there is none
	key     string // of the entry
	source  string // the key of plan.Record.Source; "" if there is none
	record  engine.Value
	values  []engine.Value  // of the channels plan.Record.Stored, and behind them those of the writes
	slots   []engine.SlotIn // complete but for the references of unchanged channels, which commit sets
	flags   uint8           // of the entry, what the note says
	changes []engine.Prepared
	// following are the last values of the puts that are committed together with this one; nil if there are none.
	following *engine.Following
}

// encode builds everything that does not depend on stored data.
func (p *diskPut) encode() error {
	r := &p.plan.Record
	rec := layout.CheckpointRecord{V: r.Checkpoint.V, Ts: r.Checkpoint.TS, Updated: r.Checkpoint.Updated, Seen: r.Checkpoint.Seen,
		Note: r.Note, Metadata: r.Metadata}
	var err error
	series := engine.Series{Partition: p.id, Group: p.plan.Target.Namespace, Name: layout.RecordSeries}
	if p.record, err = p.s.e.NewRevision(p.following, series, rec.Encode()); err != nil {
		return fmt.Errorf("checkpoint record: %w", err)
	}
	stored := len(r.Stored)
	for i := range p.plan.Writes {
		stored += len(p.plan.Writes[i].Values)
	}
	p.values = make([]engine.Value, len(r.Stored), stored)
	for i, channel := range r.Stored {
		series.Name = channel
		t := p.plan.Values[i]
		if prefix, whole := layout.KindPrefix(t.Kind), p.plan.WithRoom(i); whole != nil && len(prefix) == layout.KindRoom {
			copy(whole, prefix)
			p.values[i], err = p.s.e.NewRevision(p.following, series, whole)
		} else {
			p.values[i], err = p.s.e.NewRevision(p.following, series, prefix, t.Data)
		}
		if err != nil {
			return fmt.Errorf("channel %q: %w", channel, err)
		}
	}
	p.makeSlots()
	for i := range p.plan.Writes {
		w := &p.plan.Writes[i]
		for n, t := range w.Values {
			v, err := engine.NewValue(layout.KindPrefix(t.Kind), t.Data)
			if err != nil {
				return fmt.Errorf("write %d on channel %q: %w", n, w.Channels[n], err)
			}
			p.values = append(p.values, v)
		}
	}
	return nil
}

// makeSlots makes the slots of the entry: the record, and the channels in the order
// of names.
func (p *diskPut) makeSlots() {
	r := &p.plan.Record
	names := layout.SortedNames(r.Checkpoint.Versions)
	p.slots = append(make([]engine.SlotIn, 0, 2+len(names)), engine.SlotIn{Name: r.Parent, Tag: p.run, Value: &p.record})
	p.flags = layout.NoteFlags(r.Note)
	if r.Note != nil {
		if tag, ok := layout.DeltaSet(names, r.Note.Deltas); ok {
			p.slots = append(p.slots, engine.SlotIn{Tag: tag})
			p.flags |= layout.FlagDeltas
		}
	}
	// A step gives all channels that it changes one version, as a rule: one string is enough
	// for them. Those of the others are of no use once inherit has found the parent's, so they
	// share one, too.
	var last saver.Version
	var tag string
	var room [256]byte
	others := room[:0]
	first := len(p.slots)
	ends := make([]int, len(names)) // of the version in others; 0 for a channel that changed
	stored, emptied := 0, 0         // of the lists, whose order is that of names
	for n, channel := range names {
		slot, v := engine.SlotIn{Name: channel}, r.Checkpoint.Versions[channel]
		switch {
		case stored < len(r.Stored) && r.Stored[stored] == channel:
			slot.Value = &p.values[stored]
			stored++
		case emptied < len(r.Emptied) && r.Emptied[emptied] == channel:
			slot.Empty = true
			emptied++
		}
		if slot.Value == nil && !slot.Empty {
			others = layout.AppendVersion(others, v)
			ends[n] = len(others)
		} else {
			if tag == "" || v != last {
				last, tag = v, layout.PackVersion(v)
			}
			slot.Tag = tag
		}
		p.slots = append(p.slots, slot)
	}
	all, from := string(others), 0
	for n, end := range ends {
		if end > 0 {
			p.slots[first+n].Tag, from = all[from:end], end
		}
	}
}

// size is about how many bytes the record will have.
func (p *diskPut) size() int64 {
	n := p.record.LogSize() + sizeOf(p.values)
	for _, c := range p.changes {
		n += c.Size
	}
	return n
}

func sizeOf(vals []engine.Value) int64 {
	var n int64
	for _, v := range vals {
		n += v.LogSize()
	}
	return n
}

func storedValues(w *rules.WritesPlan) ([]engine.Value, error) {
	vals := make([]engine.Value, len(w.Values))
	for i, t := range w.Values {
		var err error
		if vals[i], err = engine.NewValue(layout.KindPrefix(t.Kind), t.Data); err != nil {
			return nil, fmt.Errorf("write %d on channel %q: %w", i, w.Channels[i], err)
		}
	}
	return vals, nil
}

// commit runs in commit order: what it reads is what all earlier calls left.
func (p *diskPut) commit(tx *engine.Tx) error {
	target, rec := p.plan.Target, &p.plan.Record
	ns := target.Namespace
	t := tx.Partition(p.id)
	if err := p.check(tx, t); err != nil {
		return err
	}
	p.inherit(t, ns)
	flags := p.flags
	if ns == "" {
		flags |= index.FlagHead
	}
	if rec.Checkpoint.V < rules.FirstVersionWithTasks {
		flags |= flagLegacy
	}
	if err := tx.Put(p.id, p.key, flags, p.slots); err != nil {
		return err
	}
	vals := p.values[len(rec.Stored):]
	for i := range p.plan.Writes {
		w := &p.plan.Writes[i]
		if len(w.Channels) == 0 {
			continue
		}
		if err := putWrites(tx, p.id, target, w, vals[:len(w.Channels)], i); err != nil {
			return err
		}
		vals = vals[len(w.Channels):]
	}
	updateStatus(tx, p.id) // behind operations on the same thread, so that it is written shorter
	if p.run != "" {
		run := tx.Partition(p.runKey)
		if run == nil || run.Get(target.ThreadID) == nil {
			if err := tx.Put(p.runKey, target.ThreadID, 0, nil); err != nil {
				return err
			}
		}
	}
	for _, c := range p.changes {
		if err := c.Do(tx); err != nil {
			return err
		}
	}
	p.s.newest.put(target.ThreadID, target.CheckpointID, tx.LSN())
	return nil
}

// check refuses a checkpoint upon something deleted, or upon another head than
// the caller expects.
func (p *diskPut) check(tx *engine.Tx, t *index.Partition) error {
	target := p.plan.Target
	if err := p.s.owned.Check(target.ThreadID, p.plan.Epoch); err != nil {
		return err
	}
	var deleted *rules.Deleted
	switch d, ok, err := p.s.deletedMemory(tx, target.ThreadID); {
	case err != nil:
		return err
	case ok:
		deleted = &d
	}
	exists := func(id string) bool { return t != nil && t.Get(layout.CheckpointKey(target.Namespace, id)) != nil }
	return p.plan.Check(deleted, exists, func() string { return headOf(t, target.Namespace) })
}

func headOf(t *index.Partition, ns string) string {
	if t == nil {
		return ""
	}
	prefix := layout.CheckpointPrefix(ns)
	if ns == "" { // all of them have FlagHead
		return strings.TrimPrefix(t.Head, prefix)
	}
	if it := t.Last(prefix); it != nil {
		return strings.TrimPrefix(it.Key, prefix)
	}
	return ""
}

// sourceOf is the checkpoint that unchanged channels take their values from.
func (p *diskPut) sourceOf(t *index.Partition) *index.Entry {
	if t == nil || p.source == "" {
		return nil
	}
	return t.Get(p.source)
}

// inherit sets the refs of the unchanged channels: to the source's value if the versions agree,
// otherwise to the newest value stored in the namespace under this channel and version.
func (p *diskPut) inherit(t *index.Partition, ns string) {
	source := channelSlots(p.sourceOf(t), nil)
	first := firstChannel(p.flags)
	for i := first; i < len(p.slots); i++ {
		slot := &p.slots[i]
		if slot.Value != nil || slot.Empty {
			continue
		}
		var s *index.Slot
		if n := i - first; n < len(source) && source[n].Name == slot.Name { // as a rule the channels are the same
			s = &source[n]
		} else {
			s = findSlot(source, slot.Name)
		}
		slot.Ref = index.Ref{}
		if s != nil && s.Tag == slot.Tag {
			slot.Name, slot.Tag, slot.Ref = s.Name, s.Tag, s.Ref // its long strings are kept anyway
		}
		if slot.Ref == (index.Ref{}) && t != nil {
			slot.Ref = newestStored(t, ns, slot.Name, slot.Tag)
		}
	}
}

// channelSlots are the channels of a checkpoint, in the order of names, in room if they fit.
func channelSlots(it *index.Entry, room []index.Slot) []index.Slot {
	if it == nil {
		return nil
	}
	return it.Slots.Append(room[:0], firstChannel(it.Flags))
}

// firstChannel is the slot of a checkpoint's first channel.
func firstChannel(flags uint8) int {
	if flags&layout.FlagDeltas != 0 {
		return 2
	}
	return 1
}

func findSlot(slots []index.Slot, channel string) *index.Slot {
	i, ok := slices.BinarySearchFunc(slots, channel, func(s index.Slot, c string) int { return strings.Compare(s.Name, c) })
	if !ok {
		return nil
	}
	return &slots[i]
}

// newestStored looks through the whole namespace. It is rare: a checkpoint
// without a parent, or upon one that is not there.
func newestStored(t *index.Partition, ns, channel, version string) index.Ref {
	var best index.Ref
	var slots []index.Slot
	t.Ascend(layout.CheckpointPrefix(ns), func(it *index.Entry) bool {
		slots = channelSlots(it, slots)
		if s := findSlot(slots, channel); s != nil && s.Tag == version && s.Ref.LSN > best.LSN {
			best = s.Ref
		}
		return true
	})
	return best
}

// putWrites stores one batch of writes in the partition of their thread. n is the number of the batch
// in its commit.
func putWrites(tx *engine.Tx, id string, at saver.Config, w *rules.WritesPlan, vals []engine.Value, n int) error {
	slots := append(make([]engine.SlotIn, 0, 1+len(vals)), engine.SlotIn{Name: w.TaskID, Tag: w.TaskPath})
	for i := range vals {
		slots = append(slots, engine.SlotIn{Name: w.Channels[i], Tag: packIndex(w.Index(i)), Value: &vals[i]})
	}
	key := layout.WritesKey(at.Namespace, w.CheckpointID, tx.LSN(), n)
	return tx.Put(id, key, 0, slots)
}

// PutWrites implements Saver.
func (s *Saver) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	begin := engine.Now()
	err := s.putWrites(ctx, begin, cfg, writes, taskID, taskPath)
	s.m.saved(begin, err)
	return err
}

func (s *Saver) putWrites(ctx context.Context, begin engine.Time, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	plan, err := rules.NewWritesPlan(cfg, writes, taskID, taskPath, s.codec.Serializer)
	encoded := s.m.countEncoded(begin, plan.Encoded, err)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	vals, err := storedValues(&plan)
	if err != nil {
		return err
	}
	id := layout.ThreadKey(cfg.ThreadID)
	return s.e.CommitWith(ctx, engine.CommitOptions{Size: sizeOf(vals), Deferred: saver.SyncDeferred(ctx), Began: encoded}, []string{id},
		func(tx *engine.Tx) error {
			if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
				return err
			}
			d, ok, err := s.deletedMemory(tx, cfg.ThreadID)
			if err != nil {
				return err
			}
			if ok {
				t := tx.Partition(id)
				has := t != nil && t.Last(string(layout.KeyCheckpoint)) != nil
				exists := t != nil && t.Get(layout.CheckpointKey(cfg.Namespace, cfg.CheckpointID)) != nil
				if err := d.CheckWrites(cfg.ThreadID, cfg.CheckpointID, has, exists); err != nil {
					return err
				}
			}
			if len(vals) == 0 {
				return nil
			}
			if err := putWrites(tx, id, cfg, &plan, vals, 0); err != nil {
				return err
			}
			if cfg.Namespace == "" {
				writeChangesStatus(tx, id, cfg.CheckpointID, rules.NewWriteCall(taskID, plan.Channels))
			}
			return nil
		})
}
