//go:build unix

package pgstore_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/storetest"

	"github.com/stele-go/stele/postgres/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// openStore sets the tables of a store up and opens it.
func openStore(t testing.TB, url string, opts postgres.Options, so store.Options) *pgstore.Store {
	t.Helper()
	ctx := context.Background()
	if err := pgstore.Setup(ctx, url, opts, vectorsOf(so.Index)); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.Open(ctx, url, opts, so)
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

func vectorsOf(index *store.Index) *pgstore.Vectors {
	if index == nil {
		return nil
	}
	return &pgstore.Vectors{Dims: index.Dims, Metric: index.Metric}
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
	conn := pgtest.Connect(t, url)
	storetest.RunWith(t, func(t *testing.T, o store.Options) store.Store {
		dims := 0
		if o.Index != nil {
			dims = o.Index.Dims
		}
		if schemas[dims] == "" {
			schemas[dims] = pgtest.NewSchema()
			if err := pgstore.Setup(t.Context(), url, postgres.Options{Schema: schemas[dims]}, vectorsOf(o.Index)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(t.Context(), "DELETE FROM "+schemas[dims]+".store"); err != nil {
			t.Fatal(err)
		}
		s, err := pgstore.Open(t.Context(), url, postgres.Options{Schema: schemas[dims], Clock: o.Clock}, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}, storetest.Options{Except: storeProfile})
}

func TestStoreKit(t *testing.T) { storeKit(t, pgtest.Shared(t).Database(t)) }

func TestStoreKitWithVectors(t *testing.T) { storeKit(t, pgtest.SharedWithVectors(t).Database(t)) }

func TestStoreKitThroughPgBouncer(t *testing.T) {
	srv := pgtest.Shared(t)
	storeKit(t, srv.Bouncer(t, srv.Database(t)))
}
