package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sort"
)

// Lists: which runs a query selects, by the ids in memory, and where their values are read.

// listPage is how many runs a listing looks up at a time.
const listPage = 1000

// listLooks is how many ids are examined while the lock is held once.
const listLooks = 10_000

// List implements Queue. It reads only runs of the selected thread and status, as they are yielded;
// runs that have not ended are in memory.
func (q *Local) List(ctx context.Context, sel Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if err := cmp.Or(ctx.Err(), q.catchUp(ctx)); err != nil {
			yield(Run{}, err)
			return
		}
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
			if sel.ThreadID != "" && r.ThreadID != sel.ThreadID || sel.Graph != "" && r.Graph != sel.Graph || sel.Status != "" && r.Status != sel.Status {
				continue
			}
			if n++; !yield(r, nil) || n == sel.Limit {
				return
			}
		}
	}
}

// Count implements Queue. With a Graph, and with a thread and a status, it goes through the runs.
func (q *Local) Count(ctx context.Context, sel Query) (n int, err error) {
	sel.After, sel.Limit = "", 0
	if sel.Graph != "" || sel.ThreadID != "" && sel.Status != "" {
		for _, err := range q.List(ctx, sel) {
			if err != nil && !errors.Is(err, ErrUnreadable) {
				return 0, err
			}
			n++
		}
		return n, nil
	}
	if err := cmp.Or(ctx.Err(), q.catchUp(ctx), q.synced(ctx, nil)); err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if sel.ThreadID != "" {
		return len(q.byThread[sel.ThreadID]), nil
	}
	for status, ended := range q.byStatus {
		if sel.Status == "" || sel.Status == status {
			n += len(ended)
		}
	}
	for _, r := range q.open {
		if sel.Status == "" || sel.Status == r.Status {
			n++
		}
	}
	if sel.Status == "" {
		n += len(q.lost)
	}
	return n, nil
}

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
			ids, behind, more := q.idsOf(sel, page)
			for _, id := range ids {
				r, err := q.Get(ctx, id)
				if errors.Is(err, ErrNotFound) { // removed meanwhile
					continue
				}
				if !yield(r, err) {
					return
				}
			}
			if !more {
				return
			}
			sel.After = behind
		}
	}
}

// idsOf returns up to n candidates for a query, the first ids behind sel.After, and, if there may be
// more, the id to continue behind. For a thread and a status of ended runs it searches the shorter of
// the two lists.
func (q *Local) idsOf(sel Query, n int) (ids []string, behind string, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// walk adds those of an ordered list.
	walk := func(length int, at func(i int) string, keep func(id string) bool) {
		i, step := sort.Search(length, func(i int) bool { return at(i) > sel.After }), 1
		switch {
		case sel.Newest && sel.After == "":
			i, step = length-1, -1
		case sel.Newest:
			i, step = sort.Search(length, func(i int) bool { return at(i) >= sel.After })-1, -1
		}
		found := len(ids) + n
		for looks := 0; i >= 0 && i < length; i += step {
			if looks++; len(ids) == found || looks > listLooks {
				more = true
				return
			}
			if behind = at(i); keep(behind) {
				ids = append(ids, behind)
			}
		}
	}
	in := func(list []string) (int, func(i int) string) { return len(list), func(i int) string { return list[i] } }
	all := func(string) bool { return true }
	switch {
	case sel.ThreadID != "" && sel.Status == "":
		length, at := in(q.byThread[sel.ThreadID])
		walk(length, at, all)
		return ids, behind, more
	case sel.ThreadID != "" && (sel.Status.Ended() || q.follows != nil):
		few, many := q.byThread[sel.ThreadID], q.byStatus[sel.Status]
		if len(many) < len(few) {
			few, many = many, few
		}
		length, at := in(few)
		walk(length, at, func(id string) bool { return hasID(many, id) })
		return ids, behind, more
	case sel.ThreadID != "":
		t := q.threads[sel.ThreadID]
		if t == nil || sel.Status == Running && t.begun == nil {
			return nil, "", false
		}
		walk(len(t.runs), func(i int) string { return t.runs[i].ID }, func(id string) bool { return q.open[id].Status == sel.Status })
		return ids, behind, more
	}
	for status, ended := range q.byStatus {
		if sel.Status == "" || sel.Status == status {
			length, at := in(ended)
			walk(length, at, all)
		}
	}
	isBehind := func(id string) bool {
		if sel.Newest {
			return sel.After == "" || id < sel.After
		}
		return id > sel.After
	}
	if !sel.Status.Ended() {
		for id, r := range q.open {
			if isBehind(id) && (sel.Status == "" || r.Status == sel.Status) {
				ids = append(ids, id)
			}
		}
	}
	if sel.Status == "" {
		for id := range q.lost {
			if isBehind(id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	if sel.Newest {
		slices.Reverse(ids)
	}
	if len(ids) > n {
		ids, more = ids[:n], true
	}
	if more {
		behind = ids[n-1]
	}
	return ids, behind, more
}

// noteStatus adds an ended run to byStatus. The caller holds mu.
func (q *Local) noteStatus(r Run) {
	q.byStatus[r.Status] = withID(q.byStatus[r.Status], r.ID)
}

func hasID(list []string, id string) bool {
	_, there := slices.BinarySearch(list, id)
	return there
}

// withID returns a list of ids, oldest first, with another one added. A run gets its id before it is
// stored, so an older id may come later.
func withID(list []string, id string) []string {
	i, there := slices.BinarySearch(list, id)
	if there {
		return list
	}
	return slices.Insert(list, i, id)
}

// forgetStatus removes an ended run from byStatus. The caller holds mu.
func (q *Local) forgetStatus(r Run) {
	q.byStatus[r.Status] = withoutID(q.byStatus[r.Status], r.ID)
}

// withoutID returns list without an id. The part on the shorter side of the id is moved: when Sweep
// removes many runs, the oldest go first.
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
