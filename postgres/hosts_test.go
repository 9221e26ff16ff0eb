//go:build unix

package postgres_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
)

// TestNextHost: where one of two hosts takes connections and never answers, the other is used.
func TestNextHost(t *testing.T) {
	url, ctx := pgtest.Shared(t).Database(t), t.Context()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "deaf")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	both := strings.Replace(url, cfg.Host, dir+","+cfg.Host, 1)
	if _, err := pgtest.Patiently(func() (any, error) { return nil, postgres.Setup(ctx, both, impatient("")) }); err != nil {
		t.Fatal(err)
	}
	s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, both, impatient("")) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
}
