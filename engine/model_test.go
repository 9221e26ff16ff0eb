package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// model is what a store should hold: partitions, entries, values.
type model map[string]map[string][]string

func (m model) clone() model {
	out := model{}
	for id, entries := range m {
		out[id] = map[string][]string{}
		for k, v := range entries {
			out[id][k] = slices.Clone(v)
		}
	}
	return out
}

// world runs one random program against a store and the model.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	fs    vfs.FS // of mem
	opts  Options
	e     *Engine
	m     model
	views []heldView
	now   time.Time
	log   []string
	quiet bool // no commits beside work: the store is being closed

	memOpts vfs.MemOptions

	divided bool // families are divided over segments

	last           map[string]string // by partition and slot: the value put last
	patches, older int64             // in the log, in segments
	besides        int               // flushes and images beside a compaction
	imaged         uint64            // images beside a flush
	compacting     func()            // called for each family
	resumed        int               // compactions that went on with an interrupted one
}

type heldView struct {
	v *View
	m model
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) open() {
	w.t.Helper()
	e, err := Open("store", w.opts)
	w.must(err)
	w.e = e
	if w.divided {
		e.directoryLimit = 600
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\nprogram:\n%s", err, strings.Join(w.log, "\n"))
	}
}

// lockedRand is a source for the engine, which asks from several goroutines.
func lockedRand(seed uint64) func() uint64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
}

// lastHot makes a head of the last entry, and history of the others.
func lastHot(entries []*index.Entry) []bool {
	hot := make([]bool, len(entries))
	if n := len(entries); n > 0 {
		hot[n-1] = true
	}
	return hot
}

func (w *world) id() string  { return fmt.Sprintf("t%d", w.rng.IntN(5)) }
func (w *world) key() string { return fmt.Sprintf("k%02d", w.rng.IntN(40)) }

func (w *world) value() string {
	n := w.rng.IntN(200)
	if w.rng.IntN(20) == 0 {
		n = 70_000
	}
	return strings.Repeat(strconv.Itoa(w.rng.IntN(1000)), n/3+1)
}

// next is a value for a slot of a partition: mostly the last one, edited.
func (w *world) next(id, slot string) string {
	key := id + "/" + slot
	v := w.last[key]
	switch n := w.rng.IntN(10); {
	case n < 2 || v == "":
		v = w.value()
	case n < 8:
		v += w.text(w.rng.IntN(900))
	default:
		at := w.rng.IntN(len(v))
		v = v[:at] + w.text(w.rng.IntN(60)) + v[min(len(v), at+w.rng.IntN(60)):]
	}
	w.last[key] = v
	return v
}

func (w *world) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + w.rng.IntN(26))
	}
	return string(b)
}

// put stores one or two entries; a slot may share the value of another entry.
func (w *world) put() {
	id, key := w.id(), w.key()
	n := 1 + w.rng.IntN(3)
	var vals []string
	var slots []SlotIn
	for i := range n {
		s := SlotIn{Name: fmt.Sprintf("s%d", i), Tag: "x"}
		v := w.next(id, s.Name)
		ev, err := w.e.NewRevision(nil, Series{Partition: id, Name: s.Name}, []byte(v[:len(v)/2]), []byte(v[len(v)/2:]))
		w.must(err)
		s.Value = &ev
		slots, vals = append(slots, s), append(vals, v)
	}
	share := ""
	if other := w.m[id]; len(other) > 0 && w.rng.IntN(2) == 0 {
		keys := make([]string, 0, len(other))
		for k := range other {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		share = keys[w.rng.IntN(len(keys))]
		vals = append(vals, other[share][0])
	}
	w.note("put %s/%s %d slots, share %q", id, key, n, share)
	err := w.e.Commit(context.Background(), []string{id}, func(tx *Tx) error {
		all := slots
		if share != "" {
			it := tx.Partition(id).Get(share)
			if it == nil {
				return fmt.Errorf("no entry %s to share", share)
			}
			all = append(slices.Clone(slots), SlotIn{Name: "z", Tag: "shared", Ref: it.Slots.At(0).Ref})
		}
		return tx.Put(id, key, index.FlagHead, all)
	})
	w.must(err)
	if w.m[id] == nil {
		w.m[id] = map[string][]string{}
	}
	w.m[id][key] = vals
}

// putAll stores several entries by commits that are made at once; their values follow each other.
func (w *world) putAll() {
	var steps []Step
	var follow Following
	id := w.id()
	after := w.m.clone()
	for range 1 + w.rng.IntN(6) {
		key, v := w.key(), w.next(id, "s0")
		ev, err := w.e.NewRevision(&follow, Series{Partition: id, Name: "s0"}, []byte(v[:len(v)/2]), []byte(v[len(v)/2:]))
		w.must(err)
		w.note("put at once %s/%s", id, key)
		steps = append(steps, Step{IDs: []string{id}, Do: func(tx *Tx) error {
			return tx.Put(id, key, index.FlagHead, []SlotIn{{Name: "s0", Tag: "x", Value: &ev}})
		}})
		if after[id] == nil {
			after[id] = map[string][]string{}
		}
		after[id][key] = []string{v}
	}
	n, err := w.e.CommitAll(context.Background(), steps)
	w.must(err)
	if n != len(steps) {
		w.t.Fatalf("%d of %d commits were made", n, len(steps))
	}
	w.m = after
}

func (w *world) delete() {
	id, a, b := w.id(), w.key(), w.key()
	w.note("delete %s/%s,%s", id, a, b)
	w.must(w.e.Commit(context.Background(), []string{id}, func(tx *Tx) error { return tx.Delete(id, a, b) }))
	if w.m[id] != nil {
		delete(w.m[id], a)
		delete(w.m[id], b)
	}
}

func (w *world) drop() {
	id := w.id()
	w.note("drop %s", id)
	w.must(w.e.Commit(context.Background(), []string{id}, func(tx *Tx) error { return tx.Drop(id, []byte("gone")) }))
	delete(w.m, id)
}

func (w *world) copy() {
	src, dst := w.id(), w.id()
	if w.m[src] == nil || w.m[dst] != nil {
		return
	}
	w.note("copy %s to %s", src, dst)
	w.must(w.e.Commit(context.Background(), []string{src, dst}, func(tx *Tx) error { return tx.Copy(src, dst) }))
	w.m[dst] = w.m.clone()[src]
}

// beside commits while the store's own work is at its file, and looks at what it
// left.
func (w *world) beside() {
	if w.quiet || w.rng.IntN(3) > 0 {
		return
	}
	w.note("beside:")
	switch n := w.rng.IntN(10); {
	case n > 7 && w.e.images.mu.TryLock(): // only beside a compaction
		w.e.images.mu.Unlock()
		w.quiet = true
		if n == 8 {
			w.note("flush beside")
			w.must(w.e.Flush(context.Background()))
		} else {
			w.note("image beside")
			w.must(w.e.WriteImage(context.Background()))
		}
		w.quiet = false
		w.besides++
	case n == 0:
		w.drop()
	case n < 3:
		w.copy()
	case n == 3:
		w.delete()
	default:
		w.put()
	}
}

// leave closes the store.
func (w *world) leave() {
	w.t.Helper()
	w.quiet = true
	defer func() { w.quiet = false }()
	for _, h := range w.views {
		h.v.Release()
	}
	w.views = nil
	w.patches += w.e.Metrics().Patches
	w.older += w.e.Metrics().SegmentPatches
	w.must(w.e.Close())
}

func (w *world) reopen(wreck bool) {
	w.leave()
	w.quiet = true
	defer func() { w.quiet = false }()
	if wreck {
		names, err := w.fs.List("store")
		w.must(err)
		for _, n := range names {
			if strings.HasSuffix(n, ".img") {
				w.must(w.fs.Remove(filepath.Join("store", n)))
				w.note("lost image %s", n)
			}
		}
	}
	w.note("reopen")
	w.open()
	if r := w.e.Report(); wreck && len(w.e.state().Images) > 0 && !r.IndexRebuilt {
		w.t.Fatalf("a lost image was not noticed: %+v", r)
	}
}

// kill goes on with the files as a process that died now would leave them: the next life replays
// the log, onto partitions that nobody has read.
func (w *world) kill() {
	w.note("kill")
	left := w.mem.Image()
	w.leave()
	w.mem = vfs.NewMemFrom(left, w.memOpts)
	w.fs = &besideFS{FS: w.mem, beside: w.beside}
	w.opts.FS = w.fs
	w.quiet = true
	w.open()
	w.quiet = false
}

func (w *world) step() {
	ctx := context.Background()
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.put()
	case n < 55:
		w.putAll()
	case n < 63:
		w.delete()
	case n < 67:
		w.drop()
	case n < 71:
		w.copy()
	case n < 77:
		w.note("flush")
		before := w.e.imagesWritten.Load()
		w.must(w.e.Flush(ctx))
		w.imaged += w.e.imagesWritten.Load() - before
	case n < 79:
		w.note("image")
		w.must(w.e.WriteImage(ctx))
	case n < 83:
		w.note("full image")
		w.e.images.mu.Lock()
		err := w.e.images.Write(true)
		w.e.images.mu.Unlock()
		w.must(err)
	case n < 86:
		w.note("compact")
		w.interruptible(w.e.Compact)
	case n < 89:
		w.note("compact step")
		w.interruptible(w.compactSome)
	case n < 93:
		w.note("view")
		v, err := w.e.View()
		w.must(err)
		w.views = append(w.views, heldView{v, w.m.clone()})
	case n < 96 && len(w.views) > 0:
		i := w.rng.IntN(len(w.views))
		w.note("check and release view %d", i)
		w.checkView(w.views[i].v, w.views[i].m)
		w.views[i].v.Release()
		w.views = slices.Delete(w.views, i, i+1)
	case n < 97:
		w.reopen(false)
	case n < 98:
		w.reopen(true)
	default:
		w.kill()
	}
}

// interruptible runs a compaction, every other one not to its end.
func (w *world) interruptible(compact func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if w.rng.IntN(2) == 0 {
		left := w.rng.IntN(6)
		w.compacting = func() {
			if left--; left < 0 {
				stop()
			}
		}
		defer func() { w.compacting = nil }()
	}
	err := compact(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		w.note("interrupted")
		err = nil
	}
	w.must(err)
}

// compactSome merges any segments, as which ones size would choose is no matter, but
// those that an interrupted compaction has left, if there are any.
func (w *world) compactSome(ctx context.Context) error {
	w.e.compactor.mu.Lock()
	defer w.e.compactor.mu.Unlock()
	segs := w.e.manifest.State().Segments
	inputs, err := w.e.compactor.interrupted(segs)
	if err != nil {
		return err
	}
	if inputs == nil {
		w.rng.Shuffle(len(segs), func(i, j int) { segs[i], segs[j] = segs[j], segs[i] })
		inputs = segs[:w.rng.IntN(len(segs)+1)]
	} else {
		w.resumed++
	}
	return w.e.compactor.run(ctx, compactionTask{inputs: inputs})
}

func (w *world) check() {
	w.t.Helper()
	v, err := w.e.View()
	w.must(err)
	defer v.Release()
	w.checkView(v, w.m)
	w.must(checkPages(w.e, v))
	for _, h := range w.views {
		w.checkView(h.v, h.m)
	}
}

func (w *world) checkView(v *View, m model) {
	w.t.Helper()
	found := map[string]bool{}
	var partitions []*index.Partition
	w.must(v.Ascend("", func(t *index.Partition) bool { partitions = append(partitions, t); return true }))
	for _, t := range partitions {
		found[t.ID] = true
		loaded, err := v.Load(t)
		w.must(err)
		w.checkPartition(loaded, m[t.ID])
	}
	for id := range m {
		if !found[id] {
			w.must(fmt.Errorf("thread %s is missing", id))
		}
	}
}

func (w *world) checkPartition(t *index.Partition, want map[string][]string) {
	w.t.Helper()
	got, head := 0, ""
	t.Ascend("", func(it *index.Entry) bool {
		got++
		head = it.Key
		vals, ok := want[it.Key]
		if !ok || len(vals) != it.Slots.Len() {
			w.must(fmt.Errorf("thread %s has entry %s of record %d with %d slots, want %d", t.ID, it.Key, it.LSN, it.Slots.Len(), len(vals)))
		}
		for i, s := range it.Slots.All() {
			b, err := w.e.ReadValue(context.Background(), t.Family, s.Ref)
			if err != nil || string(b) != vals[i] {
				w.must(fmt.Errorf("thread %s entry %s slot %d (%v): wrong value, %w", t.ID, it.Key, i, s.Ref, err))
			}
		}
		return true
	})
	if got != len(want) {
		w.must(fmt.Errorf("thread %s has %d entries, want %d", t.ID, got, len(want)))
	}
	if t.Head != head {
		w.must(fmt.Errorf("thread %s has head %q, want %q", t.ID, t.Head, head))
	}
}

// TestModel runs random programs of commits, flushes, images, compactions, views,
// kills and reopenings, with the index lost now and then, and compares the store with
// the model after each.
func TestModel(t *testing.T) {
	t.Parallel()
	runs, seed := 25/race.Every, rand.Uint64()
	if s := os.Getenv("ENGINE_RUNS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		runs = n
	}
	if s := os.Getenv("STELE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed, runs = n, 1
	}
	var patches, older int64
	besides, resumed, imaged := 0, 0, uint64(0)
	never := func() bool { return patches == 0 || older == 0 || besides == 0 || resumed == 0 || imaged == 0 }
	for i := 0; i < runs || runs > 1 && i < 8*runs && never(); i++ {
		seed := seed + uint64(i)
		ok := t.Run(fmt.Sprint("run", i), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("repeat with STELE_SEED=%d go test ./engine -run '^TestModel$'", seed)
				}
			}()
			rng := rand.New(rand.NewPCG(seed, 1))
			memOpts := vfs.MemOptions{WindowsRules: rng.IntN(2) == 0}
			w := &world{t: t, rng: rng, mem: vfs.NewMem(memOpts), memOpts: memOpts, m: model{}, last: map[string]string{}, divided: rng.IntN(4) == 0, now: time.Unix(1e9, 0)}
			w.fs = &besideFS{FS: w.mem, beside: w.beside}
			w.opts = Options{FS: w.fs, ManualWork: true, Inline: true, LogFileSize: 64 << 10, Rand: lockedRand(seed), PatchMin: 64, PatchRun: []int{0, 2, 7}[rng.IntN(3)], Hot: lastHot, ImageBytes: []int64{0, 1, 2 << 10}[rng.IntN(3)],
				CacheBytes: []int64{-1, 1 << 20}[rng.IntN(2)], MemoryBudget: []int64{-1, 0, 3 << 20}[rng.IntN(3)], VersionBytes: 1 << 20, SegmentSize: []int64{0, 1, 8 << 10, 64 << 10}[rng.IntN(4)], Clock: func() time.Time { w.now = w.now.Add(time.Second); return w.now }}
			w.opts.Events.Compacting = func(metrics.CompactProgress) {
				if w.compacting != nil {
					w.compacting()
				}
			}
			if seed%3 == 0 {
				w.opts.Keys = &turningKeys{}
			}
			w.open()
			for range 150 {
				w.step()
				if rng.IntN(5) == 0 {
					w.check()
				}
			}
			w.check()
			w.reopen(false)
			w.check()
			w.must(w.e.Close())
			patches, older, besides, resumed, imaged = patches+w.patches, older+w.older, besides+w.besides, resumed+w.resumed, imaged+w.imaged
		})
		if !ok {
			return
		}
	}
	t.Logf("%d values were patches in the log, %d in segments; %d flushes and images beside compactions, %d of which went on with an interrupted one; %d images beside flushes",
		patches, older, besides, resumed, imaged)
	if runs > 1 && never() {
		t.Error("something of this never happened")
	}
}
