//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// script runs a command of handover.py and returns what it prints, line by line.
func script(t *testing.T, python, command, url, stdin string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "testdata/handover.py", command, url)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// numbers is decoded JSON with integers and floats apart.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(x.String(), 10, 64); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

func parse(t *testing.T, line string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return numbers(v)
}

func typedShown(t *testing.T, v saver.Value) any {
	t.Helper()
	typed, err := v.Typed()
	if err != nil {
		t.Fatal(err)
	}
	return []any{typed.Kind, hex.EncodeToString(typed.Data)}
}

// shown is a tuple as handover.py prints it.
func shown(t *testing.T, tup *saver.Tuple) any {
	t.Helper()
	cp := tup.Checkpoint
	versions := func(m map[string]saver.Version) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			out[k] = v.Any()
		}
		return out
	}
	values, seen, writes := map[string]any{}, map[string]any{}, []any{}
	for k, v := range cp.Values {
		values[k] = typedShown(t, v)
	}
	for node, m := range cp.Seen {
		seen[node] = versions(m)
	}
	for _, w := range tup.PendingWrites {
		writes = append(writes, []any{w.TaskID, w.Channel, typedShown(t, w.Value)})
	}
	var updated any
	if cp.Updated != nil {
		list := []any{}
		for _, u := range cp.Updated {
			list = append(list, u)
		}
		updated = list
	}
	parent := ""
	if tup.Parent != nil {
		parent = tup.Parent.CheckpointID
	}
	return map[string]any{
		"thread": tup.Config.ThreadID, "ns": tup.Config.Namespace, "id": tup.Config.CheckpointID, "parent": parent,
		"v": int64(cp.V), "ts": cp.TS, "versions": versions(cp.Versions), "seen": seen, "updated": updated,
		"metadata": map[string]any(tup.Metadata), "values": values, "writes": writes,
	}
}

// same compares what Python prints with what Go reads.
func same(t *testing.T, lines []string, s saver.Saver) {
	t.Helper()
	var got []any
	for tup, err := range s.List(t.Context(), saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, shown(t, tup))
	}
	if len(got) != len(lines) {
		t.Fatalf("Go reads %d checkpoints, Python %d", len(got), len(lines))
	}
	for i, line := range lines {
		want := parse(t, line)
		if !reflect.DeepEqual(got[i], want) {
			g, w := got[i].(map[string]any), want.(map[string]any)
			for key := range w {
				if !reflect.DeepEqual(g[key], w[key]) {
					t.Errorf("checkpoint %v of %v: %s:\n    Go %#v\nPython %#v", w["id"], w["thread"], key, g[key], w[key])
				}
			}
		}
	}
}

// A Python program proves no epoch: it may move the head of a thread that a Go run owns. The
// run then stops with ErrConflict at its next checkpoint, and what Python put stays.
func TestPythonMovesTheHead(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	python := pgtest.LangGraph(t)
	s := open(t, url, postgres.Options{})
	late := false
	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("one", func(context.Context, any) (any, error) {
			script(t, python, "move", url, "")
			return map[string]any{"n": 1}, nil
		}).
		Node("two", func(context.Context, any) (any, error) {
			late = true
			return map[string]any{"n": 2}, nil
		}).
		Sequence(graph.Start, "one", "two").
		Compile(graph.Options{Name: "g", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Invoke(t.Context(), pregel.Thread("moved"), map[string]any{"n": 0}, pregel.RunOptions{Durability: pregel.Sync})
	if !errors.Is(err, pregel.ErrConflict) || late {
		t.Errorf("the run ended with %v, and went on: %t; want ErrConflict", err, late)
	}
	if head := get(t, s, saver.Config{ThreadID: "moved"}); fmt.Sprint(head.Metadata["step"]) != "99" {
		t.Errorf("the head is %+v, want Python's", head.Metadata)
	}
}

// Python and Go write one database, and read each other's threads alike.
func TestHandOver(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	python := pgtest.LangGraph(t)
	lines := script(t, python, "write", url, "")
	if len(lines) != 5 {
		t.Fatalf("Python wrote %d checkpoints", len(lines))
	}
	s := open(t, url, postgres.Options{})
	same(t, lines, s)

	writeByGo(t, s)
	same(t, script(t, python, "read", url, ""), s)

	filters := []map[string]any{
		{"user": "ada"}, {"step": 1}, {"step": 1.0}, {"score": 0.5}, {"whole": 1}, {"user_id": "u1"}, {"run_id": "r1"},
		{"source": "loop", "user": "left"}, {"tags": []any{"a", map[string]any{"deep": nil}}}, {"user": "go"}, {"user": "nobody"},
	}
	text, _ := json.Marshal(filters)
	for i, line := range script(t, python, "filter", url, string(text)) {
		got := []any{}
		for tup, err := range s.List(t.Context(), saver.Query{Filter: filters[i]}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tup.Config.CheckpointID)
		}
		if want := parse(t, line); !reflect.DeepEqual(got, want) {
			t.Errorf("filter %v: Go %v, Python %v", filters[i], got, want)
		}
	}

	// Python goes on where Go stopped, and Go upon that.
	script(t, python, "resume", url, "")
	head := get(t, s, saver.Config{ThreadID: "go"})
	if head.Metadata["user"] != "python" || head.Note != nil {
		t.Errorf("the head that Python put: %+v", head)
	}
	stale := request(t, s, "go", head.Parent.CheckpointID, nil)
	stale.Config.ExpectHead = saver.Head(head.Parent.CheckpointID)
	if _, err := s.PutRequest(t.Context(), stale); !errors.Is(err, saver.ErrConflict) {
		t.Errorf("a put that expects the head before Python's: %v, want ErrConflict", err)
	}
	next := request(t, s, "go", head.Config.CheckpointID, map[string]any{"last": "go"})
	for channel, v := range head.Checkpoint.Versions {
		next.Checkpoint.Versions[channel] = v
	}
	next.NewVersions = map[string]saver.Version{"last": next.Checkpoint.Versions["last"]}
	next.Checkpoint.ID = "1f0f5200-24f1-8fff-8000-bde4e02ab92b"
	if _, err := s.PutRequest(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if n := len(get(t, s, saver.Config{ThreadID: "go"}).Checkpoint.Values); n != len(head.Checkpoint.Values)+1 {
		t.Errorf("%d values, want one more than the %d that Python left", n, len(head.Checkpoint.Values))
	}
	same(t, script(t, python, "read", url, ""), s)
}

func writeByGo(t *testing.T, s *postgres.Saver) {
	t.Helper()
	req := request(t, s, "go", "", awkward())
	req.Checkpoint.Seen = map[string]map[string]saver.Version{"node": req.Checkpoint.Versions, "__input__": {}}
	req.Checkpoint.Updated = []string{"a", "b"}
	req.Metadata = saver.Metadata{"source": "input", "step": -1, "user": "go", "score": 0.5, "whole": 1e17, "deep": map[string]any{"l": []any{1.0, nil, true}}}
	req.Note = &saver.Note{Graph: "g", Next: []string{"node"}}
	req.Writes = []saver.TaskWrites{{TaskID: "task", TaskPath: "~__pregel_pull, node", Writes: []saver.Write{
		{Channel: "a", Value: saver.ValueOf(map[string]any{"x": "a\x00b"})}, {Channel: saver.ChannelInterrupt, Value: saver.ValueOf("ask")}, {Channel: "b", Value: saver.ValueOf(nil)},
	}}}
	first, err := s.PutRequest(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range []string{"left", "right"} { // forks
		fork := request(t, s, "go", first.CheckpointID, map[string]any{"list": []any{side}, "empty": side})
		fresh := fork.NewVersions
		fork.Checkpoint.Versions = map[string]saver.Version{}
		for channel, v := range req.Checkpoint.Versions {
			fork.Checkpoint.Versions[channel] = v
		}
		fork.NewVersions = map[string]saver.Version{}
		for channel, v := range fresh {
			fork.Checkpoint.Versions[channel], fork.NewVersions[channel] = v, v
		}
		if _, err := s.PutRequest(t.Context(), fork); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "go-delta", "", map[string]any{"messages": serde.DeltaSnapshot{Value: []any{1, 2}}})
}
