package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
)

// List implements Queue. It reads no other runs than those of the thread or the status that are
// asked for; those that have not ended are in memory.
func (q *Local) List(ctx context.Context, sel Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		n := 0
		for r, err := range q.candidates(ctx, sel) {
			if errors.Is(err, ErrUnreadable) {
				if n++; !yield(r, err) || n == sel.Limit {
					return
				}
				continue
			}
			if err != nil {
				yield(Run{}, err)
				return
			}
			if r.ID <= sel.After || sel.ThreadID != "" && r.ThreadID != sel.ThreadID || sel.Graph != "" && r.Graph != sel.Graph || sel.Status != "" && r.Status != sel.Status {
				continue
			}
			if n++; !yield(r, nil) || n == sel.Limit {
				return
			}
		}
	}
}

// listPage is how many runs a listing looks up at a time.
const listPage = 1000

// candidates are the runs among which those of a query are, by their ids.
func (q *Local) candidates(ctx context.Context, sel Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if sel.ThreadID == "" && sel.Status == "" { // one sync for all
			if err := q.synced(ctx, nil); err != nil {
				yield(Run{}, err)
				return
			}
		}
		for page := min(cmp.Or(max(sel.Limit, 0), listPage), listPage); ; page = listPage {
			ids := q.idsOf(sel, page)
			for _, id := range ids {
				r, err := q.Get(ctx, id)
				if errors.Is(err, ErrNotFound) { // removed meanwhile
					continue
				}
				if !yield(r, err) {
					return
				}
			}
			if len(ids) < page {
				return
			}
			sel.After = ids[page-1]
		}
	}
}

// idsOf are the first ids behind sel.After among which those of a query are, n at most.
func (q *Local) idsOf(sel Query, n int) (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	add := func(sorted []string) {
		i, there := slices.BinarySearch(sorted, sel.After)
		if there {
			i++
		}
		ids = append(ids, sorted[i:min(i+n, len(sorted))]...)
	}
	if sel.ThreadID != "" && (sel.Status == "" || sel.Status.Ended()) {
		add(q.byThread[sel.ThreadID])
		return ids
	}
	for status, ended := range q.byStatus {
		if sel.Status == "" || sel.Status == status {
			add(ended)
		}
	}
	if !sel.Status.Ended() {
		open := maps.Values(q.open)
		if sel.ThreadID != "" {
			open = slices.Values(q.ofThread(sel.ThreadID))
		}
		for r := range open {
			if r.ID > sel.After && (sel.Status == "" || r.Status == sel.Status) {
				ids = append(ids, r.ID)
			}
		}
	}
	if sel.Status == "" && sel.ThreadID == "" {
		for id := range q.lost {
			if id > sel.After {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return first(ids, n)
}

// noteStatus notes a run that has ended by its status. The caller holds mu.
func (q *Local) noteStatus(r Run) {
	q.byStatus[r.Status] = withID(q.byStatus[r.Status], r.ID)
}

func hasID(list []string, id string) bool {
	_, there := slices.BinarySearch(list, id)
	return there
}

// withID is a list of ids, oldest first, with another. A run gets its id before it is stored, so
// that an older one may come later.
func withID(list []string, id string) []string {
	i, there := slices.BinarySearch(list, id)
	if there {
		return list
	}
	return slices.Insert(list, i, id)
}

// forgetStatus undoes noteStatus. The caller holds mu.
func (q *Local) forgetStatus(r Run) {
	q.byStatus[r.Status] = withoutID(q.byStatus[r.Status], r.ID)
}

// withoutID undoes withID. What is on the shorter side of the id moves: of many runs that Sweep
// removes, the oldest go first.
func withoutID(list []string, id string) []string {
	i, there := slices.BinarySearch(list, id)
	if !there {
		return list
	}
	return withoutAt(list, i)
}

func withoutAt[T any](list []T, i int) []T {
	if i < len(list)/2 {
		copy(list[1:], list[:i])
		clear(list[:1])
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
