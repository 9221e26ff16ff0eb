package sqlite_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/ops/transfer/sqlite"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// open opens a file of testdata.
func open(t *testing.T, path string) *sqlite.Source {
	t.Helper()
	src, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func copyTo(t *testing.T, src transfer.Source, dst saver.Saver) (transfer.Report, []*transfer.Rejected) {
	t.Helper()
	var rejected []*transfer.Rejected
	rep, err := transfer.Copy(t.Context(), src, dst, transfer.Options{Reject: func(r *transfer.Rejected) error {
		rejected = append(rejected, r)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return rep, rejected
}

// tuples are those that LangGraph read of a file of testdata, in the order of thread,
// namespace and id.
func tuples(t *testing.T, name string) []map[string]any {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name+".tuples.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		var tup map[string]any
		if err := d.Decode(&tup); err != nil {
			t.Fatal(err)
		}
		all = append(all, numbers(tup).(map[string]any))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
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

func typedShown(t *testing.T, v saver.Value) any {
	t.Helper()
	typed, err := v.Typed()
	if err != nil {
		t.Fatal(err)
	}
	return []any{typed.Kind, hex.EncodeToString(typed.Data)}
}

// shown is a tuple as record.py prints it.
func shown(t *testing.T, tup *saver.Tuple) map[string]any {
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
	for name, v := range cp.Values {
		if !v.IsNative() { // packets that the saver has derived
			values[name] = typedShown(t, v)
		}
	}
	shownVersions := versions(cp.Versions)
	if cp.Values[saver.ChannelTasks].IsNative() {
		delete(shownVersions, saver.ChannelTasks)
	}
	for node, m := range cp.Seen {
		seen[node] = versions(m)
	}
	for _, w := range tup.PendingWrites {
		writes = append(writes, []any{w.TaskID, w.Channel, typedShown(t, w.Value)})
	}
	sortWrites(writes)
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
		"v": int64(cp.V), "ts": cp.TS, "versions": shownVersions, "seen": seen, "updated": updated,
		"metadata": map[string]any(tup.Metadata), "values": values, "writes": writes,
	}
}

func sortWrites(writes []any) {
	slices.SortFunc(writes, func(a, b any) int { return strings.Compare(text(a), text(b)) })
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// same compares what LangGraph reads of a file with what a saver has. adapt may change a
// tuple of LangGraph's before.
func same(t *testing.T, want []map[string]any, s saver.Saver, adapt func(map[string]any)) {
	t.Helper()
	n := 0
	for range s.List(t.Context(), saver.Query{}) {
		n++
	}
	if n != len(want) {
		t.Errorf("%d checkpoints, LangGraph reads %d", n, len(want))
	}
	for _, w := range want {
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: w["thread"].(string), Namespace: w["ns"].(string), CheckpointID: w["id"].(string)})
		if err != nil {
			t.Fatal(err)
		}
		got := shown(t, tup)
		sortWrites(w["writes"].([]any))
		if adapt != nil {
			adapt(w)
		}
		for key := range w {
			if !reflect.DeepEqual(got[key], w[key]) {
				t.Errorf("checkpoint %v of %v: %s:\n     got %s\nLangGraph %s", w["id"], w["thread"], key, text(got[key]), text(w[key]))
			}
		}
	}
}

// What LangGraph's savers read of their files is what a saver has after the copy, to the byte
// of each value: files of current Python, of Python before task paths, and of JavaScript.
func TestReadsWhatLangGraphReads(t *testing.T) {
	unversioned := func(tup map[string]any) { // see the package comment
		for name := range tup["values"].(map[string]any) {
			if _, ok := tup["versions"].(map[string]any)[name]; !ok {
				delete(tup["values"].(map[string]any), name)
			}
		}
	}
	// Current LangGraph reads the Send of old releases, and writes it under its new name.
	renamed := func(tup map[string]any) {
		for _, w := range tup["writes"].([]any) {
			typed := w.([]any)[2].([]any)
			typed[1] = strings.ReplaceAll(typed[1].(string), "c7200193af"+hex.EncodeToString([]byte("langgraph.types")), "c7240193b3"+hex.EncodeToString([]byte("langgraph.constants")))
		}
	}
	kept := 0
	// The snapshot of a delta channel stays; see the package comment.
	snapshots := map[string]any{}
	stays := func(tup map[string]any) {
		at := func(id any) string {
			return text([]any{tup["thread"], tup["ns"], id, tup["versions"].(map[string]any)["log"]})
		}
		values := tup["values"].(map[string]any)
		if v, ok := snapshots[at(tup["parent"])]; ok && values["log"] == nil {
			values["log"] = v
			kept++
		}
		if values["log"] != nil {
			snapshots[at(tup["id"])] = values["log"]
		}
	}
	for name, adapt := range map[string]func(map[string]any){"graphs": stays, "v1": renamed, "v2": nil, "js": unversioned} {
		t.Run(name, func(t *testing.T) {
			dst := memory.New(memory.Options{})
			path := filepath.Join("testdata", name+".sqlite")
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rep, rejected := copyTo(t, open(t, path), dst)
			want := tuples(t, name)
			if len(rejected) > 0 || rep.Checkpoints != len(want) || rep.Verified != len(want) {
				t.Errorf("%+v, rejected %v", rep, rejected)
			}
			same(t, want, dst, adapt)
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed: %v", err)
			}
			// Again: everything is there.
			if again, _ := copyTo(t, open(t, path), dst); again.Copied != 0 || again.Checkpoints != rep.Checkpoints || again.Bytes != 0 {
				t.Errorf("a second copy: %+v", again)
			}
		})
	}
	if kept == 0 {
		t.Error("no snapshot stays; the recording shows nothing")
	}
}
