package rules

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/stele-go/stele/saver"
)

// RetainView shows one thread to PlanRetain.
type RetainView interface {
	// ThreadID is the id of the thread.
	ThreadID() string
	// Checkpoints are the ids of the checkpoints of each namespace, ascending. A
	// namespace without any may be left out.
	Checkpoints() map[string][]string
	// Namespace shows the checkpoints of one namespace.
	Namespace(ns string) PruneView
	// Created is the checkpoint's timestamp, "" if it has none. PlanRetain calls it only
	// if the policy has a MaxAge.
	Created(ns, id string) (string, error)
	// Values calls fn for each value that the checkpoint and its pending writes read.
	// value identifies the stored value: two are equal only if they are the same stored
	// value. bytes is its size.
	Values(ns, id string, fn func(value any, bytes int64))
	// Writes is the number of pending writes of the checkpoint.
	Writes(ns, id string) int
}

// CheckpointRef names a checkpoint of a thread.
type CheckpointRef struct{ Namespace, ID string }

// RetainPlan is the list of checkpoints that a policy removes from one thread.
type RetainPlan struct {
	Gone   []CheckpointRef // greatest id first
	Writes int             // number of their pending writes
	Bytes  int64           // bytes of values that nothing else reads
	Left   int64           // bytes that stay
	Kept   []saver.Kept    // checkpoints that should go but are needed
	Over   bool            // Left is more than ThreadBytes
	Cutoff string          // ids below it went for StoreBytes; see RetainCutoff
}

// retainPlanner applies a policy to one thread.
type retainPlanner struct {
	view   RetainView
	all    []CheckpointRef // by id, then namespace
	heads  map[CheckpointRef]bool
	doomed map[CheckpointRef]bool
	kept   []saver.Kept // doomed but needed, as the last call of gone found
}

func newRetainPlanner(view RetainView) *retainPlanner {
	p := &retainPlanner{view: view, heads: map[CheckpointRef]bool{}, doomed: map[CheckpointRef]bool{}}
	for ns, ids := range view.Checkpoints() {
		for _, id := range ids {
			p.all = append(p.all, CheckpointRef{ns, id})
		}
		if len(ids) > 0 {
			p.heads[CheckpointRef{ns, ids[len(ids)-1]}] = true
		}
	}
	slices.SortFunc(p.all, func(a, b CheckpointRef) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Namespace, b.Namespace))
	})
	return p
}

// PlanRetain returns the checkpoints that policy removes from a thread at the time now. It also removes
// all checkpoints with an id smaller than cutoff; see RetainCutoff. It does not validate the policy.
func PlanRetain(view RetainView, policy saver.RetentionPolicy, now time.Time, cutoff string) (*RetainPlan, error) {
	p := newRetainPlanner(view)
	if err := p.rules(policy, now, cutoff); err != nil {
		return nil, err
	}
	gone := p.gone()
	plan := &RetainPlan{Left: p.left(gone), Cutoff: cutoff}
	if policy.ThreadBytes > 0 && plan.Left > policy.ThreadBytes {
		gone = p.fit(policy.ThreadBytes)
		plan.Left = p.left(gone)
		plan.Over = plan.Left > policy.ThreadBytes
	}
	plan.Bytes = p.left(nil) - plan.Left
	plan.Kept = p.kept
	for _, c := range slices.Backward(p.all) {
		if gone[c] {
			plan.Gone = append(plan.Gone, c)
			plan.Writes += view.Writes(c.Namespace, c.ID)
		}
	}
	return plan, nil
}

// rules dooms the checkpoints that the rules remove, except for the thread's budget.
func (p *retainPlanner) rules(policy saver.RetentionPolicy, now time.Time, cutoff string) error {
	newer := map[string]int{} // by namespace: the number of newer checkpoints
	for _, c := range slices.Backward(p.all) {
		n := newer[c.Namespace]
		newer[c.Namespace]++
		if p.heads[c] {
			continue
		}
		old := c.ID < cutoff || policy.KeepLast > 0 && n >= policy.KeepLast
		if !old && policy.MaxAge > 0 {
			ts, err := p.view.Created(c.Namespace, c.ID)
			if err != nil {
				return err
			}
			created, err := time.Parse(time.RFC3339Nano, ts)
			old = err == nil && now.Sub(created) >= policy.MaxAge
		}
		if old {
			p.doomed[c] = true
		}
	}
	return nil
}

// fit dooms the oldest checkpoints until the rest takes no more than budget, or no more may
// go. The rest shrinks with each checkpoint, so a binary search finds the number.
func (p *retainPlanner) fit(budget int64) map[CheckpointRef]bool {
	var may []CheckpointRef
	for _, c := range p.all {
		if !p.heads[c] && !p.doomed[c] {
			may = append(may, c)
		}
	}
	with := func(n int) map[CheckpointRef]bool {
		for i, c := range may {
			if i < n {
				p.doomed[c] = true
			} else {
				delete(p.doomed, c)
			}
		}
		return p.gone()
	}
	n := sort.Search(len(may), func(n int) bool { return p.left(with(n)) <= budget })
	return with(n)
}

// gone are the doomed checkpoints that no kept checkpoint needs.
func (p *retainPlanner) gone() map[CheckpointRef]bool {
	kept := map[string][]string{}
	for _, c := range p.all {
		if !p.doomed[c] {
			kept[c.Namespace] = append(kept[c.Namespace], c.ID)
		}
	}
	gone := maps.Clone(p.doomed)
	p.kept = nil
	for ns, ids := range kept {
		for id, why := range PruneMark(p.view.Namespace(ns), ids) {
			if ref := (CheckpointRef{ns, id}); gone[ref] {
				delete(gone, ref)
				why.ThreadID, why.Namespace = p.view.ThreadID(), ns
				p.kept = append(p.kept, why)
			}
		}
	}
	return gone
}

// left is the size of everything except gone, in bytes.
func (p *retainPlanner) left(gone map[CheckpointRef]bool) int64 {
	var sum int64
	seen := map[any]bool{}
	for _, c := range p.all {
		if gone[c] {
			continue
		}
		p.view.Values(c.Namespace, c.ID, func(v any, n int64) {
			if !seen[v] {
				seen[v] = true
				sum += n
			}
		})
	}
	return sum
}

// freed says how many bytes the removal of each checkpoint frees, if they are removed in the
// order of ids. A value is freed with the last checkpoint that reads it.
func (p *retainPlanner) freed(gone map[CheckpointRef]bool) []freedBytes {
	last := map[any]int{}
	var out []freedBytes
	for _, c := range p.all {
		if gone[c] {
			continue
		}
		at := len(out)
		out = append(out, freedBytes{id: c.ID, head: p.heads[c]})
		p.view.Values(c.Namespace, c.ID, func(v any, n int64) {
			if was, ok := last[v]; ok && was != at {
				out[was].bytes -= n
			} else if ok {
				return
			}
			last[v] = at
			out[at].bytes += n
		})
	}
	return slices.DeleteFunc(out, func(f freedBytes) bool { return f.head })
}

type freedBytes struct {
	id    string
	bytes int64
	head  bool
}

// RetainCutoff finds the id below which checkpoints must go so that all threads take no more
// than policy.StoreBytes. left is what they then take. If no cutoff is enough, it finds the
// one that leaves the least, and over is true. views must yield the same threads each time.
func RetainCutoff(views func() iter.Seq2[RetainView, error], policy saver.RetentionPolicy, now time.Time) (cutoff string, left int64, over bool, err error) {
	for round := int64(1); ; round *= 2 {
		var may []freedBytes
		left = 0
		for view, err := range views() {
			if err != nil {
				return "", 0, false, err
			}
			plan, err := PlanRetain(view, policy, now, cutoff)
			if err != nil {
				return "", 0, false, err
			}
			left += plan.Left
			gone := map[CheckpointRef]bool{}
			for _, c := range plan.Gone {
				gone[c] = true
			}
			may = append(may, newRetainPlanner(view).freed(gone)...)
		}
		may = slices.DeleteFunc(may, func(f freedBytes) bool { return f.id < cutoff })
		if left <= policy.StoreBytes || len(may) == 0 {
			return cutoff, left, left > policy.StoreBytes, nil
		}
		slices.SortFunc(may, func(a, b freedBytes) int { return cmp.Compare(a.id, b.id) })
		// Checkpoints that delta channels need stay, so less may be freed than is
		// counted here. The next round then aims at more.
		need := (left - policy.StoreBytes) * round
		for _, f := range may {
			cutoff = f.id + "\x00"
			if need -= f.bytes; need <= 0 {
				break
			}
		}
	}
}

// PlanRetention applies policy to all threads of views: it finds the cutoff for the budget of the
// store, calls found with the plan of each thread, in the order of views, and sums the plans up.
// Without policy.CutAnyway a budget that cannot be kept is a BudgetError; the plans given to found must
// then be ignored. It does not validate the policy. views must yield the same threads each time.
func PlanRetention(views func() iter.Seq2[RetainView, error], policy saver.RetentionPolicy, now time.Time,
	found func(threadID string, plan *RetainPlan)) (saver.RetentionReport, error) {
	rep, cutoff := saver.RetentionReport{}, ""
	if policy.StoreBytes > 0 {
		var left int64
		var err error
		if cutoff, left, rep.StoreOver, err = RetainCutoff(views, policy, now); err != nil {
			return saver.RetentionReport{}, err
		}
		if rep.StoreOver && !policy.CutAnyway {
			return saver.RetentionReport{}, &saver.BudgetError{Budget: policy.StoreBytes, Least: left}
		}
	}
	for view, err := range views() {
		if err != nil {
			return saver.RetentionReport{}, err
		}
		plan, err := PlanRetain(view, policy, now, cutoff)
		if err != nil {
			return saver.RetentionReport{}, err
		}
		id := view.ThreadID()
		if plan.Over && !policy.CutAnyway {
			return saver.RetentionReport{}, &saver.BudgetError{ThreadID: id, Budget: policy.ThreadBytes, Least: plan.Left}
		}
		plan.AddTo(&rep, id)
		found(id, plan)
	}
	return rep, nil
}

// AddTo adds the plan of a thread to r.
func (p *RetainPlan) AddTo(r *saver.RetentionReport, threadID string) {
	if len(p.Gone) > 0 {
		r.Threads++
	}
	r.Checkpoints += len(p.Gone)
	r.Writes += p.Writes
	r.Bytes += p.Bytes
	r.Left += p.Left
	r.Keep(p.Kept...)
	if p.Over {
		r.Over = append(r.Over, threadID)
	}
}

// Expired reports whether a thread last written at updated is over its ttl, or, if
// it has none, over the default.
func Expired(now, updated time.Time, ttl, byDefault time.Duration) bool {
	if ttl == 0 {
		ttl = byDefault
	}
	return ttl > 0 && now.Sub(updated) >= ttl
}
