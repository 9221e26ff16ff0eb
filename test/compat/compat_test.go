// Package compat keeps a store of every format version there ever was, and opens
// each with today's build: what was written once is read for ever.
package compat

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var update = flag.Bool("update", false, "write the store of the current format version again")

// current is the store that -update writes. v1 is the first release's; since then
// values are also stored as patches.
const current = "v1-patches"

// storeDir holds one store as its writer closed it; contents.json says what is
// in it.
func storeDir(version string) string { return filepath.Join("testdata", version) }

// fill makes a store with every kind of file and record: log, segment, image and
// manifest; forks, writes, a copy, a deletion, values of several kinds, and a list
// that grows, whose versions are patches in log and segment.
func fill(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := disk.Open(dir, disk.Options{ManualWork: true, Clock: func() time.Time { return now }})
	must(t, err)
	put := func(thread, ns, id, parent string, n int64, v any) {
		ver := saver.StringVersion(fmt.Sprintf("%032d.0.25", n))
		_, err := s.Put(ctx, saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: parent},
			saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05+00:00", Updated: []string{"c"},
				Versions: map[string]saver.Version{"c": ver, "empty": ver, "kept": saver.IntVersion(1)},
				Seen:     map[string]map[string]saver.Version{"node": {"c": ver}},
				Values:   map[string]saver.Value{"c": saver.ValueOf(v), "kept": saver.ValueOf("since " + id)}},
			saver.Metadata{"source": "loop", "step": n, "run_id": "run-1"},
			map[string]saver.Version{"c": ver, "empty": ver})
		must(t, err)
	}
	write := func(thread, id, task string, ws ...saver.Write) {
		must(t, s.PutWrites(ctx, saver.Config{ThreadID: thread, CheckpointID: id}, ws, task, "~path"))
	}
	put("a", "", "1", "", 1, "text")
	write("a", "1", "task-1", saver.Write{Channel: "c", Value: saver.ValueOf([]any{1, 2.5, nil, true})})
	put("a", "", "2", "1", 2, map[string]any{"k": []byte("bytes")})
	put("a", "", "3", "1", 2, "the other branch, at the same version")
	put("a", "child:x", "1", "", 1, []byte("raw"))
	put("gone", "", "1", "", 1, "deleted")
	must(t, s.Flush(ctx))
	must(t, s.CopyThread(ctx, "a", "copy"))
	must(t, s.DeleteThread(ctx, "gone"))
	write("a", "3", "task-2", saver.Write{Channel: saver.ChannelInterrupt, Value: saver.ValueOf("wait")})
	put("copy", "", "4", "3", 3, "only in the copy")
	var list []any
	for i := range 12 {
		list = append(list, fmt.Sprintf("message %d of a list long enough to be worth a patch: %d, %d, %d", i, i*i, i*i*i, 7*i))
		put("chat", "", fmt.Sprintf("%02d", i), fmt.Sprintf("%02d", i-1), int64(i+1), list)
		if i == 8 { // the first of them are too small
			must(t, s.Compact(ctx))
		}
	}
	if m := s.Metrics(); m.Patches == 0 || m.SegmentPatches == 0 {
		t.Errorf("%d patches in the log, %d in segments", m.Patches, m.SegmentPatches)
	}
	must(t, s.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents is everything a saver shows, as text.
func contents(t *testing.T, s *disk.Saver) []string {
	t.Helper()
	ctx := context.Background()
	var out []string
	for tup, err := range s.List(ctx, saver.Query{}) {
		must(t, err)
		line := map[string]any{"thread": tup.Config.ThreadID, "ns": tup.Config.Namespace, "id": tup.Config.CheckpointID,
			"metadata": tup.Metadata, "v": tup.Checkpoint.V, "ts": tup.Checkpoint.TS, "updated": tup.Checkpoint.Updated}
		if tup.Parent != nil {
			line["parent"] = tup.Parent.CheckpointID
		}
		versions, values := map[string]any{}, map[string]any{}
		for c, v := range tup.Checkpoint.Versions {
			versions[c] = v.Any()
		}
		for c, v := range tup.Checkpoint.Values {
			values[c] = typed(t, v)
		}
		var writes []any
		for _, w := range tup.PendingWrites {
			writes = append(writes, []any{w.TaskID, w.TaskPath, w.Channel, w.Index, typed(t, w.Value)})
		}
		line["versions"], line["values"], line["writes"] = versions, values, writes
		b, err := json.Marshal(line)
		must(t, err)
		out = append(out, string(b))
	}
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		must(t, err)
		line := fmt.Sprintf("{ThreadID:%s Head:%s UpdatedAt:%v Interrupted:%t}", info.ThreadID, info.Head, info.UpdatedAt, info.Status == saver.StatusWaiting)
		if info.Status != saver.StatusWaiting && info.Status != saver.StatusUnknown { // as it had to be without notes
			line += " " + string(info.Status)
		}
		out = append(out, line)
	}
	return out
}

func typed(t *testing.T, v saver.Value) string {
	t.Helper()
	b, err := v.Typed()
	must(t, err)
	return fmt.Sprintf("%s:%x", b.Kind, b.Data)
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(from, "store"))))
	return dir
}

func TestOldStoresAreRead(t *testing.T) {
	if *update {
		dir := storeDir(current)
		must(t, os.RemoveAll(dir))
		must(t, os.MkdirAll(dir, 0o755))
		fill(t, filepath.Join(dir, "store"))
		must(t, os.Remove(filepath.Join(dir, "store", "LOCK"))) // says who wrote it
		s, err := disk.Open(copyDir(t, dir), disk.Options{ReadOnly: true})
		must(t, err)
		b, err := json.MarshalIndent(contents(t, s), "", "  ")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "contents.json"), b, 0o644))
		must(t, s.Close())
	}
	versions, err := filepath.Glob(filepath.Join("testdata", "v*"))
	must(t, err)
	if len(versions) == 0 {
		t.Fatal("no stores")
	}
	for _, dir := range versions {
		b, err := os.ReadFile(filepath.Join(dir, "contents.json"))
		must(t, err)
		var want []string
		must(t, json.Unmarshal(b, &want))
		path := copyDir(t, dir)
		for life := range 2 { // as it was, and after this build has rewritten it all
			s, err := disk.Open(path, disk.Options{})
			must(t, err)
			if got := contents(t, s); !slices.Equal(got, want) {
				t.Errorf("%s, life %d: holds\n%v\nwant\n%v", dir, life, got, want)
			}
			must(t, s.Compact(context.Background()))
			must(t, s.Close())
		}
	}
}

// The current build still writes what it wrote when its format was fixed: the
// same answers, from a store filled anew.
func TestCurrentFormatHoldsTheSame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir)
	s, err := disk.Open(dir, disk.Options{ReadOnly: true})
	must(t, err)
	b, err := os.ReadFile(filepath.Join(storeDir(current), "contents.json"))
	must(t, err)
	var want []string
	must(t, json.Unmarshal(b, &want))
	if got := contents(t, s); !slices.Equal(got, want) {
		t.Errorf("holds\n%v\nwant\n%v", got, want)
	}
	must(t, s.Close())
}

// A store of a newer format is refused with words, and left as it is.
func TestNewerStoreIsLeftAlone(t *testing.T) {
	path := copyDir(t, storeDir(current))
	manifests, err := filepath.Glob(filepath.Join(path, "MANIFEST-*"))
	must(t, err)
	if len(manifests) != 1 {
		t.Fatalf("manifests: %v", manifests)
	}
	makeNewer(t, manifests[0])
	before := snapshotDir(t, path)
	for _, opts := range []disk.Options{{}, {ReadOnly: true}} {
		_, err := disk.Open(path, opts)
		var newer *fault.VersionError
		if !errors.As(err, &newer) || errors.Is(err, saver.ErrCorrupt) {
			t.Errorf("open (read-only %v): %v, want a VersionError", opts.ReadOnly, err)
		}
	}
	if after := snapshotDir(t, path); !slices.Equal(before, after) {
		t.Errorf("the store changed:\n%v\n%v", before, after)
	}
}

func snapshotDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue // says who held it last
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		out = append(out, fmt.Sprintf("%s %x", e.Name(), b))
	}
	return out
}

// makeNewer raises the format version of a manifest, as a later build would have
// written it: with a checksum that fits.
func makeNewer(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	binary.LittleEndian.PutUint32(b[8:], binary.LittleEndian.Uint32(b[8:])+1)
	binary.LittleEndian.PutUint64(b[56:], xxhash.Sum64(b[:56]))
	must(t, os.WriteFile(name, b, 0o644))
}
