//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
)

// rowsRead is a tracer of batches that counts the rows of checkpoints that are read.
type rowsRead struct{ n int64 }

func (r *rowsRead) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *rowsRead) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if strings.Contains(data.SQL, "SELECT c.checkpoint_ns") {
		r.n += data.CommandTag.RowsAffected()
	}
}

func (r *rowsRead) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (r *rowsRead) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (r *rowsRead) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestRetainOfALongThread: Retain reads a thread a few times over, however many checkpoints it
// removes of it.
func TestRetainOfALongThread(t *testing.T) {
	const n, times = 12_000, 5
	srv := pgtest.Shared(t)
	url := srv.Database(t)
	open(t, url, postgres.Options{})
	srv.Exec(t, url, fmt.Sprintf(`INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata)
		SELECT 'long', '', lpad(i::text, 8, '0'), 'msgpack', '{}', '{}' FROM generate_series(1, %d) i`, n), `ANALYZE`)
	cfg, err := postgres.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	read := &rowsRead{}
	cfg.ConnConfig.Tracer = read
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 3}, false)
	if err != nil || rep.Checkpoints != n-3 {
		t.Errorf("%+v, %v", rep, err)
	}
	if left := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*)::text FROM checkpoints`)[0]; left != "3" {
		t.Errorf("%s checkpoints are left, want 3", left)
	}
	if read.n < n || read.n > times*n {
		t.Errorf("%d checkpoints were read to remove %d: more than %d times as many", read.n, n, times)
	}
}
