package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

func newMemory() *memory.Saver { return memory.New(memory.Options{}) }

// put stores a checkpoint of the thread.
func put(t testing.TB, s saver.Saver, req saver.PutRequest) {
	t.Helper()
	if _, err := s.PutRequest(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// awkward is a store with one of everything that the contract allows.
func awkward(t testing.TB) *memory.Saver {
	t.Helper()
	s := newMemory()
	one, two := saver.IntVersion(1), saver.StringVersion("00000000000000000000000000000002.0.5")
	values := map[string]saver.Value{"list": saver.ValueOf([]any{1, 1.0, "<a>\u2028", nil, []byte{0, 255}}), "nil": saver.ValueOf(nil), "bytes": saver.ValueOf([]byte("\xff\x00")),
		"\xff\x00name": saver.ValueOf(math.NaN()), "json": saver.ValueTyped(serde.Typed{Kind: "json", Data: []byte(`{"a": [1, NaN]}`)}), "": saver.ValueOf("the channel without a name"),
		"secret": saver.ValueTyped(serde.Typed{Kind: "msgpack+aes", Data: []byte{1, 2, 3}}), "snapshot": saver.ValueOf(serde.DeltaSnapshot{Value: []any{1}})}
	versions := map[string]saver.Version{"empty": one, "float": saver.FloatVersion(2), "raw": saver.StringVersion("\xfe"), "null": {}}
	for name := range values {
		versions[name] = one
	}
	fresh := map[string]saver.Version{}
	for name := range values {
		fresh[name] = versions[name]
	}
	root := saver.PutRequest{
		Config: saver.Config{ThreadID: "t\xff\x00"},
		Checkpoint: saver.Checkpoint{V: 4, ID: "b", TS: "2026-01-02T03:04:05.678901+00:00", Values: values, Versions: versions,
			Seen: map[string]map[string]saver.Version{"node": {"list": one, "float": saver.FloatVersion(1.5)}, "__input__": {}, "\xfd": {}}, Updated: []string{"list", "nil"}},
		Metadata: saver.Metadata{"source": "loop", "step": 1, "score": 1.0, "big": uint64(math.MaxUint64), "small": int64(math.MinInt64), "tiny": 5e-324, "nested": map[string]any{"l": []any{nil, true, "é"}},
			"odd": []any{math.Inf(-1), []byte{1}, "\xff"}},
		NewVersions: fresh,
		Note:        &saver.Note{Graph: "g\xff", Next: []string{"node"}, Stop: saver.StopBreakpoint, Deltas: []string{"delta"}},
		Writes: []saver.TaskWrites{
			{TaskID: "task", TaskPath: "~1", Writes: []saver.Write{{Channel: saver.ChannelInterrupt, Value: saver.ValueOf("first")}, {Channel: "list", Value: saver.ValueOf([]any{2})},
				{Channel: saver.ChannelError, Value: saver.ValueOf("no")}, {Channel: "nil", Value: saver.ValueOf(nil)}}},
			{TaskID: "task", TaskPath: "~1", Writes: []saver.Write{{Channel: saver.ChannelInterrupt, Value: saver.ValueOf("second")}}},
			{TaskID: saver.NullTaskID, Writes: []saver.Write{{Channel: saver.ChannelResume, Value: saver.ValueOf([]any{"yes"})}}},
			{TaskID: "other\xff", TaskPath: "~0\xff", Writes: []saver.Write{{Channel: "list", Value: saver.ValueOf("w")}}},
		},
	}
	put(t, s, root)
	// Two children with smaller ids, which have other bytes at the same version.
	for i, id := range []string{"a", "a2"} {
		child := root
		child.Config.CheckpointID, child.Writes, child.Note, child.Metadata = "b", nil, nil, saver.Metadata{"user": id, "step": i}
		child.Checkpoint = root.Checkpoint.Clone()
		child.Checkpoint.ID, child.Checkpoint.Updated = id, nil
		child.Checkpoint.Versions["list"], child.Checkpoint.Values["list"] = two, saver.ValueOf([]any{id})
		child.NewVersions = map[string]saver.Version{"list": two}
		put(t, s, child)
	}
	// The second child's child empties a channel and has no packets yet; the first's is of format 3.
	last := saver.PutRequest{Config: saver.Config{ThreadID: "t\xff\x00", CheckpointID: "a2"}, Checkpoint: root.Checkpoint.Clone(), NewVersions: map[string]saver.Version{"bytes": two}}
	last.Checkpoint.ID, last.Checkpoint.Versions["list"], last.Checkpoint.Versions["bytes"] = "c", two, two
	delete(last.Checkpoint.Values, "bytes")
	put(t, s, last)
	put(t, s, saver.PutRequest{Config: saver.Config{ThreadID: "old", Namespace: "child:\xff|x"}, Checkpoint: saver.Checkpoint{V: 3, ID: "1", Versions: map[string]saver.Version{"x": one}},
		Writes: []saver.TaskWrites{{TaskID: "sends", Writes: []saver.Write{{Channel: saver.ChannelTasks, Value: saver.ValueOf("packet")}}}}})
	put(t, s, saver.PutRequest{Config: saver.Config{ThreadID: "old", Namespace: "child:\xff|x", CheckpointID: "1"}, Checkpoint: saver.Checkpoint{V: 3, ID: "2", Versions: map[string]saver.Version{"x": two}}})
	put(t, s, saver.PutRequest{Config: saver.Config{ThreadID: "old", Namespace: "", CheckpointID: "gone"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1"}, Metadata: saver.Metadata{"user": "ada"}})
	return s
}

// dump is all of a store, line by line, in one order.
func dump(t testing.TB, src transfer.Source) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := transfer.Write(t.Context(), src, &b, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// equal compares two stores by their tuples.
func equal(t testing.TB, got, want saver.Saver) {
	t.Helper()
	if g, w := dump(t, transfer.FromSaver(got)), dump(t, transfer.FromSaver(want)); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// mustCopy copies all, and nothing is rejected.
func mustCopy(t testing.TB, src transfer.Source, dst saver.Saver) transfer.Report {
	t.Helper()
	rep, err := transfer.Copy(t.Context(), src, dst, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Verified != rep.Checkpoints {
		t.Errorf("%d of %d checkpoints verified", rep.Verified, rep.Checkpoints)
	}
	return rep
}

// text is NDJSON in memory as a source.
func text(s string) transfer.Source {
	return transfer.FromNDJSON(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(s))), nil })
}

func file(path string) transfer.Source {
	return transfer.FromNDJSON(func() (io.ReadCloser, error) { return os.Open(path) })
}

// target is a store whose puts can fail.
type target struct {
	saver.Saver
	before func(saver.PutRequest) error
}

func (x *target) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	if err := x.before(req); err != nil {
		return saver.Config{}, err
	}
	return x.Saver.PutRequest(ctx, req)
}

var errPower = errors.New("the power is gone")

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "f.ndjson") }

func checkpointID(n int) string { return fmt.Sprintf("1ef00000-0000-6000-8000-%012d", n) }
