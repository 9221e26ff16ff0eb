package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// remembers is a node that counts its visits, by user for all threads, and by
// thread.
func remembers(c context.Context, _ any) (any, error) {
	info, ok := pregel.Task(c)
	if !ok {
		return nil, errors.New("no task")
	}
	user := fmt.Sprint(info.Configurable["user"])
	for _, ns := range []store.Namespace{{"users", user}, {"threads", info.ThreadID}} {
		n := int64(0)
		switch it, err := info.Store.Get(c, ns, "visits"); {
		case err == nil:
			n = it.Value["n"].(int64)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if err := info.Store.Put(c, ns, "visits", map[string]any{"n": n + 1}); err != nil {
			return nil, err
		}
	}
	return info.ThreadID, nil
}

// TestStoreIsInjected is STO-13: nodes reach the store of their graph, those of
// graphs inside that of the graph around, and namespaces are made of the run's
// config.
func TestStoreIsInjected(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	on, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s  store.Store
		cp saver.Saver
	}{"memory": {mem, memory.New(memory.Options{})}, "disk": {on, d}} {
		t.Run(name, func(t *testing.T) {
			inner := fan(t, pregel.Options{}, node("deep", remembers))
			g := fan(t, pregel.Options{Saver: c.cp, Store: c.s}, node("flat", remembers), node("nested", func(c context.Context, v any) (any, error) {
				res, err := inner.Invoke(c, pregel.Inside(), v)
				if err != nil {
					return nil, err
				}
				return res.Value, nil
			}))
			for _, run := range []struct{ thread, user string }{{"t1", "ann"}, {"t2", "ann"}, {"t1", "bob"}} {
				at, cfg := pregel.Thread(run.thread), pregel.RunOptions{Configurable: map[string]any{"user": run.user}, MaxConcurrency: 1}
				if _, err := g.Invoke(ctx, at, 1, cfg); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range map[[2]string]int64{{"users", "ann"}: 4, {"users", "bob"}: 2, {"threads", "t1"}: 4, {"threads", "t2"}: 2} {
				it, err := c.s.Get(ctx, path[:], "visits")
				if err != nil || it.Value["n"] != want {
					t.Errorf("%v: %+v, %v; want %d", path, it, err, want)
				}
			}
		})
	}
}

func TestWithoutAStore(t *testing.T) {
	g := fan(t, pregel.Options{}, node("a", func(c context.Context, _ any) (any, error) {
		info, _ := pregel.Task(c)
		return info.Store == nil, nil
	}))
	res, err := g.Invoke(ctx, pregel.Address{}, 1)
	wantOut(t, res, err, true)
}

// garbled answers every question with something that is no entry.
type garbled struct {
	cache.Cache
	value any
}

func (g garbled) Get(_ context.Context, keys ...cache.Key) (map[cache.Key]serde.Typed, error) {
	typed, err := serde.Default().Encode(g.value)
	if g.value == nil {
		typed = serde.Typed{Kind: "msgpack", Data: []byte{0xc1}}
	}
	return map[cache.Key]serde.Typed{keys[0]: typed}, err
}

// down is a cache that cannot be asked.
type down struct{ cache.Cache }

func (down) Get(context.Context, ...cache.Key) (map[cache.Key]serde.Typed, error) {
	return nil, errors.New("down")
}

func (down) Set(context.Context, ...cache.Entry) error { return errors.New("down") }

// TestCacheFailuresAreMisses is CAC-03 as a graph sees it: what a cache answers is
// a hit, or the node runs.
func TestCacheFailuresAreMisses(t *testing.T) {
	kept := newCache(t, cache.Options{})
	for name, c := range map[string]cache.Cache{
		"down": down{}, "no msgpack": garbled{kept, nil}, "no list": garbled{kept, "x"}, "no pairs": garbled{kept, []any{1}},
		"short pair": garbled{kept, []any{[]any{"out"}}}, "no channel": garbled{kept, []any{[]any{1, 2}}},
	} {
		runs := 0
		g := fan(t, pregel.Options{Cache: c}, node("n", func(context.Context, any) (any, error) { runs++; return "v", nil }).Cache(pregel.CachePolicy{}))
		for range 2 {
			res, err := g.Invoke(ctx, pregel.Address{}, 1)
			wantOut(t, res, err, "v")
		}
		if runs != 2 {
			t.Errorf("%s: the node ran %d times", name, runs)
		}
	}
}

// TestCacheOnDisk keeps what a node made from one process to the next.
func TestCacheOnDisk(t *testing.T) {
	dir, runs := t.TempDir(), 0
	for life := range 3 {
		d, err := disk.Open(dir, disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := cache.On(d, cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := fan(t, pregel.Options{Saver: d, Cache: kept}, node("n", func(_ context.Context, v any) (any, error) { runs++; return v, nil }).Cache(pregel.CachePolicy{}))
		for i := range 3 {
			res, err := g.Invoke(ctx, pregel.Thread(fmt.Sprint(life, i)), int64(7))
			wantOut(t, res, err, int64(7))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if runs != 1 {
		t.Errorf("the node ran %d times", runs)
	}
}
