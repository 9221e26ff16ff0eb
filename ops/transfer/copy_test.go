package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// Everything that the contract shows comes through a saver, a file and a saver again.
func TestRoundTrip(t *testing.T) {
	src := awkward(t)
	d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rep := mustCopy(t, transfer.FromSaver(src), d)
	if rep.Threads != 2 || rep.Checkpoints != 7 || rep.Copied != 7 || rep.Writes != 7 {
		t.Errorf("%+v", rep)
	}
	equal(t, d, src)

	path := tempFile(t)
	wrote, err := transfer.WriteFile(t.Context(), transfer.FromSaver(d), path, transfer.Options{})
	if err != nil || wrote.Verified != 7 || wrote.Threads != 2 || wrote.Bytes != rep.Bytes {
		t.Fatalf("%+v, %v; copied %d bytes", wrote, err, rep.Bytes)
	}
	back := newMemory()
	mustCopy(t, file(path), back)
	equal(t, back, src)
	if again := mustCopy(t, file(path), back); again.Copied != 0 || again.Checkpoints != 7 || again.Bytes != 0 {
		t.Errorf("a second copy: %+v", again)
	}
	if _, err := transfer.WriteFile(t.Context(), transfer.FromSaver(d), path, transfer.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	if _, err := transfer.WriteFile(t.Context(), transfer.FromSaver(d), path, transfer.Options{Replace: true}); err != nil {
		t.Error(err)
	}
}

// The TTLs of threads come through a saver, a file and a saver again; a thread that has the
// default in the source keeps what it has in the target.
func TestTTLs(t *testing.T) {
	ttls := map[string]time.Duration{"t\xff\x00": saver.NoTTL, "old": time.Hour + 1, "plain": 0}
	check := func(where string, s interface {
		TTL(context.Context, string) (time.Duration, error)
	}, plain time.Duration) {
		t.Helper()
		for id, want := range map[string]time.Duration{"t\xff\x00": saver.NoTTL, "old": time.Hour, "plain": plain, "missing": 0} {
			if got, err := s.TTL(t.Context(), id); err != nil || got != want {
				t.Errorf("%s, thread %q: the TTL is %v, %v, and not %v", where, id, got, err, want)
			}
		}
	}
	src := awkward(t)
	put(t, src, saver.PutRequest{Config: saver.Config{ThreadID: "plain"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1"}})
	for id, ttl := range ttls {
		if err := src.SetTTL(t.Context(), id, ttl); err != nil {
			t.Fatal(err)
		}
	}
	d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mustCopy(t, transfer.FromSaver(src), d)
	check("on disk", d, 0)
	path := tempFile(t)
	if _, err := transfer.WriteFile(t.Context(), transfer.FromSaver(d), path, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	back := newMemory()
	mustCopy(t, file(path), back)
	check("from the file", back, 0)

	// What a copy that was killed has left out is set by the next, also where every checkpoint is there.
	for id := range ttls {
		if err := back.SetTTL(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if again := mustCopy(t, file(path), back); again.Copied != 0 {
		t.Errorf("a second copy: %+v", again)
	}
	check("copied again", back, time.Minute)

	if _, err := transfer.Copy(t.Context(), file(path), forgetful{newMemory()}, transfer.Options{}); !errors.Is(err, transfer.ErrNotEqual) || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("a target that forgets TTLs: %v", err)
	}
}

// forgetful is a saver that forgets TTLs.
type forgetful struct{ *memory.Saver }

func (forgetful) SetTTL(context.Context, string, time.Duration) error { return nil }

// The tuples are compared here by what savers answer, and not by what this package writes.
func TestTuplesAreEqual(t *testing.T) {
	src, dst := awkward(t), newMemory()
	mustCopy(t, transfer.FromSaver(src), dst)
	n := 0
	for want, err := range src.List(t.Context(), saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := dst.GetTuple(t.Context(), want.Config)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if !reflect.DeepEqual(flat(t, got), flat(t, want)) {
			t.Errorf("got  %#v\nwant %#v", flat(t, got), flat(t, want))
		}
	}
	if n != 7 {
		t.Errorf("%d checkpoints", n)
	}
}

// flat is a tuple without lazy values.
func flat(t *testing.T, tup *saver.Tuple) string {
	t.Helper()
	values := map[string]string{}
	for name, v := range tup.Checkpoint.Values {
		typed, err := v.Typed()
		if err != nil {
			t.Fatal(err)
		}
		values[name] = fmt.Sprintf("%s %x", typed.Kind, typed.Data)
	}
	writes := ""
	for _, w := range tup.PendingWrites {
		typed, err := w.Value.Typed()
		if err != nil {
			t.Fatal(err)
		}
		writes += fmt.Sprintf("%q %q %q %d %s %x\n", w.TaskID, w.TaskPath, w.Channel, w.Index, typed.Kind, typed.Data)
	}
	cp := tup.Checkpoint
	return fmt.Sprintf("%+v %+v %d %q %q %#v %#v %#v %#v %q %+v %s", tup.Config, tup.Parent, cp.V, cp.ID, cp.TS, cp.Versions, cp.Seen, cp.Updated, tup.Metadata, values, tup.Note, writes)
}

// A copy that dies after any number of puts is continued by the next one.
func TestResume(t *testing.T) {
	src := awkward(t)
	for n := range 8 {
		dst := newMemory()
		left := n
		dies := &target{dst, func(saver.PutRequest) error {
			if left--; left < 0 {
				return errPower
			}
			return nil
		}}
		rep, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dies, transfer.Options{})
		if errors.Is(err, errPower) != (n < 7) || rep.Copied != min(n, 7) {
			t.Fatalf("dies after %d: %+v, %v", n, rep, err)
		}
		rep = mustCopy(t, transfer.FromSaver(src), dst)
		if rep.Copied != 7-min(n, 7) || rep.Checkpoints != 7 {
			t.Errorf("after %d: %+v", n, rep)
		}
		equal(t, dst, src)
	}
}

// A checkpoint that is there with other content ends the copy and stays, unless it is to be
// replaced; pending writes cannot be.
func TestDiffers(t *testing.T) {
	src := awkward(t)
	there := func() saver.Saver {
		dst := newMemory()
		put(t, dst, saver.PutRequest{Config: saver.Config{ThreadID: "old"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1", TS: "mine"}})
		return dst
	}
	dst := there()
	_, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{})
	var differs *transfer.DiffersError
	if !errors.As(err, &differs) || !errors.Is(err, transfer.ErrDiffers) || differs.Config.ThreadID != "old" || differs.Config.CheckpointID != "1" {
		t.Fatalf("%v", err)
	}
	tup, err := dst.GetTuple(t.Context(), differs.Config)
	if err != nil || tup.Checkpoint.TS != "mine" {
		t.Errorf("it was overwritten: %+v, %v", tup, err)
	}
	rep, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{Replace: true})
	if err != nil || rep.Replaced != 1 || rep.Copied != 6 {
		t.Fatalf("%+v, %v", rep, err)
	}
	equal(t, dst, src)

	dst = there()
	if err := dst.PutWrites(t.Context(), differs.Config, []saver.Write{{Channel: "x", Value: saver.ValueOf(1)}}, "mine", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{Replace: true}); !errors.Is(err, transfer.ErrDiffers) {
		t.Errorf("a write that cannot be replaced: %v", err)
	}
}

// What a target refuses is kept apart whole, and its children are copied with all their
// values.
func TestRefused(t *testing.T) {
	src, dst := awkward(t), newMemory()
	errTaken := errors.New("taken")
	refuses := &target{dst, func(req saver.PutRequest) error {
		if req.Checkpoint.ID == "b" {
			return fmt.Errorf("refused: %w", errTaken)
		}
		return nil
	}}
	if _, err := transfer.Copy(t.Context(), transfer.FromSaver(src), refuses, transfer.Options{}); !errors.Is(err, errTaken) {
		t.Errorf("an error that is no refusal: %v", err)
	}
	path := tempFile(t)
	kept := transfer.NewRejects(path)
	o := transfer.Options{Reject: kept.Add, Refused: func(err error) bool { return errors.Is(err, errTaken) }}
	rep, err := transfer.Copy(t.Context(), transfer.FromSaver(src), refuses, o)
	if err != nil || rep.Rejected != 1 || rep.Checkpoints != 6 || rep.Verified != 6 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if err := kept.Close(); err != nil || kept.Path() != path {
		t.Fatal(err)
	}
	line, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Kind, What, Reason string
		Checkpoint         json.RawMessage
	}
	if err := json.Unmarshal(line, &l); err != nil || l.Kind != "rejected" || l.What != "checkpoint" || !strings.Contains(l.Reason, "taken") {
		t.Fatalf("%v %+v", err, l)
	}
	// With a header and an end around it, what was kept apart is a file that can be copied.
	mended := newMemory()
	mustCopy(t, text(`{"kind":"stele","format":1}`+"\n"+string(l.Checkpoint)+"\n"+`{"kind":"end","checkpoints":1}`+"\n"), mended)
	cfg := saver.Config{ThreadID: "t\xff\x00", CheckpointID: "b"}
	want, err := src.GetTuple(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mended.GetTuple(t.Context(), cfg)
	if err != nil || flat(t, got) != flat(t, want) {
		t.Errorf("%v\n%v", got, err)
	}
}

// Text of metadata with U+0000, which savers do not store, is reported and copied without.
func TestNUL(t *testing.T) {
	header := `{"kind":"stele","format":1}` + "\n"
	src := text(header + `{"kind":"checkpoint","thread":"t","id":"1","v":4,"metadata":{"user":"a\u0000b"}}` + "\n" + `{"kind":"end","checkpoints":1}` + "\n")
	dst := newMemory()
	var rejected []*transfer.Rejected
	rep, err := transfer.Copy(t.Context(), src, dst, transfer.Options{Reject: func(r *transfer.Rejected) error { rejected = append(rejected, r); return nil }})
	if err != nil || rep.Verified != 1 || len(rejected) != 1 || string(rejected[0].Raw) != "a\x00b" {
		t.Errorf("%+v %v %v", rep, rejected, err)
	}
}

// TestWritesWithoutCheckpoint: a thread that has pending writes alone is told, not left out in silence.
func TestWritesWithoutCheckpoint(t *testing.T) {
	src, dst := newMemory(), newMemory()
	cfg := saver.Config{ThreadID: "lost", CheckpointID: "1"}
	if err := src.PutWrites(t.Context(), cfg, []saver.Write{{Channel: "a", Value: saver.ValueOf(1)}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	var rejected []*transfer.Rejected
	rep, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{Reject: func(r *transfer.Rejected) error { rejected = append(rejected, r); return nil }})
	if err != nil || rep.Rejected != 1 || len(rejected) != 1 || rejected[0].What != "writes" || rejected[0].Config.ThreadID != "lost" ||
		!strings.Contains(rejected[0].Error(), "a thread without a checkpoint cannot be copied") {
		t.Errorf("%+v %v %v", rep, rejected, err)
	}
}

// spoiling is a target that stores something else than it was given.
type spoiling struct {
	saver.Saver
	spoil func(*saver.PutRequest)
}

func (s *spoiling) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	s.spoil(&req)
	return s.Saver.PutRequest(ctx, req)
}

// TestVerify: what is read back is compared.
func TestVerify(t *testing.T) {
	src := awkward(t)
	for what, spoil := range map[string]func(*saver.PutRequest){
		"note":     func(r *saver.PutRequest) { r.Note = nil },
		"ts":       func(r *saver.PutRequest) { r.Checkpoint.TS = "x" },
		"metadata": func(r *saver.PutRequest) { r.Metadata = saver.Metadata{"step": 1.0} },
		"updated":  func(r *saver.PutRequest) { r.Checkpoint.Updated = []string{} },
		"write":    func(r *saver.PutRequest) { r.Writes = slices.Clone(r.Writes)[:max(len(r.Writes)-1, 0)] },
		"parent":   func(r *saver.PutRequest) { r.Config.CheckpointID = "elsewhere" },
		"seen":     func(r *saver.PutRequest) { r.Checkpoint.Seen = nil },
		"value": func(r *saver.PutRequest) {
			for name := range r.NewVersions {
				r.Checkpoint.Values[name] = saver.ValueOf("other")
			}
		},
	} {
		dst := &spoiling{newMemory(), spoil}
		if _, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{}); !errors.Is(err, transfer.ErrNotEqual) {
			t.Errorf("%s: %v, want ErrNotEqual", what, err)
		}
	}
}

// Threads are selected by id, prefix and metadata, from savers and from files alike.
func TestSelection(t *testing.T) {
	store := awkward(t)
	for name, src := range map[string]transfer.Source{"saver": transfer.FromSaver(store), "file": text(dump(t, transfer.FromSaver(store)))} {
		for _, c := range []struct {
			sel  transfer.Selection
			want int
		}{
			{transfer.Selection{}, 7}, {transfer.Selection{Threads: []string{"old", "unknown"}}, 3}, {transfer.Selection{Prefix: "t"}, 4}, {transfer.Selection{Prefix: "t", Threads: []string{"old"}}, 0},
			{transfer.Selection{Metadata: map[string]any{"user": "a2"}}, 4}, {transfer.Selection{Metadata: map[string]any{"user": "ada"}}, 3}, {transfer.Selection{Metadata: map[string]any{"user": "b"}}, 0},
		} {
			rep, err := transfer.Copy(t.Context(), src, newMemory(), transfer.Options{Select: c.sel})
			if err != nil || rep.Checkpoints != c.want {
				t.Errorf("%s, %+v: %+v, %v", name, c.sel, rep, err)
			}
		}
	}
	long := strings.Repeat("x", 1<<20) // no thread can have such an id
	if rep, err := transfer.Copy(t.Context(), transfer.FromSaver(store), newMemory(), transfer.Options{Select: transfer.Selection{Threads: []string{"", long, "old"}}}); err != nil || rep.Checkpoints != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
	for _, threads := range [][]string{nil, {"old"}} {
		sel := transfer.Selection{Threads: threads, Metadata: map[string]any{"no key": 1}}
		if rep, err := transfer.Copy(t.Context(), transfer.FromSaver(store), newMemory(), transfer.Options{Select: sel}); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("%+v: %+v, %v; want an InvalidError", sel, rep, err)
		}
	}
}

// Listing a thread in parts loses nothing where one id is in many namespaces.
func TestManyNamespaces(t *testing.T) {
	src, dst := newMemory(), newMemory()
	for n := range 200 {
		for _, id := range []string{"1", "2"} {
			put(t, src, saver.PutRequest{Config: saver.Config{ThreadID: "t", Namespace: fmt.Sprint("ns", n)}, Checkpoint: saver.Checkpoint{V: 4, ID: id}})
		}
	}
	for n := range 200 {
		put(t, src, saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: checkpointID(n)}})
	}
	if rep := mustCopy(t, transfer.FromSaver(src), dst); rep.Copied != 600 {
		t.Errorf("%+v", rep)
	}
}

// Writes of any calls are stored at the indexes at which they were.
func TestWritesKeepTheirIndexes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	channels := []string{"a", "b", saver.ChannelError, saver.ChannelInterrupt, saver.ChannelResume, saver.ChannelScheduled}
	for round := range 300 {
		src, dst := newMemory(), newMemory()
		cfg := saver.Config{ThreadID: "t", CheckpointID: "1"}
		put(t, src, saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1"}})
		for range 1 + rng.IntN(4) {
			var writes []saver.Write
			for range rng.IntN(5) {
				writes = append(writes, saver.Write{Channel: channels[rng.IntN(len(channels))], Value: saver.ValueOf(rng.IntN(1000))})
			}
			task := rng.IntN(2)
			if err := src.PutWrites(t.Context(), cfg, writes, fmt.Sprint("task", task), fmt.Sprint("~", task)); err != nil {
				t.Fatal(err)
			}
		}
		rep, err := transfer.Copy(t.Context(), transfer.FromSaver(src), dst, transfer.Options{})
		if err != nil || rep.Verified != 1 {
			t.Fatalf("seed %d, round %d: %+v, %v", seed, round, rep, err)
		}
	}
}

// Parents come first, whatever the order of ids, and circles end.
func TestParentsFirst(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 200 {
		n := 1 + rng.IntN(12)
		nodes := make([]transfer.Node, n)
		for i := range nodes {
			nodes[i] = transfer.Node{ID: fmt.Sprint(i)}
			switch p := rng.IntN(n + 2); {
			case p < n:
				nodes[i].Parent = fmt.Sprint(p) // itself and circles included
			case p == n:
				nodes[i].Parent = "gone"
			}
		}
		sorted := transfer.ParentsFirst(slices.Clone(nodes))
		at := map[string]int{}
		for i, node := range sorted {
			at[node.ID] = i
		}
		if len(sorted) != n || len(at) != n {
			t.Fatalf("seed %d: %v of %v", seed, sorted, nodes)
		}
		parent := map[string]string{}
		for _, node := range nodes {
			parent[node.ID] = node.Parent
		}
		inCircle := func(id string) bool {
			for p, steps := parent[id], 0; p != "" && steps <= n; p, steps = parent[p], steps+1 {
				if p == id {
					return true
				}
			}
			return false
		}
		for _, node := range nodes {
			if p, ok := at[node.Parent]; ok && p > at[node.ID] && !inCircle(node.ID) {
				t.Errorf("seed %d: %s comes before its parent %s: %v", seed, node.ID, node.Parent, sorted)
			}
		}
	}
	want := []string{"2", "1", "3"}
	var got []string
	for _, node := range transfer.ParentsFirst([]transfer.Node{{ID: "1", Parent: "2"}, {ID: "3", Parent: "1"}, {ID: "2"}}) {
		got = append(got, node.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A value that was given is stored once for the checkpoints that share it, in files as well.
func TestFileSharesValues(t *testing.T) {
	s := newMemory()
	big := serde.Typed{Kind: "bytes", Data: bytes.Repeat([]byte("x"), 10_000)}
	one := map[string]saver.Version{"big": saver.IntVersion(1)}
	for n := range 20 {
		req := saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: checkpointID(n), Versions: one, Values: map[string]saver.Value{"big": saver.ValueTyped(big)}}}
		if req.NewVersions = one; n > 0 {
			req.Config.CheckpointID, req.NewVersions = checkpointID(n-1), nil
		}
		put(t, s, req)
	}
	if n := len(dump(t, transfer.FromSaver(s))); n > 25_000 {
		t.Errorf("%d bytes", n)
	}
}

// gap is a file with writes at all sorts of indexes; a line of it is broken to be read.
const gap = `{"kind":"stele","format":1}
{"kind":"checkpoint","thread":"t","id":"1","v":4,"metadata":{},"writes":[
{"task":"a","path":"","index":0,"channel":"c","value":{"type":"null","data":""}},
{"task":"a","path":"","index":2,"channel":"c","value":{"type":"null","data":""}},
{"task":"b","path":"","index":0,"channel":"c","value":{"type":"null","data":""}},
{"task":"c","path":"","index":99999999,"channel":"c","value":{"type":"null","data":""}},
{"task":"d","path":"","index":-1,"channel":"c","value":{"type":"null","data":""}},
{"task":"e","path":"","index":2,"channel":"__error__","value":{"type":"null","data":""}},
{"task":"f","path":"","index":-3,"channel":"__interrupt__","value":{"type":"null","data":""}},
{"task":"f","path":"","index":3,"channel":"c","value":{"type":"null","data":""}},
{"task":"g","path":"1","index":0,"channel":"c","value":{"type":"null","data":""}},
{"task":"g","path":"2","index":1,"channel":"c","value":{"type":"null","data":""}}]}
{"kind":"end","checkpoints":1}
`

// Writes that cannot be stored at their indexes are kept apart, with all of their task.
func TestGap(t *testing.T) {
	var rejected []string
	lines := strings.ReplaceAll(strings.ReplaceAll(gap, "[\n", "["), ",\n", ",")
	rep, err := transfer.Copy(t.Context(), text(lines), newMemory(), transfer.Options{Reject: func(r *transfer.Rejected) error { rejected = append(rejected, r.Name); return nil }})
	if err != nil || rep.Verified != 1 || rep.Writes != 5 || !slices.Equal(rejected, []string{"a 0 c", "a 2 c", "c 99999999 c", "d -1 c", "e 2 __error__"}) {
		t.Errorf("%+v, %q, %v", rep, rejected, err)
	}
}

// Each has its own at one version: no value, or another one than its parent.
func TestOneVersion(t *testing.T) {
	src, dst := newMemory(), newMemory()
	one := map[string]saver.Version{"a": saver.IntVersion(1)}
	req := saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1", Versions: one, Values: map[string]saver.Value{"a": saver.ValueOf("x")}}, NewVersions: one}
	put(t, src, req)
	req.Checkpoint.ID, req.Checkpoint.Values = "2", nil
	put(t, src, req)
	req.Checkpoint.ID, req.Checkpoint.Values, req.Config.CheckpointID = "3", map[string]saver.Value{"a": saver.ValueOf("y")}, "1"
	put(t, src, req)
	mustCopy(t, transfer.FromSaver(src), dst)
	for id, want := range map[string]any{"1": "x", "2": nil, "3": "y"} {
		tup, err := dst.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: id})
		if err != nil {
			t.Fatal(err)
		}
		v, ok := tup.Checkpoint.Values["a"]
		if ok != (want != nil) {
			t.Errorf("%s has %v", id, v)
		} else if got, err := v.Any(); ok && (err != nil || got != want) {
			t.Errorf("%s has %v, %v", id, got, err)
		}
	}
}

// TestStatusIsCopied: a thread that failed after a sleep, and one whose question refused an answer, have their status in the
// copy, and in one of a file.
func TestStatusIsCopied(t *testing.T) {
	src := newMemory()
	asked, failed := saver.Write{Channel: saver.ChannelInterrupt, Value: saver.ValueOf([]any{serde.Interrupt{Value: "?", ID: "1"}})},
		saver.Write{Channel: saver.ChannelError, Value: saver.ValueOf("no")}
	over := saver.Write{Channel: saver.ChannelInterrupt, Value: saver.ValueOf([]any{})}
	want := map[string]saver.Status{"slept": saver.StatusFailed, "refused": saver.StatusWaiting}
	for id, calls := range map[string][][]saver.Write{"slept": {{asked}, {failed, over}}, "refused": {{asked}, {asked, failed}}} {
		at := saver.Config{ThreadID: id}
		at, err := src.PutRequest(t.Context(), saver.PutRequest{Config: at, Checkpoint: saver.Checkpoint{V: 4, ID: "1"}, Metadata: saver.Metadata{}, Note: &saver.Note{Graph: "g", Next: []string{"n"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if err := src.PutWrites(t.Context(), at, call, "task", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	copied, path, back := newMemory(), tempFile(t), newMemory()
	mustCopy(t, transfer.FromSaver(src), copied)
	if _, err := transfer.WriteFile(t.Context(), transfer.FromSaver(src), path, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	mustCopy(t, file(path), back)
	for name, s := range map[string]saver.Saver{"source": src, "copy": copied, "copy of a file": back} {
		for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
			if err != nil || info.Status != want[info.ThreadID] {
				t.Errorf("%s: %s is %s: %v", name, info.ThreadID, info.Status, err)
			}
		}
	}
}
