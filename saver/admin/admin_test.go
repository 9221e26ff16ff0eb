package admin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// TestPlain: what serde decodes, JSON can write, and nothing is lost on the way.
func TestPlain(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, `null`}, {true, `true`}, {int64(math.MinInt64), `-9223372036854775808`}, {uint64(math.MaxUint64), `18446744073709551615`},
		{1.5, `1.5`}, {math.NaN(), `{"$float":"NaN"}`}, {math.Inf(-1), `{"$float":"-Inf"}`},
		{"text", `"text"`}, {"\xff", `{"$bytes":"/w=="}`}, {[]byte("ab"), `{"$bytes":"YWI="}`}, {serde.ByteArray("ab"), `{"$bytes":"YWI="}`},
		{[]any{int64(1), []byte{0}}, `[1,{"$bytes":"AA=="}]`}, {map[string]any{"k": math.NaN()}, `{"k":{"$float":"NaN"}}`},
		{map[any]any{int64(2): "b", int64(1): "a"}, `{"$map":[[1,"a"],[2,"b"]]}`},
		{serde.Set{"x"}, `{"$set":["x"]}`}, {serde.Deque{"x"}, `{"$deque":["x"]}`},
		{serde.Send{Node: "n", Arg: []byte{1}}, `{"$type":"Send","arg":{"$bytes":"AQ=="},"node":"n"}`},
		{serde.Interrupt{ID: "i", Value: "v"}, `{"$type":"Interrupt","id":"i","value":"v"}`},
		{serde.NewExt(serde.ExtPositional, "uuid", "UUID", []any{"x"}, ""), `{"$type":"uuid.UUID","value":["x"]}`},
		{&serde.Ext{Code: 9, Data: []byte{1}}, `{"$ext":9,"data":"AQ=="}`}, {(*serde.Ext)(nil), `null`},
		{make(chan int), `{"$go":"chan int`},
	} {
		b, err := json.Marshal(Plain(c.v))
		if err != nil || string(b) != c.want && !strings.HasPrefix(string(b), `{"$go"`) {
			t.Errorf("%#v becomes %s, %v; want %s", c.v, b, err, c.want)
		}
	}
}

// TestChanges: the changes listed are the ones made.
func TestChanges(t *testing.T) {
	list := func(v ...any) []any { return v }
	for name, c := range map[string]struct {
		a, b any
		want []Change
	}{
		"equal":    {list("a", int64(1)), list("a", int64(1)), []Change{}},
		"appended": {list("a"), list("a", "b"), []Change{{Path: "/1", Op: "add", To: "b"}}},
		"removed in the middle": {list("a", "b", "c"), list("a", "c"),
			[]Change{{Path: "/1", Op: "remove", From: "b"}}},
		"key with a slash": {map[string]any{"a/b~": "x"}, map[string]any{"a/b~": "y"}, []Change{{Path: "/a~1b~0", Op: "replace", From: "x", To: "y"}}},
		"deep": {map[string]any{"m": list(map[string]any{"k": "x"})}, map[string]any{"m": list(map[string]any{"k": "x", "l": "z"})},
			[]Change{{Path: "/m/0/l", Op: "add", To: "z"}}},
		"other kind":              {list("a"), map[string]any{}, []Change{{Op: "replace", From: list("a"), To: map[string]any{}}}},
		"integers are not floats": {int64(1), 1.0, []Change{}}, // JSON has one kind of number
		"null and absent":         {map[string]any{"k": nil}, map[string]any{}, []Change{{Path: "/k", Op: "remove"}}},
	} {
		if d := cmp.Diff(c.want, Changes(c.a, c.b)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestUnknownThreads: what something newer keeps beside threads is shown by its key,
// counted, verified, backed up and salvaged like the rest.
func TestUnknownThreads(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := engine.NewValue([]byte("opaque"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"\x00new", "s", "zebra\xff"} {
		err = errors.Join(err, d.Inside().Engine.Commit(ctx, []string{id}, func(tx *engine.Tx) error {
			return tx.Put(id, "c\x00odd key", 0, []engine.SlotIn{{Name: "n", Tag: "t", Value: &v}})
		}))
	}
	if err := errors.Join(err, put(d, "t", 1), d.Flush(ctx), d.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Stats(dir, Access{})
	if err != nil || s.Threads != 1 || s.Other != 3 {
		t.Errorf("stats: %+v, %v", s, err)
	}
	rep, err := Verify(ctx, dir, VerifyOptions{})
	if err != nil || !rep.Clean() || rep.Threads != 4 || rep.Checkpoints != 1 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		for e, err := range Dump(ctx, filepath.Join(dir, n.Name()), Access{}) {
			if err != nil || e.Error != "" {
				t.Errorf("dump %s: %+v, %v", n.Name(), e, err)
			}
		}
	}
	sv, err := Salvage(ctx, dir, filepath.Join(root, "new"), SalvageOptions{})
	if err != nil || !sv.Complete() || sv.Threads != 1 || sv.Other != 3 || sv.Entries != 4 {
		t.Errorf("salvage: %+v, %v", sv, err)
	}
}

// damageBlock spoils the block of the only segment that decodes to at least n bytes.
func damageBlock(t *testing.T, dir string, n int) {
	t.Helper()
	segs, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segs) != 1 {
		t.Fatal(segs, err)
	}
	b, err := os.ReadFile(segs[0])
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range Dump(context.Background(), segs[0], Access{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range e.Fields {
			if raw, ok := f.Value.(int); ok && f.Name == "raw" && raw >= n {
				b[e.Offset+e.Size-1] ^= 1
			}
		}
	}
	if err := os.WriteFile(segs[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLostValue: a channel that salvage could not save is an error to read, and stays
// one through compaction; the rest of the checkpoint is as it was.
func TestLostValue(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir, out := filepath.Join(root, "store"), filepath.Join(root, "new")
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 100_000) // has a block of its own
	versions := map[string]saver.Version{"big": saver.IntVersion(1), "small": saver.IntVersion(1)}
	cp := saver.Checkpoint{V: 4, ID: "1", TS: "t", Versions: versions, Values: map[string]saver.Value{"big": saver.ValueOf(big), "small": saver.ValueOf("s")}}
	if _, err = d.Put(ctx, saver.Config{ThreadID: "t"}, cp, nil, versions); err == nil {
		err = errors.Join(d.Flush(ctx), d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	damageBlock(t, dir, len(big))
	rep, err := Salvage(ctx, dir, out, SalvageOptions{})
	if err != nil || len(rep.LostValues) != 1 || rep.LostValues[0].Channel != "big" || len(rep.LostCheckpoints) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if _, err := Compact(ctx, out, Access{}, nil); err != nil {
		t.Fatal(err)
	}
	if d, err = disk.Open(out, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	tup, err := d.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tup.Checkpoint.Values["big"].Any(); !errors.Is(err, disk.ErrLost) || !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("the lost channel reads %v", err)
	}
	if v, err := tup.Checkpoint.Values["small"].Any(); err != nil || v != "s" {
		t.Errorf("the other channel reads %v, %v", v, err)
	}
	view, err := Show(ctx, d, saver.Config{ThreadID: "t"})
	if err != nil || !strings.Contains(view.Channels["big"].Error, "lost") || view.Channels["small"].Value != "s" {
		t.Errorf("show: %+v, %v", view, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestShowWritesAlone: a thread that has pending writes and no checkpoint is said to be so.
func TestShowWritesAlone(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "1"}, []saver.Write{{Channel: "a", Value: saver.ValueOf(1)}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Show(t.Context(), d, saver.Config{ThreadID: "t"}); !errors.Is(err, saver.ErrNotFound) || !strings.Contains(err.Error(), "pending writes") {
		t.Error(err)
	}
	if _, err := Show(t.Context(), d, saver.Config{ThreadID: "none"}); !errors.Is(err, saver.ErrNotFound) || strings.Contains(err.Error(), "pending writes") {
		t.Error(err)
	}
}
