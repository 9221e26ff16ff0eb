// Package compat keeps a store of every format version there ever was, and opens
// each with today's build: what was written once is read for ever.
package compat

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// written is the time by the clock of those who wrote the stores, so that no deletion is
// forgotten.
var written = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// optionsOf are the options of a store in testdata.
func optionsOf(t *testing.T, name string) disk.Options {
	t.Helper()
	opts := disk.Options{ManualWork: true, Clock: func() time.Time { return written }}
	if strings.Contains(name, "sealed") {
		keys, err := disk.StaticKeys("golden", map[string][]byte{"golden": bytes.Repeat([]byte{0x42}, 32)})
		must(t, err)
		opts.Keys = keys
	}
	return opts
}

// growing is a list that grows by a message for each checkpoint.
func growing(n int) (list []any) {
	for i := range n {
		list = append(list, fmt.Sprintf("message %d of a list long enough to be worth a patch: %d, %d, %d", i, i*i, i*i*i, 7*i))
	}
	return list
}

// put stores a checkpoint with a channel of each kind.
func put(t *testing.T, s *disk.Saver, thread, ns, id, parent string, n int64, v any) {
	t.Helper()
	ver := saver.StringVersion(fmt.Sprintf("%032d.0.25", n))
	_, err := s.Put(t.Context(), saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: parent},
		saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05+00:00", Updated: []string{"c"},
			Versions: map[string]saver.Version{"c": ver, "empty": ver, "kept": saver.IntVersion(1)},
			Seen:     map[string]map[string]saver.Version{"node": {"c": ver}},
			Values:   map[string]saver.Value{"c": saver.ValueOf(v), "kept": saver.ValueOf("since " + id)}},
		saver.Metadata{"source": "loop", "step": n, "run_id": "run-1"},
		map[string]saver.Version{"c": ver, "empty": ver})
	must(t, err)
}

func write(t *testing.T, s *disk.Saver, thread, id, task string, ws ...saver.Write) {
	t.Helper()
	must(t, s.PutWrites(t.Context(), saver.Config{ThreadID: thread, CheckpointID: id}, ws, task, "~path"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents is everything a saver shows, and what lies beside its checkpoints, as text.
func contents(t *testing.T, s *disk.Saver) []string {
	t.Helper()
	ctx := context.Background()
	var out []string
	add := func(v any) {
		b, err := json.Marshal(v)
		must(t, err)
		out = append(out, string(b))
	}
	for tup, err := range s.List(ctx, saver.Query{}) {
		must(t, err)
		line := map[string]any{"thread": tup.Config.ThreadID, "ns": tup.Config.Namespace, "id": tup.Config.CheckpointID,
			"metadata": tup.Metadata, "v": tup.Checkpoint.V, "ts": tup.Checkpoint.TS, "updated": tup.Checkpoint.Updated}
		if tup.Parent != nil {
			line["parent"] = tup.Parent.CheckpointID
		}
		if tup.Note != nil {
			line["note"] = struct {
				Graph   string
				Next    []string
				Stop    saver.Stop
				Deltas  []string
				Version string `json:",omitempty"` // builds before versions had none
			}(*tup.Note)
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
		add(line)
	}
	ttls := []string{}
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		must(t, err)
		line := fmt.Sprintf("{ThreadID:%s Head:%s UpdatedAt:%v Interrupted:%t}", info.ThreadID, info.Head, info.UpdatedAt, info.Status == saver.StatusWaiting)
		if info.Status != saver.StatusWaiting && info.Status != saver.StatusUnknown { // as it had to be without notes
			line += " " + string(info.Status)
		}
		out = append(out, line)
		if ttl, err := s.TTL(ctx, info.ThreadID); err != nil {
			t.Fatal(err)
		} else if ttl != 0 {
			ttls = append(ttls, fmt.Sprintf("TTL of %s: %v", info.ThreadID, ttl))
		}
	}
	items, err := store.On(s, store.Options{NoRefreshOnRead: true})
	must(t, err)
	defer items.Close()
	found, err := items.Search(ctx, store.Query{Limit: 1000})
	must(t, err)
	for _, f := range found {
		add(map[string]any{"item": f.Key, "namespace": f.Namespace, "value": f.Value, "created": f.CreatedAt, "updated": f.UpdatedAt, "expires": f.ExpiresAt})
	}
	near, err := store.On(s, store.Options{NoRefreshOnRead: true, Index: &store.Index{Dims: 2}})
	must(t, err)
	defer near.Close()
	if found, err = near.Search(ctx, store.Query{Prefix: store.Namespace{"vectors"}, Vector: []float32{1, 0}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		out = append(out, fmt.Sprintf("score of %s: %.3f", f.Key, f.Score))
	}
	results, err := cache.On(s, cache.Options{})
	must(t, err)
	cached, err := results.Get(ctx, cache.Key{NS: "node", Key: "k"})
	must(t, err)
	for k, v := range cached {
		out = append(out, fmt.Sprintf("cached %s/%s: %s:%x", k.NS, k.Key, v.Kind, v.Data))
	}
	out = append(out, ttls...)
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	must(t, err)
	for r, err := range queue.List(ctx, runs.Query{}) {
		must(t, err)
		events, err := queue.Events(ctx, r.ID, 0, 1000)
		must(t, err)
		add(map[string]any{"run": r, "events": events})
	}
	schedules, err := queue.Schedules(ctx)
	must(t, err)
	for _, x := range schedules {
		add(x)
	}
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], strings.Repeat("-", 1000), "…") // of long ids
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
	must(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// wantContents is what the writer of a store read.
func wantContents(t *testing.T, name string) (want []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name, "contents.json"))
	must(t, err)
	must(t, json.Unmarshal(b, &want))
	return want
}

// stores are the stores of testdata.
func stores(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "contents.json"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no stores")
	}
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

// holds checks that a directory is a store without damage, of which all is shown that its
// writer saw.
func holds(t *testing.T, dir string, opts disk.Options, want []string) {
	t.Helper()
	report, err := admin.Verify(t.Context(), dir, admin.VerifyOptions{Access: admin.Access{Options: opts}})
	must(t, err)
	if len(report.Damage) > 0 {
		t.Fatalf("damage: %+v", report.Damage)
	}
	s, err := disk.Open(dir, opts)
	must(t, err)
	same(t, s, want)
	if e := s.Stats().Encryption; opts.Keys != nil && (e.Files["golden"] < 4 || e.Plain+e.Unknown > 0) {
		t.Errorf("%+v", e)
	}
	must(t, s.Close())
}

func same(t *testing.T, s *disk.Saver, want []string) {
	t.Helper()
	got := contents(t, s)
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("line %d is\n%s\nwant\n%s", i, g, w)
		}
	}
}

// A store of an earlier build is whole, shows what its writer saw, is written on, rewritten and
// backed up; so is one that is restored from a backup of that build.
func TestOldStoresAreRead(t *testing.T) {
	for _, name := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, opts, want, from := t.Context(), optionsOf(t, name), wantContents(t, name), filepath.Join("testdata", name)
			dir := copyDir(t, filepath.Join(from, "store"))
			reader := opts
			reader.ReadOnly = true
			s, err := disk.Open(dir, reader)
			must(t, err)
			must(t, s.Close())
			holds(t, dir, opts, want)

			s, err = disk.Open(dir, opts)
			must(t, err)
			if name != "sealed1" { // which has neither
				deleted := []string{"gone"}
				if !strings.HasPrefix(name, "v1") {
					deleted = append(deleted, "gone-later", "erased")
				}
				writeOn(t, s, deleted)
			}
			same(t, s, want)
			must(t, s.Compact(ctx))
			same(t, s, want)
			backup := filepath.Join(t.TempDir(), "backup")
			_, err = admin.BackupOpen(ctx, s, backup, admin.BackupOptions{})
			must(t, err)
			must(t, s.Close())
			holds(t, dir, opts, want)

			backups := []string{backup}
			if old := filepath.Join(from, "backup"); exists(old) {
				backups = append(backups, copyDir(t, old))
			}
			for _, backup := range backups {
				dir := filepath.Join(t.TempDir(), "restored")
				_, err := admin.Restore(ctx, backup, dir, admin.BackupOptions{Access: admin.Access{Options: opts}})
				must(t, err)
				holds(t, dir, opts, want)
			}
		})
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// writeOn continues threads of a store, and takes back what it wrote. What was deleted or
// erased stays so.
func writeOn(t *testing.T, s *disk.Saver, deleted []string) {
	t.Helper()
	ctx := t.Context()
	must(t, s.CopyThread(ctx, "a", "on"))
	put(t, s, "on", "", "9", "3", 9, "written on")
	write(t, s, "on", "9", "task", saver.Write{Channel: "c", Value: saver.ValueOf("a write")})
	list := slices.ContainsFunc(contents(t, s), func(line string) bool { return strings.Contains(line, `"thread":"chat"`) })
	if list {
		must(t, s.CopyThread(ctx, "chat", "long"))
		put(t, s, "long", "", "12", "11", 13, growing(13))
	}
	must(t, s.Flush(ctx))
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "on"})
	must(t, err)
	var text string
	must(t, tup.Checkpoint.Values["c"].Decode(&text))
	if tup.Checkpoint.ID != "9" || text != "written on" || len(tup.PendingWrites) != 1 {
		t.Errorf("%+v", tup)
	}
	if list {
		tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "long"})
		must(t, err)
		var got []any
		must(t, tup.Checkpoint.Values["c"].Decode(&got))
		if !slices.Equal(got, growing(13)) {
			t.Errorf("%v", got)
		}
		must(t, s.DeleteThread(ctx, "long"))
	}
	must(t, s.DeleteThread(ctx, "on"))
	if failed := (saver.Config{ThreadID: "failed", CheckpointID: "1"}); strings.Contains(fmt.Sprint(contents(t, s)), "ThreadID:failed") {
		if n, err := s.CountAttempt(ctx, failed); err != nil || n != 2 {
			t.Errorf("attempt %d, want the second: %v", n, err)
		}
	}
	if pending, err := s.PendingErasures(); err != nil || pending != 0 {
		t.Errorf("%d erasures to finish: %v", pending, err)
	}
	for _, thread := range deleted {
		err := s.PutWrites(ctx, saver.Config{ThreadID: thread, CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("late")}}, "task", "")
		if !errors.Is(err, saver.ErrThreadDeleted) {
			t.Errorf("a write to %s: %v", thread, err)
		}
	}
}

// The current build still writes what it wrote when its format was fixed: the same
// answers, from a store with forks, writes, a copy, a deletion, values of several kinds, and a
// list that grows, whose versions are patches in log and segment.
func TestCurrentFormatHoldsTheSame(t *testing.T) {
	ctx := t.Context()
	s, err := disk.Open(filepath.Join(t.TempDir(), "store"), optionsOf(t, "v1-patches"))
	must(t, err)
	put(t, s, "a", "", "1", "", 1, "text")
	write(t, s, "a", "1", "task-1", saver.Write{Channel: "c", Value: saver.ValueOf([]any{1, 2.5, nil, true})})
	put(t, s, "a", "", "2", "1", 2, map[string]any{"k": []byte("bytes")})
	put(t, s, "a", "", "3", "1", 2, "the other branch, at the same version")
	put(t, s, "a", "child:x", "1", "", 1, []byte("raw"))
	put(t, s, "gone", "", "1", "", 1, "deleted")
	must(t, s.Flush(ctx))
	must(t, s.CopyThread(ctx, "a", "copy"))
	must(t, s.DeleteThread(ctx, "gone"))
	write(t, s, "a", "3", "task-2", saver.Write{Channel: saver.ChannelInterrupt, Value: saver.ValueOf("wait")})
	put(t, s, "copy", "", "4", "3", 3, "only in the copy")
	for i := range 12 {
		put(t, s, "chat", "", fmt.Sprintf("%02d", i), fmt.Sprintf("%02d", i-1), int64(i+1), growing(i+1))
		if i == 8 { // the first of them are too small
			must(t, s.Compact(ctx))
		}
	}
	if m := s.Metrics(); m.Patches == 0 || m.SegmentPatches == 0 {
		t.Errorf("%d patches in the log, %d in segments", m.Patches, m.SegmentPatches)
	}
	same(t, s, wantContents(t, "v1-patches"))
	must(t, s.Close())
}

// A store of a newer format is refused with words, and left as it is.
func TestNewerStoreIsLeftAlone(t *testing.T) {
	path := copyDir(t, filepath.Join("testdata", "v1-patches", "store"))
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
