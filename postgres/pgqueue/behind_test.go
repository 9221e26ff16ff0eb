//go:build unix

package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// stuck are the threads in which a mark may keep runs back for ever: no run without one has not ended, and was
// begun or is due and before the marked ones.
const stuck = `SELECT DISTINCT m.thread_id FROM stele_runs m WHERE m.ended_at IS NULL AND m.behind AND NOT EXISTS (
	SELECT FROM stele_runs o WHERE o.thread_id = m.thread_id AND o.ended_at IS NULL AND NOT o.behind
	AND (o.started_at IS NOT NULL OR o.after_at <= clock_timestamp() AND o.seq < m.seq))`

// marked are the runs that have a mark, in the order of submission.
func marked(t testing.TB, conn *pgx.Conn) []string {
	t.Helper()
	return pgtest.Column(t, conn, `SELECT id FROM stele_runs WHERE behind AND ended_at IS NULL ORDER BY seq`)
}

func equalRuns(t testing.TB, got []string, want ...runs.Run) {
	t.Helper()
	var ids []string
	for _, r := range want {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("marked are %v, want %v", got, ids)
	}
}

func finish(t testing.TB, q runs.Queue, c *runs.Claim) {
	t.Helper()
	if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}); err != nil {
		t.Fatal(err)
	}
}

// claims claims a run and wants this one.
func claims(t testing.TB, q runs.Queue, want runs.Run) *runs.Claim {
	t.Helper()
	c := claim(t, q)
	if c == nil || c.ID != want.ID {
		t.Fatalf("claimed %+v, want %s", c, want.ID)
	}
	return c
}

// TestClaimLooksAtFewRuns: a claim does not read the runs that wait behind one of their thread.
func TestClaimLooksAtFewRuns(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	fillBehind(t, conn, 50, 5000)
	submit(t, q, "free")
	if _, err := conn.Exec(t.Context(), "SET enable_sort = off"); err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(pgtest.Column(t, conn, "EXPLAIN (ANALYZE) "+pgqueue.ClaimSQL(q), "w", []string{"g"}, int64(1e9), nil, [16]byte{1}, "c"), "\n")
	for _, m := range rowsOfPlan.FindAllStringSubmatch(plan, -1) {
		if n, _ := strconv.Atoi(m[1] + m[2]); n > 100 {
			t.Errorf("%d rows:\n%s", n, plan)
		}
	}
}

// TestBehind: a run that is submitted behind another of its thread is marked, and the end of what is ahead takes the
// mark off the next one.
func TestBehind(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	first, second, third, fourth := submit(t, q, "t"), submit(t, q, "t"), submit(t, q, "t"), submit(t, q, "t")
	delayed, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, After: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	equalRuns(t, marked(t, conn), second, third, fourth) // not delayed, which nothing may be ahead of when it is due
	c := claims(t, q, first)
	equalRuns(t, marked(t, conn), second, third, fourth)
	if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Pending, After: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	equalRuns(t, marked(t, conn), second, third, fourth) // it was begun, and has the thread
	if _, err := q.Cancel(t.Context(), first.ID, runs.Interrupt); err != nil {
		t.Fatal(err)
	}
	equalRuns(t, marked(t, conn), third, fourth)
	if _, err := q.Cancel(t.Context(), third.ID, runs.Interrupt); err != nil {
		t.Fatal(err)
	}
	equalRuns(t, marked(t, conn), fourth) // second is still ahead
	if _, err := q.Retry(t.Context(), third.ID); err != nil {
		t.Fatal(err)
	}
	finish(t, q, claims(t, q, second))
	finish(t, q, claims(t, q, third))
	finish(t, q, claims(t, q, fourth))
	claims(t, q, submit(t, q, "t")) // nothing that is due is ahead
	if c := claim(t, q); c != nil {
		t.Errorf("claimed %+v before it is due: %s", c, delayed.ID)
	}
}

// TestBehindForOlderPrograms: a program that knows no marks leaves none that stays: by its statements a run ends, is
// tried again, and is removed.
func TestBehindForOlderPrograms(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	exec := func(sql string, args ...any) {
		t.Helper()
		if tag, err := conn.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() != 1 {
			t.Fatal(tag, err)
		}
	}
	const end = `UPDATE stele_runs SET status = 'interrupted', cancel = 'interrupt', ended_at = now(), due_at = NULL WHERE id = $1`
	const again = `UPDATE stele_runs SET status = 'pending', cancel = '', started_at = NULL, ended_at = NULL, after_at = now(), due_at = now() WHERE id = $1`
	first, second, third, fourth := submit(t, q, "t"), submit(t, q, "t"), submit(t, q, "t"), submit(t, q, "t")
	exec(end, second.ID)
	exec(end, first.ID)
	equalRuns(t, marked(t, conn), fourth)
	exec(again, second.ID) // it had a mark when it ended
	finish(t, q, claims(t, q, second))
	finish(t, q, claims(t, q, third))
	finish(t, q, claims(t, q, fourth))
	first, second = submit(t, q, "t"), submit(t, q, "t")
	exec(`DELETE FROM stele_runs WHERE id = $1`, first.ID)
	claims(t, q, second)
}

// beside starts what has to wait for a transaction, commits that once it does, and waits for the end.
func beside(t *testing.T, url string, tx pgx.Tx, what func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- what() }()
	look := pgtest.Connect(t, url)
	for deadline := time.Now().Add(time.Minute); len(pgtest.Column(t, look, `SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)) == 0; {
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
			if time.Now().After(deadline) {
				t.Fatal("it neither waits nor ends")
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestBehindWhatEnds: a run is submitted behind one that ends before the submission is committed. It is not
// forgotten.
func TestBehindWhatEnds(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	first := submit(t, q, "t")
	c := claims(t, q, first)
	tx, err := pgtest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), pgqueue.SubmitSQL(q), "second", "t", "g", nil, int64(0), int64(3), []byte(`{"thread_id": "t", "graph": "g"}`), nil, nil, [16]byte{1}, nil, false); err != nil {
		t.Fatal(err)
	}
	beside(t, url, tx, func() error { return q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}) })
	claims(t, q, runs.Run{ID: "second"})
}

// TestBehindTwoThatEnd: a run ends while the next one, which is marked, is being cancelled. The one behind both is
// not forgotten.
func TestBehindTwoThatEnd(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	first, second, third := submit(t, q, "t"), submit(t, q, "t"), submit(t, q, "t")
	c := claims(t, q, first)
	tx, err := pgtest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE stele_runs SET status = 'interrupted', ended_at = now(), due_at = NULL WHERE id = $1`, second.ID); err != nil {
		t.Fatal(err)
	}
	beside(t, url, tx, func() error { return q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}) })
	claims(t, q, third)
}

// TestBehindAtAnotherLevel: where transactions see what was there when they began, no run is forgotten that was submitted
// while the one ahead was ending.
func TestBehindAtAnotherLevel(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	level := url + " default_transaction_isolation='repeatable read'"
	q := openQueue(t, open(t, level, postgres.Options{}), pgqueue.Options{})
	first := submit(t, q, "t")
	claims(t, q, first)
	tx, err := pgtest.Connect(t, level).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `SELECT FROM stele_runs`); err != nil {
		t.Fatal(err)
	}
	second := submit(t, q, "t")
	if _, err := tx.Exec(t.Context(), `UPDATE stele_runs SET status = 'success', ended_at = now(), due_at = NULL WHERE id = $1`, first.ID); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims(t, q, second)
}

// TestBehindStorm: whatever is done at once, no run waits for ever.
func TestBehindStorm(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{LeaseTime: 200 * time.Millisecond})
	const threads, clients, calls = 3, 4, 60
	var busy sync.WaitGroup
	for range clients {
		busy.Go(func() {
			var mine []string
			for range calls {
				thread := fmt.Sprint("t", rand.N(threads))
				req := runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g", Attempts: 1000, Priority: rand.N(3)}}
				switch rand.N(12) {
				case 0:
					req.Multitask = runs.Interrupt
				case 1:
					req.Multitask = runs.Rollback
				case 2:
					req.After = time.Now().Add(rand.N(50 * time.Millisecond))
				}
				r, err := q.Submit(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, r.ID)
				id := mine[rand.N(len(mine))]
				switch rand.N(6) {
				case 0:
					_, err = q.Cancel(t.Context(), id, runs.Interrupt)
				case 1:
					_, err = q.Retry(t.Context(), id)
				case 2:
					err = q.Delete(t.Context(), id)
				}
				var invalid *runs.InvalidError
				if err != nil && !errors.As(err, &invalid) && !errors.Is(err, runs.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	over, workers := make(chan struct{}), sync.WaitGroup{}
	work := func() {
		c := claim(t, q)
		if c == nil {
			time.Sleep(time.Millisecond)
			return
		}
		o := runs.Outcome{Status: runs.Success}
		switch rand.N(10) {
		case 0:
			return // it dies
		case 1:
			o = runs.Outcome{Status: runs.Pending, After: time.Now().Add(rand.N(20 * time.Millisecond))}
		}
		if err := q.Finish(t.Context(), *c, o); err != nil && !errors.Is(err, runs.ErrFenced) {
			t.Error(err)
		}
	}
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					work()
				}
			}
		})
	}
	conn := pgtest.Connect(t, url)
	look := func() {
		t.Helper()
		if ids := pgtest.Column(t, conn, stuck); len(ids) > 0 {
			t.Errorf("threads whose runs wait for ever: %v", ids)
		}
	}
	ended := make(chan struct{})
	go func() { busy.Wait(); close(ended) }()
	for submitting := true; submitting && !t.Failed(); {
		select {
		case <-ended:
			submitting = false
		default:
			look()
		}
	}
	busy.Wait()
	for deadline := time.Now().Add(time.Minute); !t.Failed(); look() {
		if left := pgtest.Column(t, conn, `SELECT id || ' ' || status || ' ' || behind FROM stele_runs WHERE ended_at IS NULL`); len(left) == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Errorf("left: %v", left)
		}
	}
	close(over)
	workers.Wait()
}

// TestSetupMarksWhatIsBehind: a database of before, with runs that wait, is taken up: its runs are marked, and begin in
// order.
func TestSetupMarksWhatIsBehind(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	want := pgtest.Layout(t, conn, "public")
	busy := submit(t, q, "busy")
	c := claims(t, q, busy)
	var waiting, free []runs.Run
	for range 3 {
		waiting = append(waiting, submit(t, q, "busy"))
	}
	for range 3 {
		free = append(free, submit(t, q, "free"))
	}
	for _, sql := range []string{
		`DROP TRIGGER stele_runs_ended ON stele_runs`, `DROP TRIGGER stele_runs_removed ON stele_runs`, `DROP FUNCTION stele_next_behind`,
		`ALTER TABLE stele_runs DROP COLUMN behind, DROP COLUMN version, DROP COLUMN pinned`, // and their indexes
		`CREATE INDEX stele_runs_next ON stele_runs (priority DESC, after_at, seq) WHERE ended_at IS NULL`,
		`DELETE FROM stele_migrations WHERE v > (SELECT max(v) FROM stele_migrations) - 12`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Layout(t, conn, "public"); !slices.Equal(got, want) {
		t.Errorf("%s\n\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	equalRuns(t, marked(t, conn), append(waiting, free[1:]...)...)
	finish(t, q, c)
	for range waiting {
		finish(t, q, claims(t, q, waiting[0]))
		waiting = waiting[1:]
	}
	for _, r := range free {
		finish(t, q, claims(t, q, r))
	}
}
