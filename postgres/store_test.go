//go:build unix

package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/storetest"
)

// sharedWithVectors is the cluster with pgvector.
var sharedWithVectors = sync.OnceValues(func() (*pgtest.Server, error) { return started(pgtest.WithVectors()) })

// vectorServer is a server that has pgvector.
func vectorServer(t testing.TB) *pgtest.Server {
	t.Helper()
	s, err := sharedWithVectors()
	if err != nil {
		pgtest.Need(t, err)
	}
	return s
}

// openStore sets the tables of a store up and opens it.
func openStore(t testing.TB, url string, opts postgres.Options, so store.Options) *postgres.Store {
	t.Helper()
	ctx := context.Background()
	if err := postgres.SetupStore(ctx, url, opts, vectorsOf(so.Index)); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.OpenStore(ctx, url, opts, so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func vectorsOf(index *store.Index) *postgres.Vectors {
	if index == nil {
		return nil
	}
	return &postgres.Vectors{Dims: index.Dims, Metric: index.Metric}
}

// storeProfile are the cases that LangGraph's table does not allow. docs/postgres.md has the
// table.
var storeProfile = map[string]string{
	"items/keys and namespaces are bytes":        "text columns hold UTF-8 without U+0000; other names are refused",
	"namespaces/sorted label by label":           "the same",
	"STO-04/reads, deletes and batches take any": "labels are joined with dots; a label with a dot, an empty one and no label at all are refused",
}

// storeKit sets a schema up for each dimension of vectors, and empties it for each case.
func storeKit(t *testing.T, url string) {
	schemas := map[int]string{}
	conn := connect(t, url)
	storetest.RunWith(t, func(t *testing.T, o store.Options) store.Store {
		dims := 0
		if o.Index != nil {
			dims = o.Index.Dims
		}
		if schemas[dims] == "" {
			schemas[dims] = newSchema()
			if err := postgres.SetupStore(t.Context(), url, postgres.Options{Schema: schemas[dims]}, vectorsOf(o.Index)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(t.Context(), "DELETE FROM "+schemas[dims]+".store"); err != nil {
			t.Fatal(err)
		}
		s, err := postgres.OpenStore(t.Context(), url, postgres.Options{Schema: schemas[dims], Clock: o.Clock}, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}, storetest.Options{Except: storeProfile})
}

func TestStoreKit(t *testing.T) { storeKit(t, server(t).Database(t)) }

func TestStoreKitWithVectors(t *testing.T) { storeKit(t, vectorServer(t).Database(t)) }

func TestStoreKitThroughPgBouncer(t *testing.T) {
	if race.Enabled {
		t.Skip("not with -race: TestStoreKit runs the same code of this module, and this test runs without it")
	}
	srv := server(t)
	storeKit(t, srv.Bouncer(t, srv.Database(t)))
}
