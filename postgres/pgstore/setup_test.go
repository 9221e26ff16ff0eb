//go:build unix

package pgstore_test

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

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
)

// storeSteps are LangGraph's migrations of its store, as Python runs them.
var storeSteps = []string{
	`CREATE TABLE IF NOT EXISTS store (prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
		created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key))`,
	`CREATE INDEX CONCURRENTLY IF NOT EXISTS store_prefix_idx ON store USING btree (prefix text_pattern_ops)`,
	`ALTER TABLE store ADD COLUMN IF NOT EXISTS expires_at TIMESTAMP WITH TIME ZONE, ADD COLUMN IF NOT EXISTS ttl_minutes INT`,
	`CREATE INDEX IF NOT EXISTS idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL`,
}

// vectorSteps are those of its vectors.
var vectorSteps = []string{
	`CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public`,
	`CREATE TABLE IF NOT EXISTS store_vectors (prefix text NOT NULL, key text NOT NULL, field_name text NOT NULL, embedding public.vector(3),
		created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
		PRIMARY KEY (prefix, key, field_name), FOREIGN KEY (prefix, key) REFERENCES store(prefix, key) ON DELETE CASCADE)`,
	`CREATE INDEX CONCURRENTLY IF NOT EXISTS store_vectors_embedding_idx ON store_vectors USING hnsw (embedding public.vector_cosine_ops)`,
}

func execAll(t testing.TB, conn *pgx.Conn, schema string, statements ...string) {
	t.Helper()
	all := append([]string{"CREATE SCHEMA IF NOT EXISTS " + schema, "SET search_path = " + schema}, statements...)
	for _, sql := range append(all, "RESET search_path") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// olderStore makes a schema as LangGraph left it after its migrations v, and w of vectors.
func olderStore(t testing.TB, conn *pgx.Conn, schema string, v, w int) {
	t.Helper()
	all := []string{`CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)`}
	for i := range v + 1 {
		all = append(all, storeSteps[i], fmt.Sprintf("INSERT INTO store_migrations (v) VALUES (%d)", i))
	}
	if v >= 0 {
		all = append(all, `INSERT INTO store (prefix, key, value) VALUES ('old.one', 'k', '{"t": "x"}')`)
	}
	for i := range w + 1 {
		if i == 0 {
			all = append(all, `CREATE TABLE vector_migrations (v INTEGER PRIMARY KEY)`)
		}
		all = append(all, vectorSteps[i], fmt.Sprintf("INSERT INTO vector_migrations (v) VALUES (%d)", i))
	}
	if w >= 1 {
		all = append(all, `INSERT INTO store_vectors (prefix, key, field_name, embedding) VALUES ('old.one', 'k', 't', '[1,0,0]')`)
	}
	execAll(t, conn, schema, all...)
}

var xyz = store.Options{Index: &store.Index{Dims: 3, Embed: countXYZ, Fields: []string{"t"}}}

func TestStoreSetupTakesUpEveryOlderMigration(t *testing.T) {
	url := pgtest.SharedWithVectors(t).Database(t)
	conn := pgtest.Connect(t, url)
	execAll(t, conn, "public", vectorSteps[0])
	ctx, vectors := t.Context(), &pgstore.Vectors{Dims: 3, Index: pgstore.HNSW}
	if err := pgstore.Setup(ctx, url, postgres.Options{Schema: "fresh"}, vectors); err != nil {
		t.Fatal(err)
	}
	want := pgtest.Layout(t, conn, "fresh")
	for _, at := range [][2]int{{-1, -1}, {0, -1}, {1, -1}, {2, -1}, {3, -1}, {3, 0}, {3, 1}, {3, 2}} {
		schema := strings.ReplaceAll(fmt.Sprint("old", at[0], "_", at[1]), "-", "m")
		schema = strings.ReplaceAll(schema, " ", "")
		olderStore(t, conn, schema, at[0], at[1])
		opts := postgres.Options{Schema: schema}
		if _, err := pgstore.Open(ctx, url, opts, xyz); !errors.Is(err, postgres.ErrNotSetUp) {
			t.Fatalf("migrations %v: open gives %v, want ErrNotSetUp", at, err)
		}
		if err := pgstore.Setup(ctx, url, opts, vectors); err != nil {
			t.Fatalf("migrations %v: %v", at, err)
		}
		if got := pgtest.Layout(t, conn, schema); !slices.Equal(got, want) {
			t.Fatalf("migrations %v:\n got %s\nwant %s", at, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		s := openStore(t, url, opts, xyz)
		found, err := s.Search(ctx, store.Query{Text: "x"})
		if at[0] >= 0 && (err != nil || len(found) != 1 || found[0].Value["t"] != "x" || found[0].Scored != (at[1] >= 1)) {
			t.Errorf("migrations %v: found %+v, %v", at, found, err)
		}
	}
}

func TestStoreSetupBesideItself(t *testing.T) {
	url := pgtest.SharedWithVectors(t).Database(t)
	conn := pgtest.Connect(t, url)
	olderStore(t, conn, "python", 1, -1)
	for _, schema := range []string{"bare", "python"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = pgstore.Setup(ctx, url, postgres.Options{Schema: schema}, &pgstore.Vectors{Dims: 3, Index: pgstore.IVFFlat, Lists: 2})
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
	}
	if a, b := pgtest.Layout(t, conn, "bare"), pgtest.Layout(t, conn, "python"); !slices.Equal(a, b) {
		t.Fatalf("%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// What cannot be used is refused by Setup and Open alike, with an error that
// names it, and stays as it was.
func TestStoresThatAreRefused(t *testing.T) {
	url := pgtest.SharedWithVectors(t).Database(t)
	conn := pgtest.Connect(t, url)
	execAll(t, conn, "public", vectorSteps[0])
	full := func(more ...string) []string {
		all := []string{`CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO store_migrations VALUES (0), (1), (2), (3)`}
		return slices.Concat(all, storeSteps, more)
	}
	withVectors := []string{`CREATE TABLE vector_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO vector_migrations VALUES (0), (1)`}
	cases := []struct {
		name string
		make []string
		want error
		says string
	}{
		{"shop", []string{`CREATE TABLE store (id SERIAL PRIMARY KEY, city TEXT)`}, postgres.ErrForeign, "table store"},
		{"javascript", []string{`CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)`,
			`CREATE TABLE store (namespace_path TEXT NOT NULL, key TEXT NOT NULL, value JSONB NOT NULL, created_at TIMESTAMPTZ, updated_at TIMESTAMPTZ, expires_at TIMESTAMPTZ, PRIMARY KEY (namespace_path, key))`}, postgres.ErrForeign, "JavaScript"},
		{"keyless", []string{`CREATE TABLE store (prefix text, key text, value jsonb, created_at TIMESTAMPTZ, updated_at TIMESTAMPTZ)`}, postgres.ErrForeign, "primary key"},
		{"future", full(`INSERT INTO store_migrations VALUES (4)`), postgres.ErrFuture, "version 4"},
		{"vectorfuture", full(`CREATE TABLE vector_migrations (v INTEGER PRIMARY KEY)`, vectorSteps[1], `INSERT INTO vector_migrations VALUES (3)`), postgres.ErrFuture, "vector_migrations"},
		{"ownfuture", []string{`CREATE TABLE stele_store_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO stele_store_migrations VALUES (99)`}, postgres.ErrFuture, "stele"},
		{"lost", []string{`CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)`, `INSERT INTO store_migrations VALUES (3)`}, postgres.ErrForeign, "missing"},
		{"bits", full(append(withVectors, `CREATE TABLE store_vectors (prefix text, key text, field_name text, embedding bit(3), PRIMARY KEY (prefix, key, field_name))`)...), postgres.ErrForeign, "embedding"},
		{"wide", full(append(withVectors, strings.Replace(vectorSteps[1], "vector(3)", "vector(4)", 1))...), postgres.ErrDimensions, "4 dimensions"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			execAll(t, conn, c.name, c.make...)
			before := pgtest.Layout(t, conn, c.name)
			opts := postgres.Options{Schema: c.name}
			_, opened := pgstore.Open(t.Context(), url, opts, xyz)
			for what, err := range map[string]error{"setup": pgstore.Setup(t.Context(), url, opts, &pgstore.Vectors{Dims: 3}), "open": opened} {
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
	// The saver needs none of these tables.
	if err := postgres.Setup(t.Context(), url, postgres.Options{Schema: "shop"}); err != nil {
		t.Error(err)
	}
}

func TestVectorsThatAreRefused(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	for _, v := range []pgstore.Vectors{{}, {Dims: -1}, {Dims: 16001}, {Dims: 2001, Index: pgstore.HNSW}, {Dims: 4001, Half: true, Index: pgstore.IVFFlat},
		{Dims: 3, Index: "btree"}, {Dims: 3, Metric: "hamming"}, {Dims: 3, Lists: -1}} {
		if err := pgstore.Setup(t.Context(), url, postgres.Options{}, &v); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

func TestRightsOnAStore(t *testing.T) {
	srv := pgtest.SharedWithVectors(t)
	url := srv.Database(t)
	srv.Exec(t, url, "CREATE ROLE weakstore LOGIN", "CREATE SCHEMA theirs", "GRANT USAGE ON SCHEMA theirs TO weakstore", "CREATE SCHEMA mine AUTHORIZATION weakstore")
	weak := strings.Replace(url, "user=postgres", "user=weakstore", 1)
	ctx, theirs, mine := t.Context(), postgres.Options{Schema: "theirs"}, postgres.Options{Schema: "mine"}
	if err := pgstore.Setup(ctx, weak, theirs, nil); !errors.Is(err, postgres.ErrRights) {
		t.Errorf("setup: %v", err)
	}
	// Who may not create the extension does without it.
	if err := pgstore.Setup(ctx, weak, mine, &pgstore.Vectors{Dims: 3}); !errors.Is(err, postgres.ErrRights) || !strings.Contains(err.Error(), "extension") {
		t.Errorf("setup with the extension: %v", err)
	}
	if err := pgstore.Setup(ctx, weak, mine, &pgstore.Vectors{Dims: 3, WithoutExtension: true}); err != nil {
		t.Errorf("setup without the extension: %v", err)
	}
	if _, err := pgstore.Open(ctx, weak, mine, xyz); err != nil {
		t.Errorf("open: %v", err)
	}
	if err := pgstore.Setup(ctx, url, theirs, nil); err != nil {
		t.Fatal(err)
	}
	srv.Exec(t, url, "GRANT SELECT ON ALL TABLES IN SCHEMA theirs TO weakstore")
	if _, err := pgstore.Open(ctx, weak, theirs, store.Options{}); !errors.Is(err, postgres.ErrRights) || !strings.Contains(err.Error(), "stele_items") {
		t.Errorf("open: %v", err)
	}
}

// Vectors that were stored before the extension was there are moved, and found as before.
func TestVectorsMoveIntoTheExtension(t *testing.T) {
	url := pgtest.SharedWithVectors(t).Database(t)
	ctx := t.Context()
	vectors := pgstore.Vectors{Dims: 3, WithoutExtension: true, Half: true}
	if err := pgstore.Setup(ctx, url, postgres.Options{}, &vectors); err != nil {
		t.Fatal(err)
	}
	keys := func(s *pgstore.Store) (out []string) {
		found, err := s.Search(ctx, store.Query{Text: "xy"})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, fmt.Sprintf("%s %.3f", f.Key, f.Score))
		}
		return out
	}
	before, err := pgstore.Open(ctx, url, postgres.Options{}, xyz)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	for _, text := range []string{"x", "xy", "z"} {
		if err := before.Put(ctx, store.Namespace{"v"}, text, map[string]any{"t": text}); err != nil {
			t.Fatal(err)
		}
	}
	want := keys(before)
	vectors.WithoutExtension = false
	if err := pgstore.Setup(ctx, url, postgres.Options{}, &vectors); err != nil {
		t.Fatal(err)
	}
	after := openStore(t, url, postgres.Options{}, xyz)
	if got := keys(after); !slices.Equal(got, want) || len(want) != 3 {
		t.Errorf("found %v, before %v", got, want)
	}
	if n := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*)::text FROM stele_vectors`)[0]; n != "0" {
		t.Errorf("%s vectors are left", n)
	}
	// A program that still writes to the other table is noticed.
	if err := before.Put(ctx, store.Namespace{"v"}, "late", map[string]any{"t": "y"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Open(ctx, url, postgres.Options{}, xyz); !errors.Is(err, postgres.ErrNotSetUp) || !strings.Contains(err.Error(), "stele_vectors") {
		t.Errorf("open: %v", err)
	}
	if err := pgstore.Setup(ctx, url, postgres.Options{}, &vectors); err != nil {
		t.Fatal(err)
	}
	if got := keys(after); len(got) != 4 {
		t.Errorf("found %v", got)
	}
	// Two bytes hold less than four.
	huge := xyz
	huge.Index = &store.Index{Dims: 3, Embed: func(context.Context, []string) ([][]float32, error) { return [][]float32{{1e6, 0, 0}}, nil }}
	s := openStore(t, url, postgres.Options{}, xyz)
	if _, err := s.Search(ctx, store.Query{Vector: []float32{1e6, 0, 0}}); !errors.Is(err, store.ErrVector) {
		t.Errorf("search: %v", err)
	}
	if s, err = pgstore.Open(ctx, url, postgres.Options{}, huge); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(ctx, store.Namespace{"v"}, "huge", map[string]any{}); !errors.Is(err, store.ErrVector) {
		t.Errorf("put: %v", err)
	}
}
