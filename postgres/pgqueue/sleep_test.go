//go:build unix

package pgqueue_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
)

func openItems(t *testing.T, url string, s *postgres.Saver) store.Store {
	t.Helper()
	if err := pgstore.Setup(t.Context(), url, postgres.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	items, err := pgstore.On(t.Context(), s, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	return items
}

// Signals are received from PostgreSQL as from elsewhere.
func TestSignals(t *testing.T) {
	waittest.Signals(t, func(t *testing.T) (saver.Saver, store.Store) {
		url := pgtest.Shared(t).Database(t)
		s := open(t, url, postgres.Options{})
		return s, openItems(t, url, s)
	})
}

// Workers of a fleet execute runs that sleep.
func TestSleepers(t *testing.T) {
	runstest.Sleepers(t, func(t *testing.T, clock func() time.Time) runstest.Home {
		url := pgtest.Shared(t).Database(t)
		s := open(t, url, postgres.Options{})
		return runstest.Home{Saver: s, Queue: openQueue(t, s, pgqueue.Options{Clock: clock}), Items: openItems(t, url, s)}
	})
}

// Workers of a fleet execute runs that start children.
func TestFamilies(t *testing.T) {
	runstest.Families(t, func(t *testing.T, clock func() time.Time) runstest.Home {
		url := pgtest.Shared(t).Database(t)
		s := open(t, url, postgres.Options{})
		return runstest.Home{Saver: s, Queue: openQueue(t, s, pgqueue.Options{Clock: clock}), Items: openItems(t, url, s)}
	})
}

// TestSleepingRunsAreNotLookedAt: of a hundred thousand runs that sleep, a claim reads those that are due, and
// none if none is. So it is with a run enqueued behind one of them.
func TestSleepingRunsAreNotLookedAt(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	insert := func(sql string) {
		t.Helper()
		for _, sql := range []string{sql, `ANALYZE stele_runs`} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	insert(`INSERT INTO stele_runs (id, thread_id, graph, status, waiting, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at)
		SELECT 's' || lpad(n::text, 8, '0'), 't' || n, 'g', 'pending', true, n % 3, 3, 1, '{}', now() + n * interval '1 hour', now() + n * interval '1 hour', now(), now()
		FROM generate_series(1, 100000) n`)
	insert(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at, behind)
		SELECT 'b' || lpad(n::text, 8, '0'), 't' || n, 'g', 'pending', 0, 3, '{}', now(), now(), now(), true FROM generate_series(1, 10) n`)
	reads := func(clock any) (most int, plan string) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		plan = strings.Join(pgtest.Column(t, conn, "EXPLAIN (ANALYZE) "+pgqueue.ClaimSQL(q), "w", []string{"g"}, int64(1e9), clock, [16]byte{1}, "c"), "\n")
		for _, m := range rowsOfPlan.FindAllStringSubmatch(plan, -1) {
			n, _ := strconv.Atoi(m[1] + m[2])
			most = max(most, n)
		}
		return most, plan
	}
	if n, plan := reads(nil); n > 20 {
		t.Errorf("none is due, and a claim reads %d rows:\n%s", n, plan)
	}
	// Ten thousand wait for workers of other versions. One of them is of that of the worker.
	insert(`INSERT INTO stele_workers (worker, graphs, versions, until) VALUES ('w', '{f,g}', '{1,2}', now())`)
	insert(`INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at, version, pinned)
		SELECT 'p' || lpad(n::text, 8, '0'), 'p' || n, 'g', 'pending', n % 3, 3, 1, '{}', now() + interval '1 hour', now() + interval '1 hour', now(), now(), 'v' || n, true
		FROM generate_series(1, 10000) n`)
	if n, plan := reads(nil); n > 20 {
		t.Errorf("thousands are pinned, and a claim reads %d rows:\n%s", n, plan)
	}
	insert(`UPDATE stele_runs SET version = '2' WHERE id = 'p00005000'`)
	if n, plan := reads(nil); n > 20 || !strings.Contains(plan, "stele_runs_pinned") {
		t.Errorf("one is pinned to the version of the worker, and a claim reads %d rows:\n%s", n, plan)
	}
	insert(`DELETE FROM stele_runs WHERE pinned`)
	// The clock jumps: a hundred are due, all of priority 0 in the first place.
	insert(`UPDATE stele_runs SET priority = 0`)
	if n, plan := reads(time.Now().Add(100*time.Hour + time.Minute)); n > 120 {
		t.Errorf("a hundred are due, and a claim reads %d rows:\n%s", n, plan)
	}
}
