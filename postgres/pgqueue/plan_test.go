//go:build unix

package pgqueue_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// What a step of a plan has read: the rows it yields, and those it has thrown away.
var rowsOfPlan = regexp.MustCompile(`actual [^)]*rows=(\d+)|Rows Removed by Filter: (\d+)`)

// TestRunsAreReadByIndexes: a page of a thread's runs reads a page, and whether a thread is busy is
// known without a look at its runs that have ended. When the next run that waits is due is known without a
// look at those that are due.
func TestRunsAreReadByIndexes(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := pgqueue.Open(open(t, url, postgres.Options{}), pgqueue.Options{})
	defer q.Close()
	conn := pgtest.Connect(t, url)
	for _, sql := range []string{
		// One thread has a tenth of the runs, behind those of many others, and one that was begun before all.
		`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, after_at, created_at, started_at, ended_at)
		SELECT 'e' || lpad(n::text, 8, '0'), CASE WHEN n > 45000 THEN 'long' ELSE 't' || n END, 'g', 'success', 0, 3, 1, '{}', now(), now(), now(), now() FROM generate_series(1, 50000) n`,
		`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at)
		VALUES ('m', 'long', 'g', 'running', 0, 3, 1, '{}', now() + interval '1 hour', now(), now(), now())`,
		`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at)
		SELECT 'w' || lpad(n::text, 8, '0'), 'long', 'g', 'pending', 0, 3, '{}', now(), now(), now() FROM generate_series(1, 2000) n`,
		`ANALYZE stele_runs`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for what, sel := range map[string]runs.Query{
		"oldest": {ThreadID: "long"}, "newest": {ThreadID: "long", Newest: true}, "running": {ThreadID: "long", Status: runs.Running},
		"behind": {ThreadID: "long", After: "e00047000"},
	} {
		sql, args := pgqueue.Listing(q, sel, 10)
		plan := strings.Join(pgtest.Column(t, conn, "EXPLAIN (ANALYZE) "+sql, args...), "\n")
		for _, m := range rowsOfPlan.FindAllStringSubmatch(plan, -1) {
			if n, _ := strconv.Atoi(m[1] + m[2]); n > 2001 { // "running" looks at all that have not ended
				t.Errorf("%s: %d rows:\n%s", what, n, plan)
			}
		}
	}
	plan := strings.Join(pgtest.Column(t, conn, "EXPLAIN "+pgqueue.ClaimSQL(q), "w", []string{"g"}, int64(1), nil, [16]byte{1}, "c"), "\n")
	if !strings.Contains(plan, "stele_runs_later") {
		t.Errorf("all runs that wait are looked at twice:\n%s", plan)
	}
}
