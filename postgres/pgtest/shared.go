//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// clusters are those of a program's tests together, which Main closes.
var (
	plain    = sync.OnceValues(func() (*Server, error) { return kept(New()) })
	vectors  = sync.OnceValues(func() (*Server, error) { return kept(WithVectors()) })
	clusters []*Server
	schemas  atomic.Int64
)

func kept(s *Server, err error) (*Server, error) {
	if err == nil {
		clusters = append(clusters, s)
	}
	return s, err
}

// Main runs the tests of a program, closes the clusters that they share, and exits.
func Main(m *testing.M) {
	code := m.Run()
	for _, s := range clusters {
		s.Close()
	}
	os.Exit(code)
}

// Shared is the cluster of all tests that do not stop it. The program's TestMain calls Main.
func Shared(t testing.TB) *Server { return needed(t, plain) }

// SharedWithVectors is Shared with pgvector.
func SharedWithVectors(t testing.TB) *Server { return needed(t, vectors) }

func needed(t testing.TB, start func() (*Server, error)) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		Need(t, err)
	}
	return s
}

// NewSchema is the name of a schema that no other test has.
func NewSchema() string { return fmt.Sprintf("s%d", schemas.Add(1)) }

// Connect opens a connection for a test.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Column reads one column of text.
func Column(t testing.TB, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Layout is what a schema consists of, as text.
func Layout(t testing.TB, conn *pgx.Conn, schema string) []string {
	t.Helper()
	all := Column(t, conn, `SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
		FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1`, schema)
	all = append(all, Column(t, conn, `SELECT replace(indexdef, $1 || '.', '') FROM pg_indexes WHERE schemaname = $1 ORDER BY 1`, schema)...)
	all = append(all, Column(t, conn, `SELECT replace(pg_get_triggerdef(t.oid), $1 || '.', '') FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = $1::regnamespace AND NOT t.tgisinternal ORDER BY 1`, schema)...)
	return append(all, Column(t, conn, `SELECT proname || coalesce(' ' || proconfig::text, '') FROM pg_proc WHERE pronamespace = $1::regnamespace ORDER BY 1`, schema)...)
}
