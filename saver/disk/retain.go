package disk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// retainBatch is how many checkpoints one commit of Retain removes.
const retainBatch = 256

// Retain implements saver.Saver.
func (s *Saver) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if err := policy.Validate(); err != nil {
		return saver.RetentionReport{}, err
	}
	if s.opts.ReadOnly && !dryRun {
		return saver.RetentionReport{}, saver.ErrReadOnly
	}
	return s.retain(ctx, policy, dryRun, func() {})
}

// retain does the work of Retain; pause is called after each commit.
func (s *Saver) retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool, pause func()) (saver.RetentionReport, error) {
	r := diskRetain{s: s, ctx: ctx, records: s.e.Reader(), policy: policy, now: s.now(), pause: pause}
	defer r.records.End()
	rep, err := r.plan()
	if err != nil || dryRun {
		return rep, err
	}
	done := saver.RetentionReport{StoreOver: rep.StoreOver}
	for t, err := range r.threads() {
		if err != nil {
			return done, err
		}
		if err := r.thread(t, &done); err != nil {
			return done, fmt.Errorf("retain: %w", err)
		}
	}
	return done, nil
}

// now is the store's time.
func (s *Saver) now() time.Time {
	if s.opts.Clock != nil {
		return s.opts.Clock()
	}
	return time.Now()
}

// diskRetain is one call of Retain.
type diskRetain struct {
	s       *Saver
	ctx     context.Context
	records *engine.Reader
	policy  saver.RetentionPolicy
	now     time.Time
	cutoff  string
	pause   func()
}

// plan says what would go, and refuses a budget that cannot be kept.
func (r *diskRetain) plan() (saver.RetentionReport, error) {
	return rules.PlanRetention(r.views, r.policy, r.now, func(_ string, plan *rules.RetainPlan) { r.cutoff = plan.Cutoff })
}

// threads are the threads of the policy, loaded, each as it is when its turn comes.
func (r *diskRetain) threads() iter.Seq2[*index.Partition, error] {
	return func(yield func(*index.Partition, error) bool) {
		next := r.nextThread()
		for {
			id, err := next()
			if err == nil {
				err = r.ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if id == "" {
				return
			}
			t, err := r.s.e.Partition(id)
			if err == nil && t == nil {
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// threadPage is how many thread ids are taken from a view at once, so that no view
// is held for long.
const threadPage = 1024

// nextThread returns the ids of the policy's threads as the engine knows them, in
// order, then "".
func (r *diskRetain) nextThread() func() (string, error) {
	var ids []string
	from, more := layout.SpaceThread, r.policy.ThreadIDs == nil
	for _, id := range slices.Compact(slices.Sorted(slices.Values(r.policy.ThreadIDs))) {
		ids = append(ids, layout.ThreadKey(id))
	}
	return func() (string, error) {
		if len(ids) == 0 && more {
			v, err := r.s.e.View()
			if err != nil {
				return "", err
			}
			err = v.Ascend(from, func(t *index.Partition) bool {
				if strings.HasPrefix(t.ID, layout.SpaceThread) {
					ids = append(ids, t.ID)
				}
				return strings.HasPrefix(t.ID, layout.SpaceThread) && len(ids) < threadPage
			})
			v.Release()
			if err != nil {
				return "", err
			}
			if more = len(ids) == threadPage; more {
				from = ids[len(ids)-1] + "\x00"
			}
		}
		if len(ids) == 0 {
			return "", nil
		}
		id := ids[0]
		ids = ids[1:]
		return id, nil
	}
}

func (r *diskRetain) views() iter.Seq2[rules.RetainView, error] {
	return func(yield func(rules.RetainView, error) bool) {
		for t, err := range r.threads() {
			if !yield(diskRetainView{r, t}, err) {
				return
			}
		}
	}
}

// thread applies the policy to one thread, and counts what it removes.
func (r *diskRetain) thread(t *index.Partition, done *saver.RetentionReport) error {
	view := diskRetainView{r, t}
	plan, err := rules.PlanRetain(view, r.policy, r.now, r.cutoff)
	if err != nil {
		return err
	}
	done.Left += plan.Left
	done.Keep(plan.Kept...)
	if plan.Over {
		done.Over = append(done.Over, view.ThreadID())
	}
	left := plan.Gone
	seen := t.LSN
	for len(left) > 0 {
		n := min(len(left), retainBatch)
		cut := retainCut{threadID: view.ThreadID(), batch: left[:n], doomed: left, planned: t, seen: seen}
		if err := r.s.commitWith(r.ctx, map[string]bool{t.ID: true}, cut.commit); err != nil {
			return err
		}
		seen, left = cut.lsn, left[n:]
		done.Checkpoints += cut.removed.Checkpoints
		done.Writes += cut.removed.Writes
		r.pause()
	}
	if len(plan.Gone) > 0 {
		done.Threads++
		done.Bytes += plan.Bytes
	}
	return nil
}

// retainCut is one commit of Retain.
type retainCut struct {
	threadID string
	batch    []rules.CheckpointRef // what it removes
	doomed   []rules.CheckpointRef // batch, and what later commits will remove
	planned  *index.Partition      // the thread that the plan was made for
	seen     base.LSN              // its last record since that was the plan's own

	lsn     base.LSN
	removed saver.Removal
}

// commit removes the batch. A thread that others changed since the plan was made is
// looked at again: what was replaced stays, and so does what is the newest now, or
// is needed by something new.
func (c *retainCut) commit(tx *engine.Tx, need func(string) bool) error {
	c.lsn, c.removed = tx.LSN(), saver.Removal{}
	t := tx.Partition(layout.ThreadKey(c.threadID))
	if t == nil || t.Birth != c.planned.Birth {
		return nil
	}
	if !needRuns(tx, c.threadID, need) {
		return errMoreThreads
	}
	stays := map[rules.CheckpointRef]bool{}
	if t.LSN != c.seen {
		stays = c.changed(t)
	}
	var gone []string
	for _, ref := range c.batch {
		if stays[ref] || t.Get(layout.CheckpointKey(ref.Namespace, ref.ID)) == nil {
			continue
		}
		gone = append(gone, keysOf(t, ref.Namespace, ref.ID)...)
	}
	return removeEntries(tx, c.threadID, gone, &c.removed)
}

// changed are the doomed checkpoints that must stay in the thread as it is now.
func (c *retainCut) changed(t *index.Partition) map[rules.CheckpointRef]bool {
	doomed, stays := map[rules.CheckpointRef]bool{}, map[rules.CheckpointRef]bool{}
	for _, ref := range c.doomed {
		key := layout.CheckpointKey(ref.Namespace, ref.ID)
		is, was := t.Get(key), c.planned.Get(key)
		if is != nil && was != nil && is.LSN == was.LSN && headOf(t, ref.Namespace) != ref.ID {
			doomed[ref] = true
		} else {
			stays[ref] = true
		}
	}
	for ns, ids := range checkpointsByNamespace(t) {
		kept := slices.DeleteFunc(ids, func(id string) bool { return doomed[rules.CheckpointRef{Namespace: ns, ID: id}] })
		for id := range rules.PruneMark(diskPrune{t, ns}, kept) {
			stays[rules.CheckpointRef{Namespace: ns, ID: id}] = true
		}
	}
	return stays
}

// diskRetainView implements RetainView.
type diskRetainView struct {
	r *diskRetain
	t *index.Partition
}

// ThreadID implements RetainView.
func (v diskRetainView) ThreadID() string { return strings.TrimPrefix(v.t.ID, layout.SpaceThread) }

// Checkpoints implements RetainView.
func (v diskRetainView) Checkpoints() map[string][]string { return checkpointsByNamespace(v.t) }

// Namespace implements RetainView.
func (v diskRetainView) Namespace(ns string) rules.PruneView { return diskPrune{v.t, ns} }

// Created implements RetainView.
func (v diskRetainView) Created(ns, id string) (string, error) {
	it := v.t.Get(layout.CheckpointKey(ns, id))
	b, err := v.r.records.ReadShared(v.r.ctx, v.t.Family, it.Slots.At(0).Ref)
	if errors.Is(err, engine.ErrNoValue) {
		return "", nil // it was removed meanwhile
	}
	if err != nil {
		return "", fmt.Errorf("thread %q checkpoint %q: %w", v.ThreadID(), id, err)
	}
	rec, err := layout.DecodeCheckpointRecord(b)
	if err != nil {
		return "", fmt.Errorf("thread %q checkpoint %q: %w", v.ThreadID(), id, layout.AsCorrupt(err))
	}
	return rec.Ts, nil
}

// Values implements RetainView.
func (v diskRetainView) Values(ns, id string, fn func(value any, bytes int64)) {
	visit := func(it *index.Entry) bool {
		for _, r := range it.Slots.Refs() {
			if loc, ok := v.t.Family.Loc(r); ok && !r.Empty() {
				fn(r, int64(loc.Len))
			}
		}
		return true
	}
	visit(v.t.Get(layout.CheckpointKey(ns, id)))
	v.t.Ascend(layout.WritesPrefix(ns, id), visit)
}

// Writes implements RetainView.
func (v diskRetainView) Writes(ns, id string) int {
	n := 0
	v.t.Ascend(layout.WritesPrefix(ns, id), func(it *index.Entry) bool {
		n += it.Slots.Len() - 1
		return true
	})
	return n
}
