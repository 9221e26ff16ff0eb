package memory

import (
	"context"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// Put implements saver.Saver.
func (s *Saver) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, newVersions map[string]saver.Version) (saver.Config, error) {
	return s.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: newVersions})
}

// PutRequest implements saver.Saver.
func (s *Saver) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	var plan rules.PutPlan
	if err := plan.Make(&req, rules.Encoding{Codec: s.opts.Serializer}); err != nil {
		return saver.Config{}, err
	}
	changes, err := rules.MemoryChanges(req.Changes)
	if err != nil {
		return saver.Config{}, err
	}
	if !req.Checkpoint.Immutable {
		for i := range plan.Values {
			plan.Values[i] = cloneTyped(plan.Values[i])
		}
	}
	for i := range plan.Writes {
		ownValues(&plan.Writes[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return saver.Config{}, err
	}
	if err := s.checkPut(&plan); err != nil {
		return saver.Config{}, err
	}
	s.commits++
	target := plan.Target
	n := s.makeNamespace(target.ThreadID, target.Namespace)
	n.keep(target.CheckpointID, n.resolve(&plan, s.commits))
	for _, wp := range plan.Writes {
		n.write(wp)
	}
	for _, c := range changes {
		c.Apply()
	}
	return target, nil
}

// checkPut refuses a plan before anything of it is stored. The caller holds mu.
func (s *Saver) checkPut(plan *rules.PutPlan) error {
	target, n := plan.Target, s.namespace(plan.Target.ThreadID, plan.Target.Namespace)
	if err := s.owned.Check(target.ThreadID, plan.Epoch); err != nil {
		return err
	}
	var deleted *rules.Deleted
	if d, ok := s.remembered(target.ThreadID); ok {
		deleted = &d
	}
	return plan.Check(deleted, func(id string) bool { return n.checkpoints[id] != nil }, func() string { return n.newest })
}

// resolve makes the checkpoint of a plan. For every channel with a version it finds the value
// that the checkpoint reads. Later commits at the same version do not change it.
func (n *namespace) resolve(plan *rules.PutPlan, commit uint64) *checkpoint {
	r := &plan.Record
	versions, source := r.Checkpoint.Versions, n.checkpoints[r.Source()]
	cp := &checkpoint{v: r.Checkpoint.V, ts: r.Checkpoint.TS, updated: r.Checkpoint.Updated, parent: r.Parent, metadata: r.Metadata, note: r.Note,
		slots: make([]*slot, 0, len(versions))}
	add := func(channel string, sl slot) {
		v := source.share(version{channel, versions[channel]})
		sl.channel, sl.version = v.channel, v.version
		cp.slots = append(cp.slots, &sl)
	}
	for i, channel := range r.Stored {
		add(channel, slot{value: plan.Values[i], commit: commit})
	}
	for _, channel := range r.Emptied {
		add(channel, slot{empty: true, commit: commit})
	}
	isChanged := func(channel string) bool {
		_, isStored := slices.BinarySearch(r.Stored, channel)
		_, isEmptied := slices.BinarySearch(r.Emptied, channel)
		return isStored || isEmptied
	}
	if source != nil {
		for _, sl := range source.slots {
			if v, ok := versions[sl.channel]; ok && v == sl.version && sl.commit > 0 && !isChanged(sl.channel) {
				cp.slots = append(cp.slots, sl)
			}
		}
	}
	slices.SortFunc(cp.slots, compareSlots)
	if found := cp.slots; len(found) < len(versions) {
		for channel, v := range versions {
			if _, ok := slices.BinarySearchFunc(found, channel, (*slot).compare); ok {
				continue
			}
			if sl := n.newestSlot(channel, v); sl != nil {
				cp.slots = append(cp.slots, sl)
			} else {
				add(channel, slot{})
			}
		}
		slices.SortFunc(cp.slots, compareSlots)
	}
	cp.look(r.Checkpoint.Seen, source)
	return cp
}

// newestSlot returns the slot stored last for a channel at a version; nil if there is none.
func (n *namespace) newestSlot(channel string, v saver.Version) *slot {
	var newest *slot
	for _, other := range n.checkpoints {
		if sl := other.slot(channel); sl != nil && sl.version == v && sl.commit > 0 && (newest == nil || sl.commit > newest.commit) {
			newest = sl
		}
	}
	return newest
}

// PutWrites implements saver.Saver.
func (s *Saver) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	plan, err := rules.NewWritesPlan(cfg, writes, taskID, taskPath, s.opts.Serializer)
	if err != nil {
		return err
	}
	ownValues(&plan)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
		return err
	}
	if d, ok := s.remembered(cfg.ThreadID); ok {
		t := s.threads[cfg.ThreadID]
		_, exists := s.namespace(cfg.ThreadID, cfg.Namespace).checkpoints[cfg.CheckpointID]
		if err := d.CheckWrites(cfg.ThreadID, cfg.CheckpointID, t != nil && t.hasCheckpoints(), exists); err != nil {
			return err
		}
	}
	if len(writes) == 0 {
		return nil
	}
	s.commits++
	s.makeNamespace(cfg.ThreadID, cfg.Namespace).write(plan)
	return nil
}

func (n *namespace) write(plan rules.WritesPlan) {
	if len(plan.Channels) > 0 {
		n.calls[plan.CheckpointID] = append(n.calls[plan.CheckpointID], plan)
	}
}

// ownValues copies values, because the caller may own their bytes.
func ownValues(plan *rules.WritesPlan) {
	for i := range plan.Values {
		plan.Values[i] = cloneTyped(plan.Values[i])
	}
}
