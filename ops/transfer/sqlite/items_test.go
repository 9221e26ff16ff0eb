package sqlite_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/ops/transfer/sqlite"
	"github.com/stele-go/stele/store"
)

// recordedItem is what LangGraph's store said of an item.
type recordedItem struct {
	Namespace        []string
	Key              string
	Value            map[string]any
	Created, Updated string
	Expires          *string
	Minutes          *float64
}

// TestItems: what LangGraph's store holds comes over as LangGraph reads it, with times and lives;
// what has expired is left out. The file has no checkpoints.
func TestItems(t *testing.T) {
	src, err := sqlite.Open(t.Context(), filepath.Join("testdata", "items.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if n, err := src.Count(t.Context()); n != 0 || err != nil {
		t.Errorf("%d checkpoints, %v", n, err)
	}
	for tup, err := range src.Tuples(t.Context(), transfer.Selection{}) {
		t.Error(tup, err)
	}
	dst, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := transfer.CopyItems(t.Context(), src, dst, nil, transfer.Options{})
	if err != nil || rep != (transfer.ItemReport{Items: 5, Copied: 5, Verified: 5}) {
		t.Fatalf("%+v, %v", rep, err)
	}
	if rep, err := transfer.CopyItems(t.Context(), src, dst, store.Namespace{"users", "ada"}, transfer.Options{}); err != nil || rep != (transfer.ItemReport{Items: 2, Verified: 2}) {
		t.Errorf("those below a namespace, again: %+v, %v", rep, err)
	}
	f, err := os.Open(filepath.Join("testdata", "items.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var want recordedItem
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		got, err := dst.Get(t.Context(), want.Namespace, want.Key, store.NoRefresh())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := asJSON(t, got.Value), asJSON(t, want.Value); a != b {
			t.Errorf("%s: value %s, want %s", want.Key, a, b)
		}
		if created := got.CreatedAt.Format("2006-01-02T15:04:05"); created != want.Created {
			t.Errorf("%s: created %s, want %s", want.Key, created, want.Created)
		}
		if updated := got.UpdatedAt.Format("2006-01-02T15:04:05"); updated != want.Updated {
			t.Errorf("%s: updated %s, want %s", want.Key, updated, want.Updated)
		}
		if want.Expires == nil {
			if !got.ExpiresAt.IsZero() || got.TTL != 0 {
				t.Errorf("%s expires at %v, renewed by %v", want.Key, got.ExpiresAt, got.TTL)
			}
			continue
		}
		if ends := got.ExpiresAt.Format("2006-01-02 15:04:05.999999-07:00"); ends != *want.Expires {
			t.Errorf("%s expires at %s, want %s", want.Key, ends, *want.Expires)
		}
		if got.TTL != time.Duration(*want.Minutes*float64(time.Minute)) {
			t.Errorf("%s is renewed by %v, want %v minutes", want.Key, got.TTL, *want.Minutes)
		}
	}
	if n != 5 {
		t.Errorf("%d recorded items", n)
	}
	// Integers stay integers.
	facts, err := dst.Get(t.Context(), store.Namespace{"users", "ada", "facts"}, "a.b")
	if err != nil || !reflect.DeepEqual(facts.Value["n"], int64(-1<<63)) {
		t.Errorf("%v, %v", facts, err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var again any // with the numbers of the other
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestForeignStore: a table of that name that is not LangGraph's is refused.
func TestForeignStore(t *testing.T) {
	f := newFile(t, "CREATE TABLE store (id integer)")
	if _, err := sqlite.Open(t.Context(), f.path); !errors.Is(err, sqlite.ErrForeign) {
		t.Errorf("%v", err)
	}
}
