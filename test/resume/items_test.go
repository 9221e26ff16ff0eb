package resume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

const learnSteps = 6

var lessons = store.Namespace{"lessons"}

// learner is an agent that learns something in each of its steps, twice: two nodes
// of a superstep each put an item named by the step.
func learner(a *acks) (*pregel.Graph, *store.Local, error) {
	items, err := store.On(a.Saver, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	learn := func(c context.Context, state any) (any, error) {
		info, _ := pregel.Task(c)
		n := len(state.(map[string]any)["done"].([]string)) / 2
		key := fmt.Sprintf("%02d %s", n, info.Node)
		return map[string]any{"done": []string{key}}, info.Store.Put(c, lessons, key, map[string]any{"n": n})
	}
	again := func(_ context.Context, state any) (any, error) {
		if len(state.(map[string]any)["done"].([]string)) < 2*learnSteps {
			return []string{"a", "b"}, nil
		}
		return graph.End, nil
	}
	b := graph.New(graph.Key("done", channel.Reduce(channel.Append[string]))).Node("a", learn).Node("b", learn)
	b.Node("next", func(context.Context, any) (any, error) { return nil, nil })
	g, err := b.Edge(graph.Start, "a").Edge(graph.Start, "b").Join([]string{"a", "b"}, "next").Conditional("next", "again", again, "a", "b", graph.End).
		Compile(graph.Options{Saver: a, Store: items, AtomicStore: true})
	return g, items, err
}

// learned returns the items that are known, and what the newest checkpoint says was learned.
func learned(a *acks, items *store.Local) (known, done []string, err error) {
	c := context.Background()
	found, err := items.Search(c, store.Query{ByKey: true, Limit: store.NoLimit})
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		known = append(known, f.Key)
	}
	tup, err := a.GetTuple(c, saver.Config{ThreadID: "t"})
	if errors.Is(err, saver.ErrNotFound) {
		return known, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if v, ok := tup.Checkpoint.Values["done"]; ok {
		err = v.Decode(&done)
	}
	return known, done, err
}

// TestStepsAndItemsTogether crashes at every boundary: in every disk that is left
// the items are those of the steps the newest checkpoint has, and what goes on from
// there ends with all.
func TestStepsAndItemsTogether(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			ctx, at, cfg := context.Background(), pregel.Thread("t"), pregel.RunOptions{Durability: d, RecursionLimit: 100}
			whole := openOn(t, crashfs.New())
			g, _, err := learner(whole)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Invoke(ctx, at, map[string]any{"done": []string{}}, cfg); err != nil {
				t.Fatal(err)
			}
			if err := whole.Close(); err != nil {
				t.Fatal(err)
			}
			lengths := map[int]bool{}
			for cut := range whole.fs.Len() + 1 {
				n := 0
				for s := range whole.fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
					if n++; n > statesPerCut() {
						break
					}
					lengths[itemsOf(t, s, at, cfg)] = true
				}
			}
			if d == pregel.Sync && len(lengths) < learnSteps {
				t.Errorf("crashes left only %d different lengths", len(lengths))
			}
		})
	}
}

func itemsOf(t *testing.T, s crashfs.State, at pregel.Address, cfg pregel.RunOptions) int {
	t.Helper()
	a := openOn(t, s.FS())
	defer a.Close()
	g, items, err := learner(a)
	if err != nil {
		t.Fatal(err)
	}
	known, done, err := learned(a, items)
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	if fmt.Sprint(known) != fmt.Sprint(done) {
		t.Errorf("%v: the agent did %v, and knows %v", s, done, known)
	}
	var in any
	if _, err := a.GetTuple(context.Background(), saver.Config{ThreadID: "t"}); err != nil {
		in = map[string]any{"done": []string{}}
	}
	if _, err := g.Invoke(context.Background(), at, in, cfg); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	if known, done, err := learned(a, items); err != nil || len(known) != 2*learnSteps || fmt.Sprint(known) != fmt.Sprint(done) {
		t.Errorf("%v: in the end it did %v, and knows %v, %v", s, done, known, err)
	}
	return len(done)
}
