//go:build unix

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
)

// TestMetrics: each statement that fails is counted under why it did, whichever way it was sent. What a
// caller cancels, and what the rules of stele refuse, is not counted. The pool is told.
func TestMetrics(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	opts := postgres.Options{RetryTime: time.Millisecond, StatementTimeout: 200 * time.Millisecond}
	if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := postgres.Inside(s)
	raise := func(code string) string {
		return `DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '` + code + `'; END $$`
	}
	const lost = `SELECT pg_terminate_backend(pg_backend_pid())`
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		sql  string
		want metrics.Failure // -1: none
	}{
		"deadlock":      {t.Context(), raise("40P01"), metrics.FailureConflict},
		"serialization": {t.Context(), raise("40001"), metrics.FailureConflict},
		"timeout":       {t.Context(), `SELECT pg_sleep(30)`, metrics.FailureTimeout},
		"lost":          {t.Context(), lost, metrics.FailureConnection},
		"full":          {t.Context(), raise("53100"), metrics.FailureServer},
		"rights":        {t.Context(), raise("42501"), metrics.FailureServer},
		"refused":       {t.Context(), raise("STL01"), -1},
		"unique":        {t.Context(), raise("23505"), -1},
		"cancelled":     {cancelled, `SELECT 1`, -1},
		"well":          {t.Context(), `SELECT 1`, -1},
	} {
		for way, send := range map[string]func() error{
			"batch": func() error {
				return db.SendBatch(c.ctx, func(b *pgx.Batch) { b.Queue(c.sql) })
			},
			"transaction": func() error {
				return db.InTx(c.ctx, nil, func(tx pgx.Tx) error { _, err := tx.Exec(c.ctx, c.sql); return err })
			},
		} {
			before := s.Metrics()
			err := send()
			after := s.Metrics()
			if (err == nil) != (name == "well") {
				t.Errorf("%s by %s: %v", name, way, err)
			}
			for i := range after.Failures {
				counted := after.Failures[i] - before.Failures[i]
				if (counted > 0) != (metrics.Failure(i) == c.want) || way == "batch" && counted > 1 {
					t.Errorf("%s by %s: %d of %s; the error is %v", name, way, counted, metrics.FailureNames[i], err)
				}
			}
		}
	}
	for s.Metrics().Used != 0 { // a connection that was lost is closed in the background
		time.Sleep(time.Millisecond)
	}
	if m := s.Metrics(); m.Max < 1 || m.Acquired < 10 {
		t.Errorf("%+v", m)
	}
}

// TestMetricsWithoutServer: no connection is counted, and so is the renewal of a lease that fails.
func TestMetricsWithoutServer(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	defer srv.Close()
	url := srv.Database(t)
	cfg, err := postgres.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.SetupPool(t.Context(), pool, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{RetryTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Own(t.Context(), "t", false); err != nil {
		t.Fatal(err)
	}
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Metrics(); m.Max != 1 || m.Used != 1 || m.Idle != 0 {
		t.Errorf("%+v", m)
	}
	held.Release()
	if err := srv.Stop("immediate"); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(){
		"a read":    func() { _, _ = s.GetTuple(t.Context(), saver.Config{ThreadID: "t"}) },
		"a renewal": func() { postgres.Renew(s) },
	} {
		before := s.Metrics().Failures[metrics.FailureConnection]
		call()
		if n := s.Metrics().Failures[metrics.FailureConnection]; n == before {
			t.Errorf("%s without a server is not counted", what)
		}
	}
}
