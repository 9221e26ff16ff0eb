package pgqueue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// PutSchedule implements runs.Queue. Next is computed by the clock of this program, not by the database's.
func (q *Queue) PutSchedule(ctx context.Context, s runs.Schedule) (runs.Schedule, error) {
	s, err := runs.NewSchedule(s, q.opts.Serializer, q.now())
	if err != nil {
		return s, err
	}
	spec, err := json.Marshal(s.Spec)
	if err != nil {
		return s, err
	}
	return s, q.changeSchedule(ctx, s.ID, func(b *pgx.Batch) { b.Queue(q.sql.putSchedule, s.ID, s.Cron, spec, s.Next) })
}

// changeSchedule performs a write about a schedule, and wakes workers.
func (q *Queue) changeSchedule(ctx context.Context, id string, queue func(b *pgx.Batch)) error {
	err := q.db.Write(ctx, pgdb.Write{
		Thread: scheduleLock(id),
		Queue: func(b *pgx.Batch, c pgdb.Call) {
			queue(b)
			b.Queue(q.sql.notify, q.channel, "")
		},
	})
	if err == nil {
		q.tell("")
	}
	return err
}

// Schedules implements runs.Queue.
func (q *Queue) Schedules(ctx context.Context) (found []runs.Schedule, err error) {
	err = q.db.Read(ctx, func(b *pgx.Batch) {
		found = nil
		var id, cron string
		var spec []byte
		var next time.Time
		b.Queue(q.sql.schedules).Query(pgdb.Each(func() error {
			s := runs.Schedule{ID: id, Cron: cron, Next: next.UTC()}
			if err := runs.UnmarshalSpec(spec, &s.Spec); err != nil {
				s = runs.Schedule{ID: id, Unreadable: err}
			}
			found = append(found, s)
			return nil
		}, &id, &cron, &spec, &next))
	})
	return found, err
}

// Advance implements runs.Queue.
func (q *Queue) Advance(ctx context.Context, id string, from, to time.Time) error {
	if pgdb.CheckText("schedule", id) != nil {
		return nil
	}
	to = to.UTC().Truncate(time.Microsecond)
	return q.changeSchedule(ctx, id, func(b *pgx.Batch) { b.Queue(q.sql.advance, id, from, to) })
}

// DeleteSchedule implements runs.Queue.
func (q *Queue) DeleteSchedule(ctx context.Context, id string) error {
	if pgdb.CheckText("schedule", id) != nil {
		return nil
	}
	return q.changeSchedule(ctx, id, func(b *pgx.Batch) { b.Queue(q.sql.deleteSchedule, id) })
}
