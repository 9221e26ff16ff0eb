package bolt

import (
	"context"

	"go.etcd.io/bbolt"

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
	if err := plan.Make(&req, rules.Encoding{Codec: s.opts.Serializer, Borrow: true}); err != nil {
		return saver.Config{}, err
	}
	if len(req.Changes) > 0 {
		return saver.Config{}, saver.Invalidf("changes[0]", "is of another store; a saver on bbolt takes none")
	}
	err := s.update(ctx, func(tx *bbolt.Tx) error { return s.put(tx, &plan) })
	if err != nil {
		return saver.Config{}, err
	}
	return plan.Target, nil
}

func (s *Saver) put(tx *bbolt.Tx, plan *rules.PutPlan) error {
	at := plan.Target
	if err := s.owned.Check(at.ThreadID, plan.Epoch); err != nil {
		return err
	}
	deleted, err := s.remembered(tx, at.ThreadID)
	if err != nil {
		return err
	}
	n := spaceOf(tx, at.ThreadID, at.Namespace)
	if err := plan.Check(deleted, n.has, n.head); err != nil {
		return err
	}
	if n, err = s.touch(tx, at.ThreadID, at.Namespace); err != nil {
		return err
	}
	cp, err := n.resolve(tx, plan)
	if err != nil {
		return err
	}
	replaces := n.has(at.CheckpointID)
	if err := store(n.checkpoints, []byte(at.CheckpointID), cp); err != nil {
		return err
	}
	for _, call := range plan.Writes {
		if err := n.write(call); err != nil {
			return err
		}
	}
	if replaces {
		return n.dropValues()
	}
	return nil
}

// resolve makes the checkpoint of a plan, stores its values, and finds what the checkpoint reads
// for each other channel. Later puts at the same version do not change that.
func (n *space) resolve(tx *bbolt.Tx, plan *rules.PutPlan) (*checkpoint, error) {
	r := &plan.Record
	cp := newCheckpoint(r.Checkpoint)
	cp.Parent, cp.Metadata, cp.Note = r.Parent, r.Metadata, r.Note
	next := tx.Bucket(threadsName).NextSequence
	for i, channel := range r.Stored {
		num, err := next()
		if err != nil {
			return nil, err
		}
		if err := store(n.values, number(num), plan.Values[i]); err != nil {
			return nil, err
		}
		cp.Slots[channel] = slot{Number: num, Size: len(plan.Values[i].Data)}
	}
	for _, channel := range r.Emptied {
		num, err := next()
		if err != nil {
			return nil, err
		}
		cp.Slots[channel] = slot{Number: num, Empty: true}
	}
	source, err := n.checkpoint(r.Source())
	if err != nil {
		return nil, err
	}
	var others []*checkpoint // all of the namespace, read when they are needed
	for channel, v := range r.Checkpoint.Versions {
		sl, isNew := cp.Slots[channel]
		if !isNew && source != nil {
			if have := source.Slots[channel]; have.Version.Version == v {
				sl = have
			}
		}
		if sl.Number == 0 {
			if others == nil {
				if others, err = n.all(); err != nil {
					return nil, err
				}
			}
			sl = newestSlot(others, channel, v)
		}
		sl.Version = version{v}
		cp.Slots[channel] = sl
	}
	return cp, nil
}

// newestSlot is what was stored last for a channel at a version.
func newestSlot(all []*checkpoint, channel string, v saver.Version) (newest slot) {
	for _, cp := range all {
		if sl := cp.Slots[channel]; sl.Version.Version == v && sl.Number > newest.Number {
			newest = sl
		}
	}
	return newest
}

// all are the checkpoints, ascending.
func (n *space) all() ([]*checkpoint, error) {
	all := []*checkpoint{}
	for _, id := range n.ids() {
		cp, err := n.checkpoint(id)
		if err != nil {
			return nil, err
		}
		all = append(all, cp)
	}
	return all, nil
}

// PutWrites implements saver.Saver.
func (s *Saver) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	plan, err := rules.NewWritesPlan(cfg, writes, taskID, taskPath, s.opts.Serializer)
	if err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
			return err
		}
		deleted, err := s.remembered(tx, cfg.ThreadID)
		if err != nil {
			return err
		}
		if deleted != nil {
			exists := spaceOf(tx, cfg.ThreadID, cfg.Namespace).has(cfg.CheckpointID)
			if err := deleted.CheckWrites(cfg.ThreadID, cfg.CheckpointID, hasCheckpoints(tx, cfg.ThreadID), exists); err != nil {
				return err
			}
		}
		if len(writes) == 0 {
			return nil
		}
		n, err := s.touch(tx, cfg.ThreadID, cfg.Namespace)
		if err != nil {
			return err
		}
		return n.write(plan)
	})
}

// hasCheckpoints reports whether the thread has any, in any namespace.
func hasCheckpoints(tx *bbolt.Tx, thread string) bool {
	for _, n := range spacesOf(tx, thread) {
		if n.head() != "" {
			return true
		}
	}
	return false
}

// CountAttempt implements saver.Saver.
func (s *Saver) CountAttempt(ctx context.Context, cfg saver.Config) (count int, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
			return err
		}
		n := spaceOf(tx, cfg.ThreadID, cfg.Namespace)
		id := named(n, cfg)
		if !n.has(id) {
			return rules.NotFound(cfg)
		}
		if n, err = s.touch(tx, cfg.ThreadID, cfg.Namespace); err != nil {
			return err
		}
		if count, _, err = load[int](n.attempts, []byte(id)); err != nil {
			return err
		}
		count++
		return store(n.attempts, []byte(id), count)
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}
