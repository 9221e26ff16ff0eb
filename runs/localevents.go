package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/store"
)

// Append implements Queue. Runs append beside one another.
func (q *Local) Append(ctx context.Context, c Claim, events []Event) (int64, error) {
	if err := CheckEvents(events); err != nil {
		return 0, err
	}
	_, unlock := q.lock(c.ID)
	r, err := q.held(c)
	if err != nil {
		unlock()
		return 0, err
	}
	ops, err := q.eventOps(r.storedRun, events)
	q.mu.Unlock()
	defer r.appending.Unlock()
	if err == nil {
		err = q.write(ctx, ops...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		return 0, err
	}
	r.Seq += int64(len(ops))
	q.Changed(c.ID)
	return r.Seq, nil
}

// seqKey makes the order of keys that of numbers.
func seqKey(seq int64) string { return fmt.Sprintf("%016d", seq) }

func eventsOf(id string) store.Namespace { return append(slices.Clone(eventsSpace), id) }

func (q *Local) eventOps(r storedRun, events []Event) ([]store.Op, error) {
	ops := make([]store.Op, len(events))
	for i, ev := range events {
		ev.Seq, ev.Attempt, ev.Time = r.Seq+int64(i)+1, r.Attempt, q.now()
		var err error
		if ops[i], err = putOp(eventsOf(r.ID), seqKey(ev.Seq), ev); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// lastSeq is the number of the last event of a run.
func (q *Local) lastSeq(ctx context.Context, r storedRun) (int64, error) {
	for seq := r.Seq; ; seq++ {
		_, err := q.items.Get(ctx, eventsOf(r.ID), seqKey(seq+1))
		if errors.Is(err, store.ErrNotFound) {
			return seq, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// Events implements Queue.
func (q *Local) Events(ctx context.Context, id string, after int64, limit int) ([]Event, error) {
	if checkName("run", id) != nil {
		return nil, nil
	}
	var out []Event
	for seq := max(after, 0) + 1; limit == 0 || len(out) < limit; seq++ {
		var ev Event
		err := get(ctx, q.items, eventsOf(id), seqKey(seq), &ev)
		if errors.Is(err, ErrNotFound) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}
