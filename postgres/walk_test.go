//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// crowd gives a database n threads of one checkpoint each, as another program would have put them.
func crowd(t *testing.T, url string, n int) {
	t.Helper()
	conn := pgtest.Connect(t, url)
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)
			SELECT 'crowd-' || lpad(i::text, 8, '0'), '', '1f04f797-0335-6428-8001-8a1503f9b875', 'msgpack',
			'{"v": 4, "id": "1f04f797-0335-6428-8001-8a1503f9b875", "ts": "2026-01-01T00:00:00+00:00", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}',
			jsonb_build_object('run_id', 'run-' || i) FROM generate_series(1, %d) i`, n),
		`ANALYZE`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneThreadAmongMany: calls about one thread, and a run of it, read few rows where there are
// many threads. With a walk over all they would read one of each at least.
func TestOneThreadAmongMany(t *testing.T) {
	const threads = 5000
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	crowd(t, url, threads)
	cfg, err := postgres.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1 // so that its statistics can be asked for
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wrapped := saver.Intercept(s, func(ctx context.Context, _ saver.Call, next func(context.Context) error) error { return next(ctx) })
	put(t, s, "t", "", nil)
	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("one", func(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }).
		Sequence(graph.Start, "one").
		Compile(graph.Options{Name: "g", Saver: wrapped})
	if err != nil {
		t.Fatal(err)
	}
	q := pgqueue.Open(s, pgqueue.Options{})
	defer q.Close()
	tuples := func() (n int) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	describe := func(s saver.Saver, id string, want bool) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			info, found, err := saver.ThreadOf(ctx, s, id)
			if found != want || want && info.ThreadID != id {
				t.Errorf("%s: %+v, %t", id, info, found)
			}
			return err
		}
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"a thread":                   describe(s, "t", true),
		"a thread of a wrapped one":  describe(wrapped, "t", true),
		"no thread":                  describe(s, "crowd-", false),
		"no thread of a wrapped one": describe(wrapped, "crowd-", false),
		"time to live":               func(ctx context.Context) error { return s.SetTTL(ctx, "t", time.Hour) },
		"a rollback": func(ctx context.Context) error {
			lease, err := s.Own(ctx, "t", false)
			if err != nil {
				return err
			}
			defer lease.Release()
			_, err = s.DeleteForRuns(ctx, []string{"run"}, lease)
			return err
		},
		"a run": func(ctx context.Context) error {
			r, err := q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, Input: map[string]any{"n": 0}})
			if err != nil {
				return err
			}
			working, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				w := runs.Worker{Queue: q, Saver: wrapped, Graphs: map[string]*pregel.Graph{"g": g}, Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}
				ended <- w.Run(working)
			}()
			r, err = runs.Wait(ctx, q, r.ID)
			stop()
			if err = errors.Join(err, <-ended); err == nil && r.Status != runs.Success {
				err = fmt.Errorf("the run ended as %s: %s", r.Status, r.Error)
			}
			return err
		},
	} {
		before := tuples()
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := tuples() - before; n > threads/4 {
			t.Errorf("%s: %d rows were read of %d threads", name, n, threads)
		}
	}
	before := tuples() // the figure sees a walk
	for _, err := range s.Threads(t.Context(), saver.ThreadQuery{Prefix: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := tuples() - before; n < threads {
		t.Errorf("a walk over %d threads reads %d rows", threads, n)
	}
}

// fewRows gives a database a role for which a statement ends that reads more than most
// checkpoints, as one that takes too long does, and returns how the role connects.
func fewRows(t *testing.T, url string, most int) string {
	t.Helper()
	role := fmt.Sprintf("patient%d", time.Now().UnixNano())
	pgtest.Shared(t).Exec(t, url, fmt.Sprintf(`CREATE FUNCTION few() RETURNS bool LANGUAGE plpgsql AS $$
		DECLARE n int := 1;
		BEGIN
			IF current_setting('few.at', true) = statement_timestamp()::text THEN
				n := current_setting('few.read')::int + 1;
			END IF;
			IF n > %d THEN
				RAISE query_canceled USING MESSAGE = 'canceling statement due to too many rows';
			END IF;
			PERFORM set_config('few.at', statement_timestamp()::text, false), set_config('few.read', n::text, false);
			RETURN true;
		END $$`, most),
		`ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY`, `CREATE POLICY few ON checkpoints USING (few())`,
		`CREATE ROLE `+role+` LOGIN`, `GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role, `GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO `+role)
	bounded := strings.Replace(url, "user=postgres", "user="+role, 1)
	if _, err := pgtest.Connect(t, bounded).Exec(t.Context(), `SELECT count(*) FROM checkpoints WHERE metadata ->> 'run_id' = 'none'`); err == nil {
		t.Fatal("a statement read all rows")
	}
	return bounded
}

// TestDeleteForRunsOfALargeDatabase: runs are found in any thread by statements of which each
// reads few rows, however many checkpoints there are. One that read all would end with the
// server's timeout, each time it is tried. Here it is rows that the server bounds, not time.
func TestDeleteForRunsOfALargeDatabase(t *testing.T) {
	const threads, most = 8000, 3000
	srv := pgtest.Shared(t)
	url := srv.Database(t)
	open(t, url, postgres.Options{})
	crowd(t, url, threads)
	srv.Exec(t, url, fmt.Sprintf(`INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)
		SELECT 'crowd-00004000', '', '2' || lpad(i::text, 8, '0'), 'msgpack', '{}', '{}' FROM generate_series(1, %d) i`, 3*most),
		`ANALYZE`)
	s, err := postgres.Open(t.Context(), fewRows(t, url, most), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gone := []string{"run-1", "run-2000", "run-2001", "run-3999", "run-4001", fmt.Sprintf("run-%d", threads), "none"}
	done, err := s.DeleteForRuns(t.Context(), gone, nil)
	if err != nil || done.Checkpoints != len(gone)-1 {
		t.Errorf("removed %+v, %v", done, err)
	}
	left := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*)::text FROM checkpoints`)[0]
	if want := fmt.Sprint(threads + 3*most - len(gone) + 1); left != want {
		t.Errorf("%s checkpoints are left, want %s", left, want)
	}
}

// TestThreadsOfALargeDatabase: all threads are found by statements of which each reads few rows.
func TestThreadsOfALargeDatabase(t *testing.T) {
	const threads, most = 4000, 2500
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	crowd(t, url, threads)
	s, err := postgres.Open(t.Context(), fewRows(t, url, most), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		q    saver.ThreadQuery
		want int
		last string
	}{
		{saver.ThreadQuery{}, threads, "crowd-00004000"},
		{saver.ThreadQuery{Prefix: "crowd-0000399"}, 10, "crowd-00003999"},
		{saver.ThreadQuery{Limit: 1001}, 1001, "crowd-00001001"},
		{saver.ThreadQuery{Metadata: map[string]any{"run_id": "run-3900"}}, 1, "crowd-00003900"},
		{saver.ThreadQuery{Prefix: "none"}, 0, ""},
	} {
		n, last := 0, ""
		for info, err := range s.Threads(t.Context(), test.q) {
			if err != nil {
				t.Fatalf("%+v: %v", test.q, err)
			}
			if info.ThreadID <= last {
				t.Fatalf("%+v: %s after %s", test.q, info.ThreadID, last)
			}
			n, last = n+1, info.ThreadID
		}
		if n != test.want || last != test.last {
			t.Errorf("%+v: %d threads, the last %q; want %d, %q", test.q, n, last, test.want, test.last)
		}
	}
	if _, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 1}, true); err != nil {
		t.Errorf("retain: %v", err)
	}
	// Rows of stele's that Python's deletions left are removed, and no others.
	conn := pgtest.Connect(t, url)
	for _, sql := range []string{
		`INSERT INTO stele_threads SELECT thread_id, now() FROM checkpoints`,
		`INSERT INTO stele_checkpoints (thread_id, checkpoint_ns, checkpoint_id) SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints`,
		`INSERT INTO stele_calls (thread_id, checkpoint_ns, checkpoint_id, task_id, channels) SELECT thread_id, checkpoint_ns, checkpoint_id, 'task', '' FROM checkpoints`,
		`DELETE FROM checkpoints WHERE thread_id LIKE '%7'`,
		`DELETE FROM stele_threads WHERE thread_id LIKE '%17'`,
		`ANALYZE`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("sweep: %v", err)
	}
	left := pgtest.Column(t, conn, `SELECT count(*)::text FROM stele_threads UNION ALL SELECT count(*)::text FROM stele_checkpoints UNION ALL SELECT count(*)::text FROM stele_calls`)
	if want := []string{fmt.Sprint(threads * 9 / 10), fmt.Sprint(threads * 9 / 10), "0"}; !slices.Equal(left, want) {
		t.Errorf("after a sweep %v threads, checkpoints and calls of stele's are left, want %v", left, want)
	}
}
