package runs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/store"
)

// Schedules of a local queue: items of their own, all of which are in memory.

// loadSchedules reads the schedules that are stored. The caller holds mu, or has the queue alone.
func (q *Local) loadSchedules(ctx context.Context, held map[string]bool) error {
	clear(q.schedules)
	for found, err := range q.items.Scan(ctx, store.Query{Prefix: schedulesSpace, ByKey: true, NoRefresh: true}) {
		if err != nil {
			return fmt.Errorf("%v: %w", schedulesSpace, err)
		}
		var s Schedule
		if err := valueOf(&found.Item, &s, &s.Spec); err != nil {
			s = Schedule{Unreadable: err}
		}
		s.ID, s.Held = found.Key, held[found.Key]
		q.schedules[s.ID] = s
	}
	return nil
}

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
	s.Held = false
	q.schedules[s.ID] = s
	q.Changed("")
	return nil
}

// Schedules implements Queue.
func (q *Local) Schedules(ctx context.Context) ([]Schedule, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.noticeRelease()
	if q.follows != nil {
		if err := q.loadSchedules(ctx, nil); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(q.schedules), func(a, b Schedule) int { return strings.Compare(a.ID, b.ID) }), nil
}

// Advance implements Queue.
func (q *Local) Advance(ctx context.Context, id string, from, to time.Time) error {
	return q.synced(ctx, q.advance(ctx, id, from, to))
}

func (q *Local) advance(ctx context.Context, id string, from, to time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
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
	if err := ctx.Err(); err != nil {
		return err
	}
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
