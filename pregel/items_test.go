package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

var facts = store.Namespace{"facts"}

// home is a saver with items beside.
type home struct {
	saver saver.Saver
	items *store.Local
}

// homes runs a test in memory and on disk.
func homes(t *testing.T, o store.Options, test func(t *testing.T, h home)) {
	t.Run("memory", func(t *testing.T) {
		m, err := store.NewMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, home{memory.New(memory.Options{}), m})
	})
	t.Run("disk", func(t *testing.T) {
		d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		on, err := store.On(d, o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, home{d, on})
	})
}

// knows checks which items there are.
func (h home) knows(t *testing.T, want ...string) {
	t.Helper()
	found, err := h.items.Search(ctx, store.Query{ByKey: true, Limit: store.NoLimit})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, f := range found {
		got = append(got, f.Key)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("items %v, want %v", got, want)
	}
}

// learns is a node that puts an item of each key, and does not see it.
func learns(then error, keys ...string) pregel.Func {
	return func(c context.Context, _ any) (any, error) {
		info, _ := pregel.Task(c)
		for _, k := range keys {
			v := map[string]any{"by": info.Node, "n": 1}
			if err := info.Store.Put(c, facts, k, v); err != nil {
				return nil, err
			}
			v["by"] = "changed since"
			if it, err := info.Store.Get(c, facts, k); !errors.Is(err, store.ErrNotFound) {
				return nil, fmt.Errorf("before the superstep ends the item is %v, %w", it, err)
			}
		}
		return map[string]any{"steps": []string{info.Node}}, then
	}
}

func steps() graph.Field { return graph.Key("steps", channel.Reduce(channel.Append[string])) }

func compiled(t *testing.T, b *graph.Builder, o graph.Options) *pregel.Graph {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestItemsGoWithTheStep: what a superstep put is there with its checkpoint, in
// every durability, and for the next superstep except in Exit.
func TestItemsGoWithTheStep(t *testing.T) {
	for _, durability := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		t.Run(string(durability), func(t *testing.T) {
			homes(t, store.Options{}, func(t *testing.T, h home) {
				second := func(c context.Context, _ any) (any, error) {
					info, _ := pregel.Task(c)
					it, err := info.Store.Get(c, facts, "one")
					if durability != pregel.Exit && (err != nil || it.Value["by"] != "first") {
						return nil, fmt.Errorf("the item of the superstep before is %v, %w", it, err)
					}
					res, err := info.Store.Batch(c, store.GetOp{Namespace: facts, Key: "two"}, store.PutOp{Namespace: facts, Key: "one"},
						store.PutOp{Namespace: facts, Key: "three", Value: map[string]any{"n": 3}})
					if err != nil || len(res) != 3 {
						return nil, fmt.Errorf("%v, %w", res, err)
					}
					return map[string]any{"steps": []string{"second"}}, info.Store.Delete(c, facts, "none")
				}
				g := compiled(t, graph.New(steps()).Node("first", learns(nil, "one", "two")).Node("second", second).Sequence(graph.Start, "first", "second"),
					graph.Options{Saver: h.saver, Store: h.items, AtomicStore: true})
				if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{}, pregel.RunOptions{Durability: durability}); err != nil {
					t.Fatal(err)
				}
				h.knows(t, "three", "two")
				if it, err := h.items.Get(ctx, facts, "two"); err != nil || it.Value["by"] != "first" {
					t.Errorf("%v, %v", it, err)
				}
			})
		})
	}
}

// TestItemsOfFailures: an attempt that fails leaves nothing, a task that waits or
// whose sibling fails leaves nothing until the superstep ends, in another run.
func TestItemsOfFailures(t *testing.T) {
	for _, durability := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		t.Run(string(durability), func(t *testing.T) {
			homes(t, store.Options{}, func(t *testing.T, h home) {
				broken, attempts, ran := true, 0, 0
				build := func() *pregel.Graph {
					b := graph.New(steps())
					b.Node("good", func(c context.Context, v any) (any, error) { ran++; return learns(nil, "good")(c, v) })
					b.Node("bad", func(c context.Context, v any) (any, error) {
						if attempts++; broken {
							return learns(errBoom, fmt.Sprint("bad ", attempts))(c, v)
						}
						if _, err := pregel.Ask(c, "go on?"); err != nil {
							return nil, errors.Join(err, errOf(learns(nil, "asked")(c, v)))
						}
						return learns(nil, "answered")(c, v)
					}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2, NoJitter: true, InitialInterval: 1, RetryOn: func(err error) bool { return errors.Is(err, errBoom) }}}})
					b.Node("end", learns(nil, "end"))
					b.Edge(graph.Start, "good").Edge(graph.Start, "bad").Edge("good", "end").Edge("bad", "end")
					return compiled(t, b, graph.Options{Saver: h.saver, Store: h.items, AtomicStore: true})
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: durability, MaxConcurrency: 1}
				if _, err := build().Invoke(ctx, at, map[string]any{}, cfg); !errors.Is(err, errBoom) {
					t.Fatal(err)
				}
				h.knows(t)
				broken = false
				res, err := build().Invoke(ctx, at, nil, cfg)
				if err != nil || len(res.Interrupts) != 1 {
					t.Fatalf("%+v, %v", res, err)
				}
				h.knows(t)
				if _, err := build().Invoke(ctx, at, pregel.Command{Resume: "yes"}, cfg); err != nil {
					t.Fatal(err)
				}
				h.knows(t, "answered", "end", "good")
				if attempts != 4 || ran != 1 {
					t.Errorf("%d attempts of bad, %d runs of good", attempts, ran)
				}
			})
		})
	}
}

func errOf(_ any, err error) error { return err }

// TestItemsOfGraphsInside: puts of a graph that stores no checkpoints are its
// task's, and without any they are stored when a superstep ends.
func TestItemsOfGraphsInside(t *testing.T) {
	homes(t, store.Options{}, func(t *testing.T, h home) {
		for _, o := range []graph.Options{{}, {Checkpointing: pregel.Off}} {
			for _, s := range []saver.Saver{h.saver, nil} {
				inner := compiled(t, graph.New(steps()).Node("i1", learns(nil, "i1")).Node("i2", learns(nil, "i2")).Sequence(graph.Start, "i1", "i2"), o)
				fail := true
				call := func(c context.Context, v any) (any, error) {
					res, err := inner.Invoke(c, pregel.Inside(), v)
					if err == nil && fail {
						fail, err = false, errBoom
					}
					return res.Map(), err
				}
				b := graph.New(steps()).Subgraph("sub", inner)
				b.Node("call", call)
				g := compiled(t, b.Node("out", learns(nil, "out")).Sequence(graph.Start, "sub", "out", "call"), graph.Options{Saver: s, Store: h.items, AtomicStore: true})
				at := pregel.Thread(fmt.Sprint(o.Checkpointing, s == nil))
				if _, err := g.Invoke(ctx, at, map[string]any{}); err == nil {
					t.Fatal("no error")
				}
				h.knows(t, "i1", "i2", "out")
				for _, k := range []string{"i1", "i2", "out"} {
					if err := h.items.Delete(ctx, facts, k); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// TestItemsOfManyTasks: the tasks of a superstep, and the supersteps of a run under Exit, may
// put more items together than a Batch of the store takes. Else the thread could never go on:
// its tasks have ended, and their puts are refused again at each attempt.
func TestItemsOfManyTasks(t *testing.T) {
	const each = 2500
	many := func(c context.Context, _ any) (any, error) {
		info, _ := pregel.Task(c)
		ops := make([]store.Op, each)
		for i := range ops {
			ops[i] = store.PutOp{Namespace: facts, Key: fmt.Sprint(info.Node, i), Value: map[string]any{"n": i}}
		}
		_, err := info.Store.Batch(c, ops...)
		return map[string]any{"steps": []string{info.Node}}, err
	}
	b := graph.New(steps())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.Node(name, many).Edge(graph.Start, name)
	}
	homes(t, store.Options{}, func(t *testing.T, h home) {
		for _, s := range []saver.Saver{h.saver, nil} {
			for _, durability := range []pregel.Durability{pregel.Async, pregel.Exit} {
				g := compiled(t, b, graph.Options{Saver: s, Store: h.items, AtomicStore: true})
				at := pregel.Thread(fmt.Sprint(durability, s == nil))
				if _, err := g.Invoke(ctx, at, map[string]any{}, pregel.RunOptions{Durability: durability}); err != nil {
					t.Fatalf("%s, without a saver: %v: %v", durability, s == nil, err)
				}
				found, err := h.items.Search(ctx, store.Query{Prefix: facts, Limit: store.NoLimit})
				if err != nil || len(found) != 5*each {
					t.Fatalf("%d items, want %d: %v", len(found), 5*each, err)
				}
				for some := range slices.Chunk(found, each) {
					ops := make([]store.Op, len(some))
					for i, f := range some {
						ops[i] = store.PutOp{Namespace: facts, Key: f.Key}
					}
					if _, err := h.items.Batch(ctx, ops...); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// TestItemsRefused: what cannot be stored is refused at once, and a save that
// fails fails the run.
func TestItemsRefused(t *testing.T) {
	down := false
	embed := func(_ context.Context, texts []string) ([][]float32, error) {
		if down {
			return nil, errBoom
		}
		out := make([][]float32, len(texts))
		for i := range out {
			out[i] = []float32{1}
		}
		return out, nil
	}
	homes(t, store.Options{Index: &store.Index{Dims: 1, Embed: embed}}, func(t *testing.T, h home) {
		var late store.Store
		n := node("n", func(c context.Context, _ any) (any, error) {
			info, _ := pregel.Task(c)
			late = info.Store
			for what, err := range map[string]error{
				"namespace": info.Store.Put(c, store.Namespace{"a.b"}, "k", map[string]any{}),
				"no value":  info.Store.Put(c, facts, "k", nil),
				"function":  info.Store.Put(c, facts, "k", map[string]any{"f": func() {}}),
				"key":       info.Store.Delete(c, facts, string(make([]byte, 1<<16))),
				"in batch":  errOf(info.Store.Batch(c, store.PutOp{Namespace: facts, Key: "k", Value: map[string]any{"f": func() {}}})),
			} {
				if err == nil {
					t.Errorf("%s is accepted", what)
				}
			}
			return 1, info.Store.Put(c, facts, "k", map[string]any{"text": "x"})
		})
		g := fan(t, pregel.Options{Saver: h.saver, Store: h.items, AtomicStore: true}, n)
		down = true
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); !errors.Is(err, pregel.ErrPersist) {
			t.Fatalf("items that cannot be embedded: %v", err)
		}
		h.knows(t)
		down = false
		if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); err != nil {
			t.Fatal(err)
		}
		h.knows(t, "k")
		if err := late.Put(ctx, facts, "late", map[string]any{}); !errors.Is(err, pregel.ErrOutsideTask) {
			t.Errorf("a put after the task ended: %v", err)
		}
	})
	mem, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New(steps()).Node("n", learns(nil)).Edge(graph.Start, "n")
	var graphError *pregel.GraphError
	for _, o := range []graph.Options{{AtomicStore: true}, {AtomicStore: true, Store: struct{ store.Store }{mem}}} {
		if _, err := b.Compile(o); !errors.As(err, &graphError) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	g := fan(t, pregel.Options{Saver: d, Store: mem, AtomicStore: true}, node("n", learns(nil, "k")))
	if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); !errors.Is(err, saver.ErrInvalid) {
		t.Errorf("a store of another saver: %v", err)
	}
}

// A run that stops reports it when that is durable, also if the checkpoint waited for no sync because
// it came with items.
func TestStopWithItemsIsDurable(t *testing.T) {
	for _, durability := range allDurabilities {
		for _, o := range []pregel.RunOptions{{InterruptAfter: []string{"first"}}, {InterruptBefore: []string{"second"}}} {
			deferred, reports := false, 0
			s := saver.Intercept(memory.New(memory.Options{}), func(c context.Context, call saver.Call, next func(context.Context) error) error {
				switch call.Method {
				case "PutRequest", "PutWrites":
					deferred = saver.SyncDeferred(c)
				case "Sync":
					deferred = false
				}
				return next(c)
			})
			items, err := store.NewMemory(store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			hooks := pregel.Hooks{Interrupt: func(pregel.RunInfo, []pregel.Interrupt) {
				if reports++; deferred {
					t.Errorf("%s, %v %v: reported before it was durable", durability, o.InterruptAfter, o.InterruptBefore)
				}
			}}
			g := compiled(t, graph.New(steps()).Node("first", learns(nil, "one")).Node("second", learns(nil, "two")).Sequence(graph.Start, "first", "second"),
				graph.Options{Saver: s, Store: items, AtomicStore: true, Hooks: hooks})
			o.Durability = durability
			if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{}, o); err != nil || deferred || reports != 1 {
				t.Errorf("%s, %v %v: reported %d times, a sync is due: %v; %v", durability, o.InterruptAfter, o.InterruptBefore, reports, deferred, err)
			}
		}
	}
}
