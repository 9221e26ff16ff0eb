//go:build unix

package pgstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgstore"
)

// storeScript runs a command of store.py and returns what it prints, line by line.
func storeScript(t *testing.T, python, command, url, kind string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "testdata/store.py", command, url, kind)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// readAsPython reads what store.py prints, in its form.
func readAsPython(t *testing.T, s *pgstore.Store, vectors bool) []string {
	t.Helper()
	var lines []string
	add := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	search := func(q store.Query) []store.Found {
		q.NoRefresh = true
		found, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const form = "2006-01-02T15:04:05.000000-07:00"
	for _, f := range search(store.Query{Limit: store.NoLimit, ByKey: true}) {
		add(map[string]any{"ns": f.Namespace, "key": f.Key, "value": exactNumbers(f.Value), "created": f.CreatedAt.Format(form), "updated": f.UpdatedAt.Format(form)})
	}
	spaces, err := s.ListNamespaces(t.Context(), store.NamespaceQuery{Limit: store.NoLimit})
	if err != nil {
		t.Fatal(err)
	}
	add(spaces)
	for _, filter := range []map[string]any{{"n": 1}, {"n": map[string]any{"$eq": 2.0}}, {"s": map[string]any{"$gt": "b"}}, {"s": map[string]any{"$ne": "c"}}, {"map": map[string]any{"$eq": map[string]any{"a": 1}}}, {"ok": true}} {
		keys := []string{}
		for _, f := range search(store.Query{Prefix: store.Namespace{"f"}, Filter: filter, Limit: 100, ByKey: true}) {
			keys = append(keys, f.Key)
		}
		add(keys)
	}
	if !vectors {
		return lines
	}
	for _, text := range []string{"x", "yz"} {
		list := [][]string{}
		for _, f := range search(store.Query{Prefix: store.Namespace{"v"}, Text: text, Limit: 100}) {
			if f.Scored {
				list = append(list, []string{fmt.Sprintf("%.5f", f.Score+0), f.Key})
			}
		}
		slices.SortFunc(list, slices.Compare)
		add(list)
	}
	return lines
}

// exactNumbers makes JSON of floats that tells them from integers.
func exactNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1e15 {
			return json.RawMessage(fmt.Sprintf("%.1f", x))
		}
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = exactNumbers(x[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range x {
			out[k] = exactNumbers(x[k])
		}
		return out
	}
	return v
}

// sameLines compares lines of JSON.
func sameLines(t *testing.T, python, golang []string) {
	t.Helper()
	if len(python) != len(golang) {
		t.Fatalf("Python reads %d lines, Go %d:\n%s\n\n%s", len(python), len(golang), strings.Join(python, "\n"), strings.Join(golang, "\n"))
	}
	read := func(line string) any {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return plainNumbers(v)
	}
	for i := range python {
		if a, b := read(python[i]), read(golang[i]); !reflect.DeepEqual(a, b) {
			t.Errorf("line %d:\nPython %s\n    Go %s", i, python[i], golang[i])
		}
	}
}

// plainNumbers keeps integers and floats apart, and compares floats by value.
func plainNumbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			f, _ := x.Float64()
			return f
		}
		return x.String()
	case []any:
		for i := range x {
			x[i] = plainNumbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = plainNumbers(x[k])
		}
	}
	return v
}

// TestNamesThatPythonRefuses: a label with a dot is refused by both, in a put and in a batch, and so is an empty one.
func TestNamesThatPythonRefuses(t *testing.T) {
	python, url := pgtest.LangGraph(t), pgtest.Shared(t).Database(t)
	s, ctx := openStore(t, url, postgres.Options{}, store.Options{}), t.Context()
	names := []store.Namespace{{"users", "ada@example.com"}, {"a.b"}, {"."}, {"a", ""}, {"users", "ada@example%2Ecom"}, {"a-b_c", "@+:~"}}
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, "testdata/store.py", "names", url, "none")
	cmd.Stdin = bytes.NewReader(list)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, ns := range names {
		_, batch := s.Batch(ctx, store.PutOp{Namespace: ns, Key: "k", Value: map[string]any{}})
		got := fmt.Sprintf("[%v, %v]", s.Put(ctx, ns, "k", map[string]any{}) == nil, batch == nil)
		if i >= len(lines) || lines[i] != got {
			t.Errorf("%q: %s, and Python of all: %q", []string(ns), got, lines)
		}
	}
}

// Python and Go write one store, and read each other's items alike.
func TestStoreHandOver(t *testing.T) {
	python := pgtest.LangGraph(t)
	for _, c := range []struct {
		kind   string
		server func(testing.TB) *pgtest.Server
	}{{"none", pgtest.Shared}, {"hnsw", pgtest.SharedWithVectors}} {
		t.Run(c.kind, func(t *testing.T) { storeHandOver(t, python, c.server(t).Database(t), c.kind) })
	}
}

func storeHandOver(t *testing.T, python, url, kind string) {
	so := store.Options{}
	if kind != "none" {
		so.Index = &store.Index{Dims: 3, Embed: countXYZ, Fields: []string{"t"}}
	}
	lines := storeScript(t, python, "write", url, kind)
	s := openStore(t, url, postgres.Options{}, so)
	sameLines(t, lines, readAsPython(t, s, so.Index != nil))

	ctx := t.Context()
	if so.Index != nil {
		stale, err := s.Search(ctx, store.Query{Prefix: store.Namespace{"stale"}, Text: "x"})
		if err != nil || len(stale) != 1 || stale[0].Scored {
			t.Errorf("found by the vector of a value that was replaced: %+v, %v", stale, err)
		}
		if n := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*)::text FROM store_vectors WHERE prefix = 'stale'`)[0]; n != "1" {
			t.Errorf("Python leaves %s vectors", n)
		}
	}
	// Python rounds a TTL of half a minute to 0. Go does not renew by that.
	if n := pgtest.Column(t, pgtest.Connect(t, url), `SELECT ttl_minutes::text FROM store WHERE key = 'half'`)[0]; n != "0" {
		t.Errorf("Python stores half a minute as %s", n)
	}
	half, err := s.Get(ctx, store.Namespace{"ttl"}, "half")
	if err != nil || half.ExpiresAt.Sub(half.UpdatedAt) != 30*time.Second {
		t.Errorf("half a minute: %+v, %v", half, err)
	}
	before, err := s.Get(ctx, store.Namespace{"users", "ann"}, "all")
	if err != nil {
		t.Fatal(err)
	}
	put := func(ns store.Namespace, key string, v map[string]any, opts ...store.PutOption) {
		t.Helper()
		if err := s.Put(ctx, ns, key, v, opts...); err != nil {
			t.Fatal(err)
		}
	}
	put(before.Namespace, "all", before.Value)
	after, err := s.Get(ctx, before.Namespace, "all")
	if err != nil || !reflect.DeepEqual(after.Value, before.Value) || !after.CreatedAt.Equal(before.CreatedAt) || !after.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("put again: %+v, %v\nwas %+v", after, err, before)
	}
	put(store.Namespace{"go", "deep", "é"}, "k", map[string]any{"float": 1e300, "int": uint64(math.MaxUint64), "list": []string{"a"}})
	put(store.Namespace{"v", "go"}, "go", map[string]any{"t": "xz"})
	put(store.Namespace{"v", "xxy"}, "xxy", map[string]any{"t": "xxy"}, store.NoIndex())
	if err := s.Delete(ctx, store.Namespace{"v"}, "fields"); err != nil {
		t.Fatal(err)
	}
	sameLines(t, storeScript(t, python, "read", url, kind), readAsPython(t, s, so.Index != nil))

	// What JSON does not hold Python reads in a form that it does.
	exact := map[string]any{"nul": "a\x00b", "nan": math.NaN(), "zero": math.Copysign(0, -1), "bytes": []byte("raw"), "when": time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), "n": 1}
	put(store.Namespace{"go"}, "exact", exact)
	put(store.Namespace{"go"}, "other", exact)
	put(store.Namespace{"go"}, "gone", exact)
	put(store.Namespace{"go"}, "ninety", map[string]any{"v": 1}, store.TTL(90*time.Second))
	lines = storeScript(t, python, "update", url, kind)
	const legible = `"value": {"n": 1, "nan": null, "nul": "a\ufffdb", "when": "2024-01-02T03:04:05Z", "zero": 0.0, "bytes": "cmF3"}`
	if !strings.Contains(strings.Join(lines, "\n"), legible) {
		t.Errorf("Python reads\n%s\nwant %s", strings.Join(lines, "\n"), legible)
	}
	it, err := s.Get(ctx, store.Namespace{"go"}, "other")
	if err != nil || shownData(it.Value) != shownData(map[string]any{"nul": "a\x00b", "nan": math.NaN(), "zero": math.Copysign(0, -1), "bytes": []byte("raw"), "when": exact["when"], "n": int64(1)}) {
		t.Errorf("Go reads %v, %v", it, err)
	}
	// What Python has put again is Python's.
	it, err = s.Get(ctx, store.Namespace{"go"}, "exact")
	if err != nil || it.Value["by"] != "python" || it.Value["bytes"] != "cmF3" {
		t.Errorf("Go reads %v, %v of what Python put", it, err)
	}
	// Python renews by whole minutes, not fewer than were given.
	it, err = s.Get(ctx, store.Namespace{"go"}, "ninety", store.NoRefresh())
	if err != nil || it.ExpiresAt.Sub(it.UpdatedAt) < 2*time.Minute {
		t.Errorf("Python renewed for %v, %v", it.ExpiresAt.Sub(it.UpdatedAt), err)
	}
	// All else both read alike.
	if err := s.Delete(ctx, store.Namespace{"go"}, "other"); err != nil {
		t.Fatal(err)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `"key": "other"`) })
	sameLines(t, lines, readAsPython(t, s, so.Index != nil))
}

// Go and Python set up the same tables.
func TestStoreSetupIsThatOfPython(t *testing.T) {
	srv := pgtest.SharedWithVectors(t)
	python := pgtest.LangGraph(t)
	for _, kind := range []pgstore.VectorIndex{pgstore.Flat, pgstore.HNSW} {
		t.Run(string(kind), func(t *testing.T) {
			vectors := &pgstore.Vectors{Dims: 3, Index: kind}
			theirs, ours := srv.Database(t), srv.Database(t)
			storeScript(t, python, "setup", theirs, string(kind))
			if err := pgstore.Setup(t.Context(), ours, postgres.Options{}, vectors); err != nil {
				t.Fatal(err)
			}
			own := func(line string) bool { return strings.Contains(line, "stele_") }
			extension := func(line string) bool { return !strings.Contains(line, " ") } // functions
			a := slices.DeleteFunc(pgtest.Layout(t, pgtest.Connect(t, theirs), "public"), extension)
			b := slices.DeleteFunc(pgtest.Layout(t, pgtest.Connect(t, ours), "public"), func(line string) bool { return own(line) || extension(line) })
			if !slices.Equal(a, b) {
				t.Errorf("Python:\n%s\n\nGo:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			versions := `SELECT string_agg(v::text, ',' ORDER BY v) FROM `
			for _, table := range []string{"store_migrations", "vector_migrations"} {
				if x, y := pgtest.Column(t, pgtest.Connect(t, theirs), versions+table)[0], pgtest.Column(t, pgtest.Connect(t, ours), versions+table)[0]; x != y {
					t.Errorf("%s: Python %s, Go %s", table, x, y)
				}
			}
			// Neither changes what the other set up.
			storeScript(t, python, "setup", ours, string(kind))
			if err := pgstore.Setup(t.Context(), theirs, postgres.Options{}, vectors); err != nil {
				t.Error(err)
			}
			if x, y := pgtest.Layout(t, pgtest.Connect(t, theirs), "public"), pgtest.Layout(t, pgtest.Connect(t, ours), "public"); !slices.Equal(x, y) {
				t.Errorf("afterwards Python:\n%s\n\nGo:\n%s", strings.Join(x, "\n"), strings.Join(y, "\n"))
			}
		})
	}
}
