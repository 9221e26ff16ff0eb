package runs

import (
	"context"

	"github.com/stele-go/stele/store"
)

// Children: what the end of a run does to its parent and to its children, in the write that ends it.

// maxChildren is how many children of a run may not have ended: its end is one write with them all.
const maxChildren = store.MaxBatch / 2

// kin are the changes that belong to the end of a run, or with removed to its removal: its parent is due, and its
// children are to be interrupted. The caller holds mu, which is all that is needed: none of them has events.
func (q *Local) kin(r Run, removed bool) (all []change, err error) {
	add := func(l *localRun, to Run) {
		if err == nil {
			var c change
			c, err = q.change(l, to, nil)
			all = append(all, c)
		}
	}
	if r.Parent != "" && (removed || !r.Waiting) {
		for _, l := range q.ofThread(r.Parent) {
			if to, changed := q.woken(l.Run); changed {
				add(l, to)
			}
		}
	}
	if removed && len(q.byThread[r.ThreadID]) == 1 || !removed && endsChildren(r) {
		for _, l := range q.children[r.ThreadID] {
			if l.Detached || l.Cancel != "" {
				continue
			}
			to, now := l.Run, q.now()
			to.Cancel, to.Pinned = Interrupt, false
			if to.After.After(now) {
				to.After = now
			}
			add(l, to)
		}
	}
	return all, err
}

// adopt gives a run that is submitted the parent of a child on its thread which has not ended. If the parent has, the
// run is to be interrupted, as the child would be. The caller holds mu.
func (q *Local) adopt(r *Run) {
	if t := q.threads[r.ThreadID]; t != nil {
		last := t.runs[len(t.runs)-1]
		r.Parent, r.Detached = last.Parent, last.Detached
	} else if last := q.ended[r.ThreadID]; last.waiting && len(q.byThread[r.ThreadID]) > 0 {
		r.Parent, r.Detached = last.parent, last.detached
	}
	if r.Parent != "" && !r.Detached && !q.mayAsk(r.Parent) {
		r.Cancel = Interrupt
	}
}

// mayAsk reports whether a parent may ask how its children have ended: it has not ended, or may go on. The caller
// holds mu.
func (q *Local) mayAsk(parent string) bool {
	last := q.ended[parent]
	return len(q.byThread[parent]) > 0 && (q.threads[parent] != nil || last.waiting || last.status == Error)
}

// ChildEnd implements Queue.
func (q *Local) ChildEnd(ctx context.Context, threadID string) (end ChildEnd, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return end, false, err
	}
	seq := int64(0)
	if end.Run, seq, ok, err = q.childEnd(ctx, threadID); err != nil || !ok {
		return end, false, err
	}
	if err := q.synced(ctx, nil); err != nil || end.Run.Status != Success {
		return end, err == nil, err
	}
	last, err := q.Events(ctx, end.Run.ID, seq-2, 1) // before the one that says that it ended
	if err != nil {
		return end, false, err
	}
	if len(last) > 0 && last[0].Kind == KindOutput {
		end.Output = last[0].Data
	}
	return end, true, nil
}

// childEnd is the run of ChildEnd, with the number of its last event.
func (q *Local) childEnd(ctx context.Context, threadID string) (end Run, seq int64, ok bool, err error) {
	if err := q.items.Current(ctx); err != nil { // before the lock: it may wait
		return end, 0, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []Run
	seqs := map[string]int64{}
	for _, id := range q.byThread[threadID] {
		r := storedRun{}
		if l := q.inMemory(id); l != nil {
			r = l.storedRun
		} else if r, err = q.stored(ctx, id); err != nil {
			return end, 0, false, err
		}
		all, seqs[id] = append(all, r.Run), r.Seq
	}
	end, ok = EndOf(all)
	return end, seqs[end.ID], ok, nil
}
