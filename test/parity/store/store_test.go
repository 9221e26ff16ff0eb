// Package store_test compares the long-term store with a recording of
// LangGraph's; README.md says how it is made.
package store_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// operation is an operation of the recording.
type operation struct {
	Op            string
	NS            []string
	Key           string
	Value         map[string]any
	Index         any
	Match         [][]any
	Depth         int
	Limit, Offset int
	Filter        map[string]any
	Query         string
}

// line is a batch with its answers, or the texts at a path.
type line struct {
	Ops     []operation
	Answers []any
	Doc     any
	Path    string
	Texts   []string
}

// embed is record.py's.
func embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		for _, c := range "xyz0" {
			out[i] = append(out[i], float32(strings.Count(t, string(c)))+0.01)
		}
	}
	return out, nil
}

// recording reads the golden file. Numbers keep their kind: 2.0 is a float.
func recording(t *testing.T) []line {
	t.Helper()
	text, err := os.ReadFile("golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		d := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		d.UseNumber()
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		for i := range l.Ops {
			op := &l.Ops[i]
			op.Value, _ = numbers(op.Value).(map[string]any)
			op.Filter, _ = numbers(op.Filter).(map[string]any)
		}
		l.Answers, _ = numbers(l.Answers).([]any)
		l.Doc = numbers(l.Doc)
		out = append(out, l)
	}
	return out
}

// numbers makes numbers of what the decoder kept as text.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case map[string]any:
		if x == nil {
			return nil
		}
		out := map[string]any{}
		for k, e := range x {
			out[k] = numbers(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = numbers(e)
		}
		return out
	}
	return v
}

func (o *operation) make() store.Op {
	switch o.Op {
	case "get":
		return store.GetOp{Namespace: o.NS, Key: o.Key}
	case "search":
		return store.Query{Prefix: o.NS, Filter: o.Filter, Text: o.Query, Limit: store.NoLimit}
	case "list":
		q := store.NamespaceQuery{MaxDepth: o.Depth, Limit: o.Limit, Offset: o.Offset}
		for _, m := range o.Match {
			q.Match = append(q.Match, store.Match{Kind: store.MatchKind(m[0].(string)), Path: labels(m[1])})
		}
		return q
	}
	put := store.PutOp{Namespace: o.NS, Key: o.Key, Value: o.Value, NoIndex: o.Index == false}
	if paths, ok := o.Index.([]any); ok {
		put.IndexFields = labels(paths)
	}
	return put
}

func labels(v any) []string {
	var out []string
	for _, l := range v.([]any) {
		out = append(out, l.(string))
	}
	return out
}

// answer is a result in the form of the recording, without what is not compared.
func answer(op store.Op, r store.Result) any {
	switch op.(type) {
	case store.GetOp:
		if r.Item == nil {
			return nil
		}
		return item(r.Item)
	case store.Query:
		out := []any{}
		for i := range r.Found {
			m := item(&r.Found[i].Item)
			if r.Found[i].Scored {
				m["score"] = r.Found[i].Score
			}
			out = append(out, m)
		}
		return out
	case store.NamespaceQuery:
		out := []any{}
		for _, ns := range r.Namespaces {
			out = append(out, anys(ns))
		}
		return out
	}
	return nil
}

func anys(ns []string) []any {
	out := []any{}
	for _, l := range ns {
		out = append(out, l)
	}
	return out
}

func item(it *store.Item) map[string]any {
	return map[string]any{"ns": anys(it.Namespace), "key": it.Key, "value": it.Value}
}

// canonical puts found items in an order both sides share, and rounds scores. That
// scores descend is checked before.
func canonical(t *testing.T, v any) any {
	t.Helper()
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return v
	}
	if _, ok := list[0].(map[string]any); !ok {
		return v
	}
	last := math.Inf(1)
	for _, e := range list {
		m := e.(map[string]any)
		score, ok := m["score"].(float64)
		if !ok {
			last = math.Inf(-1)
			continue
		}
		if score > last+1e-6 {
			t.Errorf("score %v after %v", score, last)
		}
		last = score
		m["score"] = math.Round(score * 1e5)
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

func TestStoreParity(t *testing.T) {
	lines := recording(t)
	opts := store.Options{Index: &store.Index{Dims: 4, Embed: embed, Fields: []string{"s", "m.s"}}}
	mem, err := store.NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	sv, err := store.On(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"memory": mem, "disk": sv} {
		t.Run(name, func(t *testing.T) {
			count := map[string]int{}
			for n, l := range lines {
				ops := make([]store.Op, len(l.Ops))
				for i := range l.Ops {
					ops[i] = l.Ops[i].make()
					count[l.Ops[i].Op]++
				}
				res, err := s.Batch(context.Background(), ops...)
				if err != nil {
					t.Fatalf("line %d: %v", n+1, err)
				}
				for i := range res {
					want, _ := json.Marshal(l.Answers[i])
					var again any
					dec := json.NewDecoder(bytes.NewReader(want))
					dec.UseNumber()
					if err := dec.Decode(&again); err != nil {
						t.Fatal(err)
					}
					w, g := canonical(t, numbers(again)), canonical(t, answer(ops[i], res[i]))
					if !reflect.DeepEqual(floats(g), floats(w)) {
						t.Fatalf("line %d, operation %d %+v:\n got %v\nwant %v", n+1, i, l.Ops[i], g, w)
					}
				}
				if l.Texts != nil {
					count["texts"]++
					if got := store.TextAtPath(l.Doc, l.Path); !slices.Equal(got, l.Texts) {
						t.Errorf("line %d: texts at %q of %v:\n got %q\nwant %q", n+1, l.Path, l.Doc, got, l.Texts)
					}
				}
			}
			t.Logf("compared: %v", count)
		})
	}
}

// floats makes every number a float: JSON has lost which was which.
func floats(v any) any {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			out[k] = floats(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = floats(e)
		}
		return out
	}
	return v
}
