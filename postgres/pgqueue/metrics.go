package pgqueue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// maxCounted is how many runs that wait, and how many that were begun, Metrics counts.
const maxCounted = 10_000

// Metrics says what the queue holds, for all programs on it: runs that were begun, and those that wait,
// the first that are due before others, at most 10,000 of each. It is two statements, which read these
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
	if err == nil {
		out.Versions, err = q.versions(ctx, maxCounted)
	}
	return out, err
}

// Versions implements runs.Queue: one statement, which reads the runs that have not ended by their indexes.
func (q *Queue) Versions(ctx context.Context) ([]metrics.QueueVersion, error) {
	return q.versions(ctx, nil)
}

// versions counts no more than most runs that were begun, and of those that wait; nil is no bound.
func (q *Queue) versions(ctx context.Context, most any) (found []metrics.QueueVersion, err error) {
	err = q.db.Read(ctx, func(b *pgx.Batch) {
		found = nil
		var v metrics.QueueVersion
		b.Queue(q.sql.versions, q.clock(), most).Query(pgdb.Each(func() error {
			found = append(found, v)
			return nil
		}, &v.Graph, &v.Version, &v.Runs, &v.Pinned, &v.Workers))
	})
	return found, err
}

// Serve implements runs.Queue: one statement.
func (q *Queue) Serve(ctx context.Context, worker string, versions map[string]string) (others map[string][]string, err error) {
	if err := runs.CheckServed(worker, versions); err != nil {
		return nil, err
	}
	var graphs, theirs []string
	for graph, version := range versions {
		graphs, theirs = append(graphs, graph), append(theirs, version)
	}
	err = q.db.Repeat(ctx, "", func(b *pgx.Batch) {
		others = map[string][]string{}
		if len(versions) == 0 {
			b.Queue(q.sql.leave, worker)
			return
		}
		var graph, version string
		b.Queue(q.sql.serve, worker, graphs, theirs, 2*q.opts.LeaseTime.Microseconds(), q.clock()).Query(pgdb.Each(func() error {
			others[graph] = append(others[graph], version)
			return nil
		}, &graph, &version))
	})
	return others, err
}
