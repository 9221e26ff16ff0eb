package runs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/store"
)

// PutSchedule implements Queue.
func (q *Local) PutSchedule(ctx context.Context, s Schedule) (Schedule, error) {
	s, err := NewSchedule(s, q.opts.Serializer, q.now())
	if err != nil {
		return s, err
	}
	q.mu.Lock()
	err = q.saveSchedule(ctx, s)
	q.mu.Unlock()
	return s, q.synced(ctx, err)
}

func (q *Local) saveSchedule(ctx context.Context, s Schedule) error {
	op, err := putOp(schedulesSpace, s.ID, s)
	if err != nil {
		return err
	}
	if err := q.write(ctx, op); err != nil {
		return err
	}
	q.schedules[s.ID] = s
	q.Changed("")
	return nil
}

// Schedules implements Queue.
func (q *Local) Schedules(context.Context) ([]Schedule, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.SortedFunc(maps.Values(q.schedules), func(a, b Schedule) int { return strings.Compare(a.ID, b.ID) }), nil
}

// Advance implements Queue.
func (q *Local) Advance(ctx context.Context, id string, from, to time.Time) error {
	return q.synced(ctx, q.advance(ctx, id, from, to))
}

func (q *Local) advance(ctx context.Context, id string, from, to time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, ok := q.schedules[id]
	if !ok || s.Unreadable != nil || !s.Next.Equal(from) {
		return nil
	}
	s.Next = to.UTC().Truncate(time.Microsecond)
	return q.saveSchedule(ctx, s)
}

// DeleteSchedule implements Queue.
func (q *Local) DeleteSchedule(ctx context.Context, id string) error {
	return q.synced(ctx, q.deleteSchedule(ctx, id))
}

func (q *Local) deleteSchedule(ctx context.Context, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.schedules[id]; !ok {
		return nil
	}
	if err := q.write(ctx, store.PutOp{Namespace: schedulesSpace, Key: id}); err != nil {
		return err
	}
	delete(q.schedules, id)
	return nil
}
