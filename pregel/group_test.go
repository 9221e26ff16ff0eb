package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// groups are the sizes of the groups that a saver was given.
func (w *watched) groups() string {
	var sizes []string
	for _, l := range w.lines() {
		if n, ok := strings.CutPrefix(l, "group of "); ok {
			sizes = append(sizes, n)
		}
	}
	return strings.Join(sizes, " ")
}

// The checkpoints of quick nodes are stored at once, a bounded number of them; those of Sync one by
// one.
func TestQuickNodesAreStoredAtOnce(t *testing.T) {
	var names []string
	for i := range 18 {
		names = append(names, fmt.Sprint("n", i))
	}
	for _, o := range []pregel.RunOptions{{}, {DeferSync: true}, {Durability: pregel.Sync}} {
		for n, want := range map[int]string{3: "4", 18: "16 3"} {
			synctest.Test(t, func(t *testing.T) {
				s := watch(nil)
				g := line(t, pregel.Options{Saver: grouped{s}}, nothing, names[:n]...)
				if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, o); err != nil {
					t.Fatal(err)
				}
				if o.Durability == pregel.Sync {
					want = ""
				}
				got := s.groups()
				if n > 16 && !o.DeferSync && o.Durability == "" { // the others come while these are stored
					got, _, _ = strings.Cut(got, " ")
					want, _, _ = strings.Cut(want, " ")
				}
				if got != want {
					t.Errorf("%+v: %d nodes in groups of %q, want %q", o, n, got, want)
				}
			})
		}
	}
}

// On disk they are one batch of the log.
func TestQuickNodesAreOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
		if err != nil {
			t.Fatal(err)
		}
		g := line(t, pregel.Options{Saver: d}, nothing, "a", "b", "c", "d")
		if _, err := g.Invoke(ctx, pregel.Thread("first"), 1); err != nil { // which makes the log's file
			t.Fatal(err)
		}
		before := d.Metrics().Log
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
			t.Fatal(err)
		}
		m := d.Metrics().Log
		if m.Batches-before.Batches != 1 || m.Records-before.Records != 5 || m.Syncs-before.Syncs != 1 {
			t.Errorf("%d records in %d batches with %d syncs", m.Records-before.Records, m.Batches-before.Batches, m.Syncs-before.Syncs)
		}
		n := 0
		for _, err := range d.List(ctx, saver.Query{ThreadID: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 5 {
			t.Errorf("%d checkpoints", n)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Items wait for no other checkpoints, and for no sync: the next superstep finds them, and they are
// durable when the run has ended.
func TestItemsDoNotWait(t *testing.T) {
	for _, o := range []pregel.RunOptions{{}, {DeferSync: true}} {
		synctest.Test(t, func(t *testing.T) {
			d, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			items, err := store.On(d, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := items.Put(ctx, facts, "zero", map[string]any{}); err != nil { // which makes the log's file
				t.Fatal(err)
			}
			begin := time.Now()
			syncs := []int64{}
			look := func(c context.Context, _ any) (any, error) {
				info, _ := pregel.Task(c)
				syncs = append(syncs, d.Metrics().Log.Syncs)
				if len(syncs) == 2 {
					if _, err := info.Store.Get(c, facts, "one"); err != nil {
						return nil, err
					}
				}
				return learns(nil, []string{"one", "two"}[len(syncs)-1])(c, nil)
			}
			g := compiled(t, graph.New(steps()).Node("quick", returns(map[string]any{})).Node("first", look).Node("second", look).
				Sequence(graph.Start, "quick", "first", "second"), graph.Options{Saver: d, Store: items, AtomicStore: true})
			if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{}, o); err != nil {
				t.Fatal(err)
			}
			syncs = append(syncs, d.Metrics().Log.Syncs)
			ends := syncs[1]
			if !o.DeferSync {
				ends++
			}
			if took := time.Since(begin); took != 0 || syncs[1] != syncs[0] || syncs[2] != ends {
				t.Errorf("%+v: the run waited for %v, with %d syncs before, between the supersteps, and after", o, took, syncs)
			}
		})
	}
}

// A checkpoint does not wait for a node that takes long.
func TestSlowNodeFindsItsCheckpointStored(t *testing.T) {
	for _, o := range []pregel.RunOptions{{}, {DeferSync: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := watch(nil)
			var stored []string
			g := line(t, pregel.Options{Saver: grouped{s}}, func(_ context.Context, name string) error {
				if name == "c" {
					time.Sleep(1100 * time.Microsecond)
					synctest.Wait()
					stored = s.acked("put")
				}
				return nil
			}, "a", "b", "c", "d")
			if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, o); err != nil {
				t.Fatal(err)
			}
			if want := []string{"put -1", "put 0", "put 1"}; !slices.Equal(stored, want) {
				t.Errorf("%+v: after 1.1 ms in the third node %v are stored, want %v", o, stored, want)
			}
			if got := s.groups(); got != "3 2" {
				t.Errorf("%+v: groups of %s", o, got)
			}
		})
	}
}

// What waits for a checkpoint does not wait for the millisecond: a graph inside, and the end.
func TestNobodyWaitsForAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watch(nil)
		inner := line(t, pregel.Options{Name: "inner"}, nothing, "x", "y")
		g := line(t, pregel.Options{Saver: grouped{s}}, func(c context.Context, name string) error {
			if name != "b" {
				return nil
			}
			_, err := inner.Invoke(c, pregel.Inside(), 1)
			return err
		}, "a", "b")
		begin := time.Now()
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the run waited for %v", took)
		}
		// The checkpoint around is stored before those of the graph inside.
		var order []string
		for _, l := range s.lines() {
			if strings.HasPrefix(l, "group") || strings.HasPrefix(l, "end put") {
				order = append(order, l)
			}
		}
		want := []string{"group of 2", "end put -1", "end put 0", "group of 3", "end put -1", "end put 0", "end put 1", "end put 1"}
		if !slices.Equal(order, want) {
			t.Errorf("stored in the order %q", order)
		}
	})
}

// groupRefuser is a saver that refuses the n-th checkpoint if it comes with others, or at all.
type groupRefuser struct {
	*memory.Saver
	with error // of a group, or of a checkpoint with writes
	n    int
	seen *int // checkpoints
	tell *[]string
}

func (s groupRefuser) PutGroup(c context.Context, reqs []saver.PutRequest) (int, error) {
	*s.tell = append(*s.tell, fmt.Sprint("group of ", len(reqs)))
	for i, req := range reqs {
		if *s.seen++; *s.seen == s.n {
			return i, s.with
		}
		if _, err := s.Saver.PutRequest(c, req); err != nil {
			return i, err
		}
	}
	return len(reqs), nil
}

func (s groupRefuser) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	*s.tell = append(*s.tell, fmt.Sprint("put with ", len(req.Writes)))
	return s.Saver.PutRequest(c, req)
}

func (s groupRefuser) PutWrites(c context.Context, cfg saver.Config, w []saver.Write, id, path string) error {
	*s.tell = append(*s.tell, "writes")
	return s.Saver.PutWrites(c, cfg, w, id, path)
}

// A checkpoint that is refused takes none before it along, and hides nothing: those behind it are
// not stored, and the writes of the task that made it are, so that the task does not run again. If
// it was only too large with them, the rest is stored as well.
func TestRefusedInAGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		with error
		told string
		last int // step of the newest checkpoint
	}{
		"refused":   {errDisk, "[group of 4 writes]", 0},
		"unknown":   {fmt.Errorf("gone: %w", saver.ErrOutcomeUnknown), "[group of 4]", 0},
		"too large": {saver.ErrTooLarge, "[group of 4 writes put with 0 group of 1]", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told, observed []string
				s := groupRefuser{memory.New(memory.Options{}), tc.with, 3, new(int), &told}
				ran := map[string]int{}
				o := pregel.Options{Saver: s, Hooks: pregel.Hooks{Save: func(_ pregel.RunInfo, op string, _ time.Duration, err error) {
					kind, _, _ := strings.Cut(op, " ")
					observed = append(observed, fmt.Sprint(kind, err == nil))
				}}}
				g := line(t, o, func(_ context.Context, name string) error { ran[name]++; return nil }, "a", "b", "c")
				_, err := g.Invoke(ctx, pregel.Thread("t"), 1)
				if tc.last < 2 && (!errors.Is(err, tc.with) || !errors.Is(err, pregel.ErrPersist)) || tc.last == 2 && err != nil {
					t.Errorf("error %v", err)
				}
				if got := fmt.Sprint(told); got != tc.told {
					t.Errorf("the saver was told %s, want %s", got, tc.told)
				}
				want := "[checkpointtrue checkpointtrue checkpointfalse]"
				if tc.last == 2 {
					want = "[checkpointtrue checkpointtrue checkpointtrue checkpointtrue]"
				}
				if got := fmt.Sprint(observed); got != want {
					t.Errorf("saves %s, want %s", got, want)
				}
				tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
				if err != nil {
					t.Fatal(err)
				}
				if step, _ := tup.Metadata.Step(); step != tc.last {
					t.Errorf("the newest checkpoint is that of step %d", step)
				}
				if name != "refused" {
					return
				}
				s.n = 0
				g = line(t, pregel.Options{Saver: s}, func(_ context.Context, name string) error { ran[name]++; return nil }, "a", "b", "c")
				res, err := g.Invoke(ctx, pregel.Thread("t"), nil)
				if err != nil || fmt.Sprint(res.Value) != "[a b c]" || ran["a"] != 1 || ran["b"] != 1 {
					t.Errorf("gone on with: %v, %v; runs %v", res, err, ran)
				}
			})
		})
	}
}

// fewAtOnce is a saver that stores no more than two checkpoints of a group.
type fewAtOnce struct{ grouped }

func (s fewAtOnce) PutGroup(c context.Context, reqs []saver.PutRequest) (int, error) {
	return s.grouped.PutGroup(c, reqs[:min(2, len(reqs))])
}

// What a saver leaves of a group is given to it again.
func TestGroupInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watch(nil)
		g := line(t, pregel.Options{Saver: fewAtOnce{grouped{s}}}, nothing, "a", "b", "c", "d")
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
			t.Fatal(err)
		}
		if got := s.groups(); got != "2 2 1" {
			t.Errorf("groups of %s", got)
		}
		if got, want := s.acked("put"), []string{"put -1", "put 0", "put 1", "put 2", "put 3"}; !slices.Equal(got, want) {
			t.Errorf("stored: %v", got)
		}
	})
}
