//go:build unix

package pgqueue_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// TestMetrics: the runs of each graph and status that have not ended are counted, and how long the oldest
// has waited or been under way is told.
func TestMetrics(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	q := openQueue(t, open(t, pgtest.Shared(t).Database(t), postgres.Options{}), pgqueue.Options{Clock: func() time.Time { return now }})
	look := func(want ...metrics.QueueRuns) {
		t.Helper()
		got, err := q.Metrics(t.Context())
		if err != nil || !slices.Equal(got.Runs, want) {
			t.Errorf("%+v, %v; want %+v", got.Runs, err, want)
		}
	}
	look()
	send := func(thread, graph string, after time.Time) runs.Run {
		t.Helper()
		r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: graph}, After: after})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := send("a", "g", time.Time{})
	now = now.Add(time.Minute)
	send("a", "g", time.Time{})
	send("b", "h", now.Add(time.Hour))
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 2, Oldest: time.Minute}, metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1})
	c := claims(t, q, first)
	now = now.Add(time.Second)
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 1, Oldest: time.Second},
		metrics.QueueRuns{Graph: "g", Status: "running", Count: 1, Oldest: time.Second}, metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1})
	if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Pending, After: now}); err != nil { // begun, and waits again
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 2, Oldest: 3 * time.Second}, metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1})
	finish(t, q, claims(t, q, first))
	now = now.Add(2 * time.Hour)
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 1, Oldest: 2*time.Hour + 3*time.Second},
		metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1, Oldest: time.Hour + 3*time.Second})
}

// TestMetricsAreCheap: what Metrics reads is bounded by what it counts: by the runs that have not ended,
// and by its limit.
func TestMetricsAreCheap(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	read := func() (n int, plan string) {
		t.Helper()
		sql, args := pgqueue.DepthSQL(q)
		plan = strings.Join(pgtest.Column(t, conn, "EXPLAIN (ANALYZE) "+sql, args...), "\n")
		for _, m := range rowsOfPlan.FindAllStringSubmatch(plan, -1) {
			rows, _ := strconv.Atoi(m[1] + m[2])
			n = max(n, rows)
		}
		return n, plan
	}
	fill := func(sql string) {
		t.Helper()
		for _, sql := range []string{sql, `ANALYZE stele_runs`} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, after_at, created_at, started_at, ended_at)
		SELECT 'e' || n, 't' || n, 'g', 'success', 0, 3, 1, '{}', now(), now(), now(), now() FROM generate_series(1, 50000) n`)
	fill(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at)
		SELECT 'w' || n, 'w' || n, 'g', 'pending', 0, 3, '{}', now(), now(), now() FROM generate_series(1, 300) n`)
	fill(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at)
		SELECT 'r' || n, 'r' || n, 'g', 'running', 0, 3, 1, '{}', now(), now(), now(), now() FROM generate_series(1, 200) n`)
	if n, plan := read(); n > 500 {
		t.Errorf("%d rows for 500 runs:\n%s", n, plan)
	}
	fill(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at)
		SELECT 'm' || n, 'm' || n, 'g', 'pending', 0, 3, '{}', now(), now(), now() FROM generate_series(1, 30000) n`)
	if n, plan := read(); n > 10_200 {
		t.Errorf("%d rows, with a limit of 10,000:\n%s", n, plan)
	}
	got, err := q.Metrics(t.Context())
	if err != nil || len(got.Runs) != 2 || got.Runs[0].Count != 10_000 || got.Runs[1].Count != 200 {
		t.Errorf("%+v, %v", got, err)
	}
	// Of so many that sleep none hides those that nobody goes on with.
	fill(`INSERT INTO stele_runs (id, thread_id, graph, status, waiting, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at, version, pinned)
		SELECT 's' || n, 's' || n, 'g', 'pending', n <= 11000, 0, 3, 1, '{}', now() + interval '1 day', now() + interval '1 day', now(), now(), '1', n > 11000
		FROM generate_series(1, 11003) n`)
	got, err = q.Metrics(t.Context())
	if err != nil || !slices.ContainsFunc(got.Versions, func(v metrics.QueueVersion) bool { return v.Version == "1" && v.Pinned == 3 }) {
		t.Errorf("%+v, %v", got.Versions, err)
	}
}
