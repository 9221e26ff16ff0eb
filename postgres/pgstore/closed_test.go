//go:build unix

package pgstore_test

import (
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{store.Namespace{"a"}, "key", map[string]any{"n": 1}, store.PutOp{Namespace: store.Namespace{"a"}, Key: "key", Value: map[string]any{"n": 1}},
	store.GetOp{Namespace: store.Namespace{"a"}, Key: "key"}, store.Query{Prefix: store.Namespace{"a"}},
	store.Item{Namespace: store.Namespace{"a"}, Key: "key", Value: map[string]any{"n": 1}, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}}

// TestAfterClose: every method of a Store that was closed says so, and with a context that has ended it
// fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).Database(t), postgres.Options{}, store.Options{})
	except := map[string]string{"Close": "ends the Store"}
	methods.Ended(t, s, except, plausible)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	except["Move"] = "is refused before, as both namespaces are one here"
	methods.Closed(t, s, except, plausible, saver.ErrClosed)
}
