package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/runs"
)

// PutSchedule implements runs.Queue. Next is computed by the clock of this program.
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
	err := q.s.run(ctx, write{
		threadID: scheduleLock(id),
		queue: func(b *pgx.Batch, c call) {
			b.Queue(q.s.sql.voidGuard, [16]byte(c))
			queue(b)
			b.Queue(q.sql.notify, q.channel, "")
		},
		refused: func(code, detail string) error { return fmt.Errorf("refused: %s %s", code, detail) },
	})
	if err == nil {
		q.tell("")
	}
	return err
}

// Schedules implements runs.Queue.
func (q *Queue) Schedules(ctx context.Context) (found []runs.Schedule, err error) {
	err = q.s.read(ctx, func(b *pgx.Batch) {
		found = nil
		b.Queue(q.sql.schedules).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var s runs.Schedule
				var spec []byte
				if err := rows.Scan(&s.ID, &s.Cron, &spec, &s.Next); err != nil {
					return err
				}
				s.Next = s.Next.UTC()
				if err := json.Unmarshal(spec, &s.Spec); err != nil {
					s = runs.Schedule{ID: s.ID, Unreadable: err}
				}
				found = append(found, s)
			}
			return rows.Err()
		})
	})
	return found, err
}

// Advance implements runs.Queue.
func (q *Queue) Advance(ctx context.Context, id string, from, to time.Time) error {
	if checkText("schedule", id) != nil {
		return nil
	}
	to = to.UTC().Truncate(time.Microsecond)
	return q.changeSchedule(ctx, id, func(b *pgx.Batch) { b.Queue(q.sql.advance, id, from, to) })
}

// DeleteSchedule implements runs.Queue.
func (q *Queue) DeleteSchedule(ctx context.Context, id string) error {
	if checkText("schedule", id) != nil {
		return nil
	}
	return q.changeSchedule(ctx, id, func(b *pgx.Batch) { b.Queue(q.sql.deleteSchedule, id) })
}
