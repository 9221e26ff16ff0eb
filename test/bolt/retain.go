package bolt

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// Retain implements saver.Saver. It does everything in one transaction.
func (s *Saver) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (rep saver.RetentionReport, err error) {
	if err := policy.Validate(); err != nil {
		return saver.RetentionReport{}, err
	}
	run := s.update
	if dryRun {
		run = s.view
	}
	err = run(ctx, func(tx *bbolt.Tx) error {
		threads := slices.Compact(slices.Sorted(slices.Values(policy.ThreadIDs)))
		if policy.ThreadIDs == nil {
			threads = threadIDs(tx)
		}
		plans := map[string]*rules.RetainPlan{}
		views := func() iter.Seq2[rules.RetainView, error] { return views(ctx, tx, threads) }
		rep, err = rules.PlanRetention(views, policy, s.now(), func(thread string, plan *rules.RetainPlan) { plans[thread] = plan })
		if err != nil || dryRun {
			return err
		}
		for thread, plan := range plans {
			if err := retain(tx, thread, plan.Gone); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return saver.RetentionReport{}, err
	}
	return rep, nil
}

// views reads one thread after another.
func views(ctx context.Context, tx *bbolt.Tx, threads []string) iter.Seq2[rules.RetainView, error] {
	return func(yield func(rules.RetainView, error) bool) {
		for _, thread := range threads {
			v, err := &rules.ThreadView{ID: thread, Spaces: map[string]rules.SpaceView{}}, ctx.Err()
			for _, n := range spacesOf(tx, thread) {
				if err == nil {
					v.Spaces[n.ns], err = n.view()
				}
			}
			if (len(v.Spaces) > 0 || err != nil) && (!yield(v, err) || err != nil) {
				return
			}
		}
	}
}

// retain removes checkpoints of a thread. It leaves the newest of each namespace.
func retain(tx *bbolt.Tx, thread string, gone []rules.CheckpointRef) error {
	for _, n := range spacesOf(tx, thread) {
		for _, c := range gone {
			if c.Namespace != n.ns {
				continue
			}
			if err := n.remove(c.ID, new(saver.Removal)); err != nil {
				return err
			}
		}
		if err := n.dropValues(); err != nil {
			return err
		}
	}
	return nil
}

// SetTTL implements saver.Saver.
func (s *Saver) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	if err := saver.ValidateTTL(threadID, ttl); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		t := threadOf(tx, threadID)
		if t == nil {
			return fmt.Errorf("set the TTL of thread %q: %w", threadID, saver.ErrNotFound)
		}
		info, _, err := load[threadInfo](t, infoName)
		if err != nil {
			return err
		}
		info.TTL = ttl
		return store(t, infoName, info)
	})
}

// Sweep implements saver.Saver. It also forgets deletions that are old enough.
func (s *Saver) Sweep(ctx context.Context) (rep saver.SweepReport, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		for _, thread := range threadIDs(tx) {
			info, _, err := load[threadInfo](threadOf(tx, thread), infoName)
			if err != nil {
				return err
			}
			if !rules.Expired(s.now(), info.updated(), info.TTL, s.opts.DefaultTTL) {
				continue
			}
			if err := s.deleteThread(tx, thread); err != nil {
				return err
			}
			rep.Expired++
		}
		return s.forget(tx)
	})
	if err != nil {
		return saver.SweepReport{}, err
	}
	return rep, nil
}

// forget removes what is remembered of threads that were deleted long ago.
func (s *Saver) forget(tx *bbolt.Tx) error {
	b := tx.Bucket(deletedName)
	var old [][]byte
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		d, err := s.remembered(tx, string(k))
		if err != nil {
			return err
		}
		if d == nil {
			old = append(old, slices.Clone(k))
		}
	}
	for _, k := range old {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
