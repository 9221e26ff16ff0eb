package compat

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
)

// update makes the golden store of the present format version anew. Do that only
// before the format version is released; afterwards a store of a new version is
// added beside it.
var update = flag.Bool("update", false, "make the golden store of the present format version anew")

// present is the format version that this build writes.
const present = "v1"

// fixed is a world without chance: the same store every time.
func fixed() (saver.Options, saver.Simulation) {
	var mu sync.Mutex
	rng, n := rand.New(rand.NewPCG(1, 2)), int64(0)
	opts := saver.Options{ManualWork: true, LogFileSize: 64 << 10, Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		n++
		return time.Unix(1_700_000_000+n, 0).UTC()
	}}
	return opts, saver.Simulation{Inline: true, Rand: func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}}
}

// fill writes what the golden store holds: values whole and inherited, an emptied
// channel, writes, a copy, a deletion, in segment, image and log.
func fill(ctx context.Context, s *saver.Disk) error {
	put := func(thread, ns, id, parent string, values map[string]any, inherited ...string) error {
		cp := saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05+00:00", Values: map[string]saver.Value{},
			Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{"node": {"c": saver.IntVersion(1)}},
			Updated: []string{"c"}}
		fresh := map[string]saver.Version{}
		for c, v := range values {
			cp.Versions[c], fresh[c] = saver.StringVersion("v"+id), saver.StringVersion("v"+id)
			if v != nil {
				cp.Values[c] = saver.ValueOf(v)
			}
		}
		for _, c := range inherited {
			cp.Versions[c] = saver.StringVersion("v" + parent)
		}
		_, err := s.Put(ctx, saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: parent}, cp,
			saver.Metadata{"source": "loop", "step": 1, "run_id": "run " + id}, fresh)
		return err
	}
	write := func(thread, id string) error {
		return s.PutWrites(ctx, saver.Config{ThreadID: thread, CheckpointID: id},
			[]saver.Write{{Channel: "c", Value: saver.ValueOf("written")}, {Channel: "__interrupt__", Value: saver.ValueOf([]any{"why"})}}, "task", "path")
	}
	return errors.Join(
		put("a", "", "1", "", map[string]any{"c": "one", "d": strings.Repeat("long ", 200), "e": nil}),
		put("a", "sub:1", "1", "", map[string]any{"c": []any{1, 2.5, "x", nil, true}}),
		put("gone", "", "1", "", map[string]any{"c": "gone"}),
		write("a", "1"),
		s.Flush(ctx),
		put("a", "", "2", "1", map[string]any{"c": "two"}, "d"),
		s.CopyThread(ctx, "a", "b"),
		s.DeleteThread(ctx, "gone"),
		s.Flush(ctx),
		put("b", "", "3", "2", map[string]any{"c": map[string]any{"k": "v"}}),
		s.Engine().WriteImage(ctx),
		put("a", "", "3", "2", map[string]any{"c": "three"}),
		write("a", "3"),
	)
}

// describe is what the store answers, as text.
func describe(ctx context.Context, s *saver.Disk) (string, error) {
	var b strings.Builder
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "thread %s head %q updated %s interrupted %t\n", info.ThreadID, info.Head, info.UpdatedAt.Format(time.RFC3339), info.Interrupted)
	}
	for tup, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			return "", err
		}
		parent := "none"
		if tup.Parent != nil {
			parent = tup.Parent.CheckpointID
		}
		fmt.Fprintf(&b, "checkpoint %s %q %s parent %s v%d %s metadata %v updated %v seen %v\n", tup.Config.ThreadID, tup.Config.Namespace,
			tup.Config.CheckpointID, parent, tup.Checkpoint.V, tup.Checkpoint.TS, tup.Metadata, tup.Checkpoint.Updated, tup.Checkpoint.Seen)
		for _, c := range slices.Sorted(maps.Keys(tup.Checkpoint.Versions)) {
			fmt.Fprintf(&b, "  %s at %s: %s\n", c, tup.Checkpoint.Versions[c], text(tup.Checkpoint.Values[c]))
		}
		for _, w := range tup.PendingWrites {
			fmt.Fprintf(&b, "  write %s %q %s %d: %s\n", w.TaskID, w.TaskPath, w.Channel, w.Index, text(w.Value))
		}
	}
	return b.String(), nil
}

func text(v saver.Value) string {
	if v.IsZero() {
		return "no value"
	}
	t, err := v.Typed()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%s %x", t.Kind, t.Data)
}

// TestGoldenStores opens a copy of each store, compares what it holds with the
// text kept beside it, writes to it, and opens it again.
func TestGoldenStores(t *testing.T) {
	if *update {
		makeGolden(t)
	}
	dirs, err := filepath.Glob("v*")
	if err != nil || len(dirs) == 0 || !slices.Contains(dirs, present) {
		t.Fatalf("stores %v, want %s among them: %v", dirs, present, err)
	}
	for _, from := range dirs {
		t.Run(from, func(t *testing.T) { checkGolden(t, from) })
	}
}

func checkGolden(t *testing.T, from string) {
	ctx := context.Background()
	dir := copyStore(t, from)
	want, err := os.ReadFile(filepath.Join(from, "contents.txt"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if r := s.OpenReport(); r.DroppedBytes > 0 || r.IndexRebuilt || len(r.UnknownFiles) > 0 || r.CleanClose {
		t.Errorf("report %+v", r)
	}
	compare(t, s, string(want))
	if err := s.PutWrites(ctx, saver.Config{ThreadID: "gone", CheckpointID: "1"}, nil, "late", ""); !errors.Is(err, saver.ErrThreadDeleted) {
		t.Errorf("a late write to a deleted thread: %v", err)
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	compare(t, s, string(want))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	compare(t, s, string(want))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *saver.Disk {
	t.Helper()
	opts, _ := fixed()
	s, err := saver.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compare(t *testing.T, s *saver.Disk, want string) {
	t.Helper()
	got, err := describe(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the store holds\n%s\nwant\n%s", got, want)
	}
}

// makeGolden writes the store of the present version as a killed process leaves it:
// segments, images and a log with records that no image has.
func makeGolden(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{})
	opts, sim := fixed()
	sim.FS = mem
	s, err := saver.OpenSimulated("golden", opts, sim)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(ctx, s); err != nil {
		t.Fatal(err)
	}
	img := mem.Image()
	contents, err := describe(ctx, s)
	if err := errors.Join(err, s.Close(), os.RemoveAll(present), os.MkdirAll(present, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, f := range img.Files {
		b := make([]byte, f.Size())
		if n, _ := f.ReadAt(b, 0); n != len(b) {
			t.Fatalf("%s: %d bytes of %d", name, n, len(b))
		}
		if base := filepath.Base(name); base != "LOCK" {
			err = errors.Join(err, os.WriteFile(filepath.Join(present, base), b, 0o644))
		}
	}
	if err := errors.Join(err, os.WriteFile(filepath.Join(present, "contents.txt"), []byte(contents), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// copyStore copies a store, and nothing but the store.
func copyStore(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	names, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		size += len(b)
		if filepath.Base(n) == "contents.txt" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(n)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if size > 100<<10 {
		t.Errorf("%s has %d bytes; keep it below 100 KiB", from, size)
	}
	return dir
}

// TestNewerFormat: a file of the next format version, in an otherwise good store,
// gives a VersionError, and nothing is changed.
func TestNewerFormat(t *testing.T) {
	for _, kind := range []struct {
		glob string
		at   int // of the format version
		wide bool
	}{{"MANIFEST-*", 8, true}, {"*.log", 4, false}, {"*.img", 8, true}} {
		t.Run(kind.glob, func(t *testing.T) {
			dir := copyStore(t, present)
			names, err := filepath.Glob(filepath.Join(dir, kind.glob))
			if err != nil || len(names) == 0 {
				t.Fatalf("no %s in the store: %v", kind.glob, err)
			}
			name := names[len(names)-1]
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			// All headers have 64 bytes, the last eight of them a checksum.
			if kind.wide {
				binary.LittleEndian.PutUint32(b[kind.at:], 2)
			} else {
				binary.LittleEndian.PutUint16(b[kind.at:], 2)
			}
			binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:56]))
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir)
			_, err = saver.Open(dir, saver.Options{})
			var newer *saver.VersionError
			if !errors.As(err, &newer) || newer.Have != 2 || newer.Supported != 1 || !errors.Is(err, saver.ErrVersion) {
				t.Fatalf("open: %v, want a VersionError", err)
			}
			if after := files(t, dir); !maps.Equal(before, after) {
				t.Errorf("the store was changed: %v, before %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
		})
	}
}

// files are the contents of a directory, the lock file aside.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(n) != "LOCK" {
			out[filepath.Base(n)] = string(b)
		}
	}
	return out
}
