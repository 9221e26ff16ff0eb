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

// retainLooks bounds, roughly, how often Retain walks all of a thread because others change it
// meanwhile: a commit that has to walk it removes a larger part.
const retainLooks = 16

// Retain implements saver.Saver.
func (s *Saver) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if err := policy.Validate(); err != nil {
		return saver.RetentionReport{}, err
	}
	if err := s.e.MayWrite(); err != nil && !dryRun {
		return saver.RetentionReport{}, err
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

// plan returns what would be removed, and a BudgetError if the budget cannot be kept.
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

// threadPage is how many thread ids are read from one view, so that no view is held for long.
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
	cut := retainCut{threadID: view.ThreadID(), doomed: plan.Gone, total: len(plan.Gone), planned: t, seen: t.LSN, runs: runsOf(t), batch: retainBatch}
	for len(cut.doomed) > 0 {
		if err := r.s.commitWith(r.ctx, map[string]bool{t.ID: true}, cut.commit); err != nil {
			return err
		}
		cut.next(done)
		r.pause()
	}
	if len(plan.Gone) > 0 {
		done.Threads++
		done.Bytes += plan.Bytes
	}
	return nil
}

// retainCut removes the planned checkpoints of one thread, in commits.
type retainCut struct {
	threadID string
	planned  *index.Partition      // the thread that the plan was made for
	doomed   []rules.CheckpointRef // what is still to go
	total    int                   // how many were to go
	seen     base.LSN              // the thread's last record that doomed and runs take into account
	runs     runCounts             // of the thread

	batch   int // how many of doomed the commit is about, at most
	cut     int // how many it was about
	removed saver.Removal
}

// next ends a commit that succeeded, and adds its removals to done.
func (c *retainCut) next(done *saver.RetentionReport) {
	c.doomed, c.batch = c.doomed[c.cut:], retainBatch
	done.Checkpoints += c.removed.Checkpoints
	done.Writes += c.removed.Writes
}

// commit removes the next batch. It reads only the checkpoints that it removes, unless others changed
// the thread. Then it walks the whole thread again: checkpoints that were replaced, that are the newest
// now, or that a new one needs, stay. As that may happen at every commit, such a commit removes a fixed
// part of all.
func (c *retainCut) commit(tx *engine.Tx, need func(string) bool) error {
	c.removed = saver.Removal{}
	t := tx.Partition(layout.ThreadKey(c.threadID))
	if t == nil || t.Birth != c.planned.Birth {
		c.cut = len(c.doomed)
		return nil
	}
	if t.LSN != c.seen {
		c.look(t)
		c.batch, c.seen = max(c.batch, c.total/retainLooks), t.LSN
	}
	c.cut = min(c.batch, len(c.doomed))
	var gone []string
	ok := true
	for _, ref := range c.doomed[:c.cut] {
		it := t.Get(layout.CheckpointKey(ref.Namespace, ref.ID))
		if it == nil {
			continue
		}
		if run := it.Slots.At(0).Tag; run != "" {
			ok = need(layout.RunKey(run)) && ok
		}
		gone = append(gone, keysOf(t, ref.Namespace, ref.ID)...)
	}
	if !ok {
		return errMoreThreads
	}
	if err := removeEntries(tx, c.threadID, gone, c.runs, &c.removed); err != nil {
		return err
	}
	if t = tx.Partition(t.ID); t != nil {
		c.seen = t.LSN
	}
	return nil
}

// look walks the present thread: it counts the runs again, and takes checkpoints that must stay off the
// doomed.
func (c *retainCut) look(t *index.Partition) {
	c.runs = runsOf(t)
	doomed := map[rules.CheckpointRef]bool{}
	for _, ref := range c.doomed {
		key := layout.CheckpointKey(ref.Namespace, ref.ID)
		is, was := t.Get(key), c.planned.Get(key)
		if is != nil && was != nil && is.LSN == was.LSN && headOf(t, ref.Namespace) != ref.ID {
			doomed[ref] = true
		}
	}
	for ns, ids := range checkpointsByNamespace(t) {
		kept := slices.DeleteFunc(ids, func(id string) bool { return doomed[rules.CheckpointRef{Namespace: ns, ID: id}] })
		for id := range rules.PruneMark(diskPrune{t, ns}, kept) {
			delete(doomed, rules.CheckpointRef{Namespace: ns, ID: id})
		}
	}
	left := make([]rules.CheckpointRef, 0, len(doomed)) // not in place: a plan is not changed
	for _, ref := range c.doomed {
		if doomed[ref] {
			left = append(left, ref)
		}
	}
	c.doomed = left
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
