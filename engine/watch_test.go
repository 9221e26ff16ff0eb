package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// TestWatch: a Watch has the partitions that commits changed or removed, once each, when the
// commit has returned, and none of a commit that was refused, or that it does not want, or after
// Close.
func TestWatch(t *testing.T) {
	e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
	w := e.Watch(func(id string) bool { return strings.HasPrefix(id, "t") })
	all := e.Watch(func(string) bool { return true })
	taken := func(w *Watch, want ...string) {
		t.Helper()
		if got := w.Take(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	change := func(refuse error, ids ...string) {
		t.Helper()
		err := e.Commit(context.Background(), ids, func(tx *Tx) error {
			for _, id := range ids {
				if err := tx.Put(id, "key", 0, nil); err != nil {
					return err
				}
			}
			return refuse
		})
		if !errors.Is(err, refuse) {
			t.Fatal(err)
		}
	}
	change(nil, "t1", "t2", "other")
	change(nil, "t1")
	change(errors.New("refused"), "t3")
	taken(w, "t1", "t2")
	taken(w)
	must(t, e.Commit(t.Context(), []string{"t2"}, func(tx *Tx) error { return tx.Drop("t2", nil) }))
	taken(w, "t2")
	taken(all, "other", "t1", "t2")
	for range manyChanges {
		change(nil, "t1")
	}
	select {
	case <-w.Many():
	default:
		t.Error("much was changed, and it does not say so")
	}
	w.Close()
	change(nil, "t1")
	taken(all, "t1")
	taken(w, "t1") // of before
	taken(w)
	must(t, e.Close())
}
