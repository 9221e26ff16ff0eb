//go:build unix

package postgres_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/savertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open sets a schema up and opens it.
func open(t testing.TB, url string, opts postgres.Options) *postgres.Saver {
	t.Helper()
	ctx := context.Background()
	if err := postgres.Setup(ctx, url, opts); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// profile are the cases that LangGraph's schema does not allow. docs/postgres.md has the
// table.
var profile = map[string]string{
	"values/names of every kind": "text columns hold UTF-8 without U+0000; other names are refused",
}

func TestKit(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	savertest.RunWith(t, func(t *testing.T) saver.Saver {
		return open(t, url, postgres.Options{Schema: pgtest.NewSchema()})
	}, savertest.Options{Without: []savertest.Power{savertest.PowerEraser}, Except: profile})
}

// The whole kit once more with a pooler in between that gives each transaction another
// server connection.
func TestKitThroughPgBouncer(t *testing.T) {
	srv := pgtest.Shared(t)
	url := srv.Bouncer(t, srv.Database(t))
	savertest.RunWith(t, func(t *testing.T) saver.Saver {
		return open(t, url, postgres.Options{Schema: pgtest.NewSchema()})
	}, savertest.Options{Without: []savertest.Power{savertest.PowerEraser}, Except: profile})
}

// newServer is a cluster of the test's own, which keeps what it commits.
func newServer(settings ...string) (*pgtest.Server, error) {
	return pgtest.New(append(settings, "fsync=on", "synchronous_commit=on", "full_page_writes=on")...)
}
