package memory

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// Retain implements saver.Saver. It does everything under one lock.
func (s *Saver) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if err := rules.ValidateRetention(policy); err != nil {
		return saver.RetentionReport{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return saver.RetentionReport{}, err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(policy.ThreadIDs)))
	if policy.ThreadIDs == nil {
		ids = slices.Sorted(maps.Keys(s.threads))
	}
	plans := map[string]*rules.RetainPlan{}
	views := func() iter.Seq2[rules.RetainView, error] { return s.retainViews(ids) }
	rep, err := rules.PlanRetention(views, policy, s.now(), func(id string, plan *rules.RetainPlan) { plans[id] = plan })
	if err != nil || dryRun {
		return rep, err
	}
	for id, plan := range plans {
		for _, c := range plan.Gone {
			s.threads[id].namespaces[c.Namespace].remove(c.ID)
		}
	}
	return rep, nil
}

func (s *Saver) retainViews(ids []string) iter.Seq2[rules.RetainView, error] {
	return func(yield func(rules.RetainView, error) bool) {
		for _, id := range ids {
			if t := s.threads[id]; t != nil && !yield(retainView{id, t}, nil) {
				return
			}
		}
	}
}

// retainView implements rules.RetainView.
type retainView struct {
	id string
	t  *thread
}

// ThreadID implements rules.RetainView.
func (v retainView) ThreadID() string { return v.id }

// Checkpoints implements rules.RetainView.
func (v retainView) Checkpoints() map[string][]string {
	out := map[string][]string{}
	for ns, n := range v.t.namespaces {
		out[ns] = slices.Sorted(maps.Keys(n.checkpoints))
	}
	return out
}

// Namespace implements rules.RetainView.
func (v retainView) Namespace(ns string) rules.PruneView { return pruneView{v.t.namespaces[ns]} }

// Created implements rules.RetainView.
func (v retainView) Created(ns, id string) (string, error) {
	return v.t.namespaces[ns].checkpoints[id].ts, nil
}

// Values implements rules.RetainView. A value is identified by the commit and the channel that
// stored it.
func (v retainView) Values(ns, id string, fn func(value any, bytes int64)) {
	type stored struct {
		ns, channel string
		commit      uint64
	}
	type held struct {
		ns, id      string
		call, write int
	}
	n := v.t.namespaces[ns]
	cp := n.checkpoints[id]
	fn(held{ns, id, -1, 0}, int64(len(cp.metadata.Data)))
	for _, sl := range cp.slots {
		if sl.isFilled() {
			fn(stored{ns, sl.channel, sl.commit}, int64(len(sl.value.Data)))
		}
	}
	for i, c := range n.calls[id] {
		for j, w := range c.Values {
			fn(held{ns, id, i, j}, int64(len(w.Data)))
		}
	}
}

// Writes implements rules.RetainView.
func (v retainView) Writes(ns, id string) int {
	sum := 0
	for _, c := range v.t.namespaces[ns].calls[id] {
		sum += len(c.Channels)
	}
	return sum
}
