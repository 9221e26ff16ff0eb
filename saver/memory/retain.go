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
	if err := policy.Validate(); err != nil {
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
			t := s.threads[id]
			if t == nil {
				continue
			}
			v := &rules.ThreadView{ID: id, Spaces: map[string]rules.SpaceView{}}
			for ns, n := range t.namespaces {
				v.Spaces[ns] = n.view(ns)
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
