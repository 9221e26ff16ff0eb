package sqlite_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/ops/transfer/sqlite"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Rows that do not decode are kept apart with their bytes; everything else is copied.
func TestRejectsRows(t *testing.T) {
	f := newFile(t, layout+"CREATE TABLE store (prefix text, key text, value text, created_at TIMESTAMP, updated_at TIMESTAMP);"+
		"INSERT INTO store VALUES ('users', 'ada', '{}', '2026-01-02 03:04:05', '2026-01-02 03:04:05'), ('users', 'bob', '{', '2026-01-02 03:04:05', '2026-01-02 03:04:05'),"+
		" ('users', 'eve', '[]', '2026-01-02 03:04:05', '2026-01-02 03:04:05'), ('users', 'max', '{}', 'today', '2026-01-02 03:04:05');")
	steps := chat(6)
	for i, s := range steps {
		f.checkpoint("t", "", s.id, s.parent, "msgpack", s.object(), `{"step":`+string(rune('0'+i))+`}`)
	}
	good := packed(t, steps[1].object()).Data
	f.exec("UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", good[:len(good)-1], steps[1].id)
	f.exec("UPDATE checkpoints SET type = 'msgpack+aes' WHERE checkpoint_id = ?", steps[3].id)
	f.exec("UPDATE checkpoints SET metadata = '{' WHERE checkpoint_id = ?", steps[4].id)
	f.write("t", "", steps[5].id, "task", "~1", 0, "a", "msgpack", packed(t, "fine").Data)
	f.write("t", "", steps[5].id, "task", "~1", 1, "b", "msgpack", []byte{0x91})            // ends early
	f.write("t", "", steps[5].id, "task2", "~1", 0, "a", "msgpack", packed(t, "kept").Data) // kept
	f.write("t", "", steps[5].id, "task3", "", -7, "a", "msgpack", []byte{0xc0})            // an index that there is not
	f.write("t", "", steps[5].id, "task4", "", 0, saver.ChannelResume, "msgpack", []byte{0x01})
	f.write("t", "", steps[5].id, "task4", "", 1, saver.ChannelResume, "msgpack", []byte{0x02})
	f.write("t", "", "gone", "task", "", 0, "a", "msgpack", []byte{0x07})
	f.write("only writes", "", "gone", "task", "", 0, "a", "bytes", []byte("raw"))
	object := steps[2].object()
	object["id"] = "another"
	f.checkpoint("wrong id", "", "1", "", "msgpack", object, `{}`)
	object["id"], object["current_tasks"], object["channel_values"] = "2", map[string]any{"x": 1}, map[string]any{"messages": "m", "stray": "s", "none": []any{}}
	f.checkpoint("fields", "", "2", "", "msgpack", object, `{"a":NaN,"b":1e400}`)

	dst := memory.New(memory.Options{})
	src := open(t, f.path)
	if n, err := src.CountItems(t.Context()); err != nil || n != 4 {
		t.Errorf("%d items, %v", n, err)
	}
	var items []string
	for it, err := range src.Items(t.Context(), nil) {
		var r *transfer.Rejected
		switch {
		case err == nil:
			items = append(items, it.Key)
		case errors.As(err, &r) && r.What == "item" && r.Raw != nil:
			items = append(items, r.Name)
		default:
			t.Error(err)
		}
	}
	if want := []string{"ada", `"users" "bob"`, `"users" "eve"`, `"users" "max"`}; !slices.Equal(items, want) {
		t.Errorf("items %q, want %q", items, want)
	}
	rep, rejected := copyTo(t, src, dst)
	var got []string
	for _, r := range rejected {
		got = append(got, strings.TrimSpace(strings.Join([]string{r.Config.ThreadID, r.Config.CheckpointID, r.What, r.Name, r.Kind}, " ")))
		if r.Raw == nil && r.Tuple == nil {
			t.Errorf("%v has no bytes", r)
		}
	}
	want := []string{
		"fields 2 field current_tasks msgpack",
		"fields 2 channel stray msgpack",
		"only writes gone write task 0 a bytes",
		"t " + steps[1].id + " checkpoint " + steps[1].id + " msgpack",
		"t " + steps[1].id + " field metadata text",
		"t " + steps[3].id + " checkpoint " + steps[3].id + " msgpack+aes",
		"t " + steps[3].id + " field metadata text",
		"t " + steps[4].id + " field metadata msgpack",
		"t " + steps[5].id + " write task3 -7 a msgpack",
		"t " + steps[5].id + " write task4 -4 __resume__ msgpack",
		"t " + steps[5].id + " write task 1 b msgpack",
		"t " + steps[5].id + " write task 0 a msgpack",
		"t gone write task 0 a msgpack",
		"wrong id 1 checkpoint 1 msgpack",
		"wrong id 1 field metadata text",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rejected\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rep.Checkpoints != 5 || rep.Verified != 5 || rep.Writes != 2 {
		t.Errorf("%+v", rep)
	}
	// The children of what was rejected have all their values.
	for _, i := range []int{2, 4, 5} {
		tup, err := dst.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: steps[i].id})
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range steps[i].values {
			typed, err := tup.Checkpoint.Values[name].Typed()
			if err != nil || !bytes.Equal(typed.Data, packed(t, v).Data) {
				t.Errorf("step %d, channel %s: %v", i, name, err)
			}
		}
	}
}

// The first files have NULL as type, and JSON; the packets of such a checkpoint are those of
// its parent's writes, or, without these, its own.
func TestOldest(t *testing.T) {
	f := newFile(t, strings.Replace(layout, "task_path TEXT NOT NULL DEFAULT '', ", "", 1))
	object := `{"v":1,"ts":"2024-01-01T00:00:00+00:00","id":"1","channel_values":{"a":[1,1.0,"x"],"b":null},"channel_versions":{"a":3,"b":2},"versions_seen":{"n":{"a":1}},"pending_sends":%}`
	send := `[{"lc":2,"type":"constructor","id":["langgraph","constants","Send"],"args":["work",{"n":1}]}]`
	f.checkpoint("t", "", "1", "", nil, []byte(strings.Replace(object, "%", send, 1)), `{"source":"loop","step":1.0}`)
	f.checkpoint("t", "", "2", "1", nil, []byte(strings.Replace(strings.Replace(object, "%", send, 1), `"id":"1"`, `"id":"2"`, 1)), `{}`)
	f.exec("INSERT INTO writes VALUES ('t', '', '1', 'task', 0, ?, NULL, ?)", saver.ChannelTasks, []byte(send))
	dst := memory.New(memory.Options{})
	rep, rejected := copyTo(t, open(t, f.path), dst)
	if len(rejected) > 0 || rep.Verified != 2 || rep.Writes != 1 {
		t.Fatalf("%+v, %v", rep, rejected)
	}
	for id, native := range map[string]bool{"1": false, "2": true} {
		tup, err := dst.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: id})
		if err != nil {
			t.Fatal(err)
		}
		cp := tup.Checkpoint
		if cp.V != 1 || cp.Versions["a"] != saver.IntVersion(3) || cp.Versions[saver.ChannelTasks] != saver.IntVersion(3) || cp.Values[saver.ChannelTasks].IsNative() != native {
			t.Errorf("%s: %+v", id, cp)
		}
		if typed, err := cp.Values["a"].Typed(); err != nil || typed.Kind != "json" || string(typed.Data) != `[1,1.0,"x"]` {
			t.Errorf("%s: %v %v", id, typed, err)
		}
		if _, ok := cp.Values["b"]; !ok {
			t.Errorf("%s: a null is a value: %v", id, slices.Collect(maps.Keys(cp.Values)))
		}
	}
}

// What is no file of LangGraph is refused.
func TestForeign(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"other tables": newFile(t, "CREATE TABLE x (y)").path, "a directory": t.TempDir(), "garbage": garbage,
		"another checkpoints": newFile(t, "CREATE TABLE checkpoints (id)").path} {
		if _, err := sqlite.Open(t.Context(), path); !errors.Is(err, sqlite.ErrForeign) && name != "garbage" || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// The file may be in WAL mode, with a writer at work.
func TestWAL(t *testing.T) {
	f := newFile(t, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"+layout)
	for _, s := range chat(3) {
		f.checkpoint("t", "", s.id, s.parent, "msgpack", s.object(), "{}")
	}
	src := open(t, f.path)
	s := chat(4)[3]
	f.checkpoint("t", "", s.id, s.parent, "msgpack", s.object(), "{}")
	if n, err := src.CountItems(t.Context()); err != nil || n != 0 {
		t.Errorf("%d items, %v", n, err)
	}
	if n, err := src.Count(t.Context()); err != nil || n != 3 {
		t.Errorf("%d checkpoints, %v: not those of one moment", n, err)
	}
	if rep, _ := copyTo(t, src, memory.New(memory.Options{})); rep.Checkpoints != 3 {
		t.Errorf("%+v", rep)
	}
}
