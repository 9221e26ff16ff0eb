//go:build unix

package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
)

// TestLongBatch: a batch may take longer than its statements may, of which each is in time.
func TestLongBatch(t *testing.T) {
	url, ctx := pgtest.Shared(t).Database(t), t.Context()
	open(t, url, postgres.Options{})
	s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, url, impatient("")) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := postgres.Inside(s)
	queue := func(b *pgx.Batch) {
		for range 16 { // 3.2 s, where a silent server is given up after 1.5 s
			b.Queue("SELECT pg_sleep(0.2)")
		}
	}
	for name, send := range map[string]func() error{
		"by itself": func() error { return db.Repeat(ctx, "", queue) },
		"in a transaction": func() error {
			return db.Snapshot(ctx, func(tx pgx.Tx) error {
				b := &pgx.Batch{}
				queue(b)
				return tx.SendBatch(ctx, b).Close()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.New("not tried")
			for range 10 { // a machine that pauses makes a statement long
				if err = send(); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}
