package pgqueue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/base/metrics"
)

// maxCounted is how many runs that wait, and how many that were begun, Metrics counts.
const maxCounted = 10_000

// Metrics says what the queue holds, for all programs on it: runs that were begun, and those that wait,
// the first that are due before others, at most 10,000 of each. It is one statement, which reads these
// runs by their indexes, however many have ended.
func (q *Queue) Metrics(ctx context.Context) (out metrics.Queue, err error) {
	if err := q.db.Ready(ctx); err != nil {
		return out, err
	}
	err = q.db.Repeat(ctx, "", func(b *pgx.Batch) {
		out = metrics.Queue{}
		b.Queue(q.sql.depth, q.clock(), maxCounted).Query(func(rows pgx.Rows) error {
			var r metrics.QueueRuns
			var seconds float64
			_, err := pgx.ForEachRow(rows, []any{&r.Graph, &r.Status, &r.Count, &seconds}, func() error {
				r.Oldest = time.Duration(seconds * float64(time.Second))
				out.Runs = append(out.Runs, r)
				return nil
			})
			return err
		})
	})
	return out, err
}
