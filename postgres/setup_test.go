//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgtest"
)

// steps are LangGraph's migrations, as Python runs them.
var steps = []string{
	`CREATE TABLE IF NOT EXISTS checkpoint_migrations (v INTEGER PRIMARY KEY)`,
	`CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
		parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL, metadata JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))`,
	`CREATE TABLE IF NOT EXISTS checkpoint_blobs (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
		version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA NOT NULL, PRIMARY KEY (thread_id, checkpoint_ns, channel, version))`,
	`CREATE TABLE IF NOT EXISTS checkpoint_writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
		task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, blob BYTEA NOT NULL, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))`,
	`ALTER TABLE checkpoint_blobs ALTER COLUMN blob DROP NOT NULL`,
	`SELECT 1`,
	`CREATE INDEX IF NOT EXISTS checkpoints_thread_id_idx ON checkpoints(thread_id)`,
	`CREATE INDEX IF NOT EXISTS checkpoint_blobs_thread_id_idx ON checkpoint_blobs(thread_id)`,
	`CREATE INDEX IF NOT EXISTS checkpoint_writes_thread_id_idx ON checkpoint_writes(thread_id)`,
	`ALTER TABLE checkpoint_writes ADD COLUMN IF NOT EXISTS task_path TEXT NOT NULL DEFAULT ''`,
}

// older makes a schema as LangGraph left it at migration v, with a row in each table.
func older(t testing.TB, conn *pgx.Conn, schema string, v int) {
	t.Helper()
	all := []string{"CREATE SCHEMA " + schema, "SET search_path = " + schema}
	for i := range v + 1 {
		all = append(all, steps[i], fmt.Sprintf("INSERT INTO checkpoint_migrations (v) VALUES (%d)", i))
	}
	if v >= 3 {
		all = append(all, `INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint, metadata) VALUES ('old', '1ef4f797-8335-6428-8001-8a1503f9b875',
				'{"v": 4, "id": "1ef4f797-8335-6428-8001-8a1503f9b875", "ts": "2024-05-04T06:32:42+00:00", "channel_values": {"n": 1.0},
				"channel_versions": {"n": "1.5", "list": "2.5"}, "versions_seen": {}}', '{"step": 1}')`,
			`INSERT INTO checkpoint_blobs (thread_id, channel, version, type, blob) VALUES ('old', 'list', '2.5', 'json', '[1]')`,
			`INSERT INTO checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob) VALUES ('old', '1ef4f797-8335-6428-8001-8a1503f9b875', 'task', 0, 'ch', 'json', '"w"')`)
	}
	for _, sql := range append(all, "RESET search_path") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestSetupTakesUpEveryOlderMigration(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	open(t, url, postgres.Options{Schema: "fresh"})
	want := pgtest.Layout(t, conn, "fresh")
	for v := range steps {
		schema := fmt.Sprint("old", v)
		older(t, conn, schema, v)
		if _, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema}); !errors.Is(err, postgres.ErrNotSetUp) {
			t.Fatalf("migration %d: open gives %v, want ErrNotSetUp", v, err)
		}
		s := open(t, url, postgres.Options{Schema: schema})
		if got := pgtest.Layout(t, conn, schema); !slices.Equal(got, want) {
			t.Fatalf("migration %d:\n got %s\nwant %s", v, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if v < 3 {
			continue
		}
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "old"})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := tup.Checkpoint.Values["n"].Any()
		list, _ := tup.Checkpoint.Values["list"].Any()
		if n != 1.0 || fmt.Sprint(list) != "[1]" || len(tup.PendingWrites) != 1 {
			t.Fatalf("migration %d: read %v, %v, %v", v, n, list, tup.PendingWrites)
		}
	}
}

// The functions plan once, and compress by lz4 where the server has it, also in a database that an older release set up.
func TestSettingsOfFunctions(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	want := "{plan_cache_mode=force_generic_plan}"
	if len(pgtest.Column(t, conn, `SELECT name FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)`)) > 0 {
		want = "{plan_cache_mode=force_generic_plan,default_toast_compression=lz4}"
	}
	for range 2 {
		if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, set := range pgtest.Column(t, conn, `SELECT coalesce(proconfig::text, '') FROM pg_proc WHERE proname IN ('stele_put', 'stele_put_writes')`) {
			if set != want {
				t.Errorf("settings of a function: %s", set)
			}
		}
		pgtest.Shared(t).Exec(t, url, `DELETE FROM stele_migrations WHERE v >= (SELECT max(v) FROM stele_migrations) - 14`,
			`ALTER FUNCTION stele_put RESET ALL`, `ALTER FUNCTION stele_put_writes RESET ALL`)
	}
}

func TestSetupBesideItself(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	older(t, conn, "js", 4)
	for _, schema := range []string{"bare", "js"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = postgres.Setup(ctx, url, postgres.Options{Schema: schema}) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
	}
	if a, b := pgtest.Layout(t, conn, "bare"), pgtest.Layout(t, conn, "js"); !slices.Equal(a, b) {
		t.Fatalf("%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// TestSyncBesideSetup: Sync makes deferred writes durable while a Setup makes an index, which may take hours.
func TestSyncBesideSetup(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	s := open(t, url, postgres.Options{Schema: "beside", StatementTimeout: 30 * time.Second, RetryTime: -1})
	at := put(t, s, "t", "", nil)
	other := pgtest.Connect(t, url)
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock($1)", pgdb.LockKey("beside", "")); err != nil {
		t.Fatal(err)
	}
	if err := s.PutWrites(saver.DeferSync(t.Context()), at, []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSetupWithLittleTime: StatementTimeout does not bound the statements of Setup, of which some make indexes.
func TestSetupWithLittleTime(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	older(t, conn, "little", 4)
	if _, err := conn.Exec(t.Context(), `INSERT INTO little.checkpoints (thread_id, checkpoint_id, checkpoint) SELECT i, i, '{}' FROM generate_series(1, 20000) i`); err != nil {
		t.Fatal(err)
	}
	opts := postgres.Options{Schema: "little", StatementTimeout: time.Millisecond, RetryTime: -1}
	if err := postgres.Setup(t.Context(), url, opts); err != nil {
		t.Error(err)
	}
	cfg, err := postgres.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	opts.Schema = "pooled"
	if err := postgres.SetupPool(t.Context(), pool, opts); err != nil {
		t.Error(err)
	}
}

// An index build that failed leaves an index that IF NOT EXISTS takes for a good one.
func TestSetupRebuildsAnInvalidIndex(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	older(t, conn, "broken", 5)
	for _, sql := range []string{
		`CREATE INDEX checkpoints_thread_id_idx ON broken.checkpoints (thread_id)`,
		`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken.checkpoints_thread_id_idx'::regclass`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	open(t, url, postgres.Options{Schema: "broken"})
	if bad := pgtest.Column(t, conn, `SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`); len(bad) > 0 {
		t.Fatalf("invalid: %v", bad)
	}
}

// What cannot be used is refused by Setup and Open alike, with an error that names it, and
// stays as it was.
func TestSchemasThatAreRefused(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	cases := []struct {
		name string
		make []string
		want error
		says string
	}{
		{"shallow", []string{
			`CREATE TABLE checkpoint_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO checkpoint_migrations VALUES (0), (1), (2), (3), (4)`,
			`CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', type TEXT, checkpoint JSONB NOT NULL, metadata JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns))`,
			`CREATE TABLE checkpoint_blobs (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA, PRIMARY KEY (thread_id, checkpoint_ns, channel))`,
		}, postgres.ErrShallow, "Options.Schema"},
		{"others", []string{`CREATE TABLE checkpoints (id SERIAL PRIMARY KEY, name TEXT)`}, postgres.ErrForeign, "checkpoints"},
		{"foreignkey", []string{`CREATE TABLE checkpoint_writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, idx INTEGER, channel TEXT, type TEXT, blob BYTEA)`}, postgres.ErrForeign, "primary key"},
		{"future", append(slices.Clone(steps), `INSERT INTO checkpoint_migrations VALUES (9), (10)`), postgres.ErrFuture, "version 10"},
		{"ownfuture", []string{`CREATE TABLE stele_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO stele_migrations VALUES (99)`}, postgres.ErrFuture, "stele"},
		{"lost", []string{steps[0], `INSERT INTO checkpoint_migrations VALUES (9)`, steps[1]}, postgres.ErrForeign, "missing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, sql := range append([]string{"CREATE SCHEMA " + c.name, "SET search_path = " + c.name}, append(c.make, "RESET search_path")...) {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			before := pgtest.Layout(t, conn, c.name)
			_, opened := postgres.Open(t.Context(), url, postgres.Options{Schema: c.name})
			for what, err := range map[string]error{"setup": postgres.Setup(t.Context(), url, postgres.Options{Schema: c.name}), "open": opened} {
				var se *postgres.SchemaError
				if !errors.Is(err, c.want) || !errors.As(err, &se) || se.Schema != c.name || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := pgtest.Layout(t, conn, c.name); !slices.Equal(before, after) {
				t.Errorf("changed: %v", after)
			}
		})
	}
}

func TestMissingRights(t *testing.T) {
	srv := pgtest.Shared(t)
	url := srv.Database(t)
	srv.Exec(t, url, "CREATE ROLE weak LOGIN", "CREATE SCHEMA theirs", "GRANT USAGE ON SCHEMA theirs TO weak")
	weak := strings.Replace(url, "user=postgres", "user=weak", 1)
	for _, schema := range []string{"theirs", "new"} {
		if err := postgres.Setup(t.Context(), weak, postgres.Options{Schema: schema}); !errors.Is(err, postgres.ErrRights) {
			t.Errorf("setup of %s: %v", schema, err)
		}
	}
	open(t, url, postgres.Options{Schema: "theirs"})
	srv.Exec(t, url, "GRANT SELECT ON ALL TABLES IN SCHEMA theirs TO weak")
	if _, err := postgres.Open(t.Context(), weak, postgres.Options{Schema: "theirs"}); !errors.Is(err, postgres.ErrRights) || !strings.Contains(err.Error(), "checkpoint_writes") {
		t.Errorf("open: %v", err)
	}
	srv.Exec(t, url, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA theirs TO weak")
	s, err := postgres.Open(t.Context(), weak, postgres.Options{Schema: "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "t", "", map[string]any{"n": 1})
	if err := postgres.Setup(t.Context(), weak, postgres.Options{Schema: "theirs"}); err != nil {
		t.Errorf("setup of what is set up: %v", err)
	}
}

func TestEncodingOfTheDatabase(t *testing.T) {
	url := pgtest.Shared(t).Database(t, "ENCODING 'SQL_ASCII' TEMPLATE template0")
	if err := postgres.Setup(t.Context(), url, postgres.Options{}); !errors.Is(err, postgres.ErrEncoding) {
		t.Errorf("setup: %v", err)
	}
}
