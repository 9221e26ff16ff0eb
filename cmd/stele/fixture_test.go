package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// checkpointID is the id of the n-th checkpoint of the fixture, in the order of time.
func checkpointID(n int) string { return fmt.Sprintf("1ef00000-0000-6000-8000-%012d", n) }

// world makes a store whose every byte is the same in every run.
type world struct {
	t   *testing.T
	dir string
	rng *rand.Rand

	mu sync.Mutex
	n  int64
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: filepath.Join(t.TempDir(), "store"), rng: rand.New(rand.NewPCG(7, 7))}
}

// now steps by a second with every look.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return time.Unix(1_700_000_000+w.n, 0).UTC()
}

func (w *world) rand() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Uint64()
}

func (w *world) open() *disk.Saver {
	w.t.Helper()
	d, err := disk.Open(w.dir, disk.Options{ManualWork: true, Clock: w.now, LogFileSize: 64 << 10, Simulation: disk.Simulation{Rand: w.rand, Inline: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// put stores checkpoint n of a thread upon the one before, with a list that grows.
func (w *world) put(d *disk.Saver, thread string, n int, parent string, list []any) string {
	w.t.Helper()
	id := checkpointID(n)
	versions := map[string]saver.Version{"messages": saver.IntVersion(int64(n)), "topic": saver.IntVersion(1)}
	fresh := map[string]saver.Version{"messages": versions["messages"]}
	values := map[string]saver.Value{"messages": saver.ValueOf(list)}
	if parent == "" {
		fresh["topic"] = versions["topic"]
		values["topic"] = saver.ValueOf(map[string]any{"name": "stones", "of": thread})
	}
	cp := saver.Checkpoint{V: 4, ID: id, TS: w.now().Format(time.RFC3339), Values: values, Versions: versions,
		Seen: map[string]map[string]saver.Version{"talk": {"messages": saver.IntVersion(int64(n))}}, Updated: []string{"messages"}}
	md := saver.Metadata{"source": "loop", "step": int64(n), "run_id": "run-" + thread}
	if _, err := d.Put(context.Background(), saver.Config{ThreadID: thread, CheckpointID: parent}, cp, md, fresh); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// fixture is a closed store with two segments, two images, a log, a deleted thread, an
// interrupted thread, and one in another namespace's company.
func (w *world) fixture() {
	w.t.Helper()
	ctx := context.Background()
	d := w.open()
	list := []any{"one"}
	a := w.put(d, "alice", 1, "", list)
	w.put(d, "bob", 1, "", []any{"hello"})
	w.put(d, "carol", 1, "", []any{"to be deleted"})
	w.must(d.Flush(ctx))
	list = append(list, "two")
	a = w.put(d, "alice", 2, a, list)
	w.must(d.DeleteThread(ctx, "carol"))
	w.must(d.Flush(ctx))
	list = append(list, "three")
	a = w.put(d, "alice", 3, a, list)
	w.must(d.PutWrites(ctx, saver.Config{ThreadID: "alice", CheckpointID: a}, []saver.Write{
		{Channel: "messages", Value: saver.ValueOf("four")}, {Channel: "topic", Value: saver.ValueOf(nil)}}, "task-1", "~1"))
	w.must(d.PutWrites(ctx, saver.Config{ThreadID: "bob", CheckpointID: checkpointID(1)}, []saver.Write{
		{Channel: "__interrupt__", Value: saver.ValueOf([]any{"may I?"})}}, "task-2", ""))
	w.must(d.Close())
}

// progress is a closed store with a thread of each status.
func (w *world) progress() {
	w.t.Helper()
	ctx := context.Background()
	d := w.open()
	put := func(thread string, n int, note *saver.Note) {
		cp := saver.Checkpoint{V: 4, ID: checkpointID(n), TS: w.now().Format(time.RFC3339)}
		cfg := saver.Config{ThreadID: thread}
		if n > 1 {
			cfg.CheckpointID = checkpointID(n - 1)
		}
		_, err := d.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: saver.Metadata{"source": "loop", "step": n}, Note: note})
		w.must(err)
	}
	goesOn := &saver.Note{Graph: "mail", Next: []string{"agent", "tools"}}
	put("crashed", 1, &saver.Note{Graph: "mail", Next: []string{"__start__"}})
	put("crashed", 2, goesOn)
	put("ended", 1, &saver.Note{Graph: "mail"})
	put("failed", 1, goesOn)
	w.must(d.PutWrites(ctx, saver.Config{ThreadID: "failed", CheckpointID: checkpointID(1)}, []saver.Write{{Channel: "__error__", Value: saver.ValueOf("no")}}, "task", ""))
	put("paused", 1, &saver.Note{Graph: "mail", Version: "v2", Next: []string{"send"}, Stop: saver.StopBreakpoint})
	put("python", 1, nil)
	w.must(d.Close())
}
