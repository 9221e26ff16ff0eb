package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// New input finishes first what a crash left of a superstep whose items are stored with
// it: the items of the earlier input are there, once, and those of a superstep that was
// discarded are not.
func TestFinishFirstTogether(t *testing.T) {
	for _, d := range allDurabilities {
		for _, way := range []pregel.Unfinished{pregel.FinishFirst, pregel.DiscardUnfinished} {
			t.Run(fmt.Sprint(d, "/", way), func(t *testing.T) {
				items, err := store.NewMemory(store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				dies := true
				s := watch(func(_ context.Context, op string) error {
					if dies && op == "put 1" { // what "learn" wrote is stored, and its superstep is not
						return errDead
					}
					return nil
				})
				learn := func(c context.Context, in any) (any, error) {
					steps := in.(map[string]any)["steps"].([]string)
					info, _ := pregel.Task(c)
					return nil, info.Store.Put(c, facts, steps[len(steps)-1], map[string]any{"steps": len(steps)})
				}
				g := compiled(t, graph.New(steps()).Node("learn", learn).Sequence(graph.Start, "learn"),
					graph.Options{Saver: s, Store: items, AtomicStore: true})
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: pregel.Sync}
				in := func(word string) map[string]any { return map[string]any{"steps": []string{word}} }
				if _, err := g.Invoke(ctx, at, in("first"), cfg); !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				dies = false
				h := home{s, items}
				h.knows(t)
				cfg.Durability, cfg.Unfinished = d, way
				if _, err := g.Invoke(ctx, at, in("second"), cfg); err != nil {
					t.Fatal(err)
				}
				if way == pregel.DiscardUnfinished {
					h.knows(t, "second")
				} else {
					h.knows(t, "first", "second")
				}
				sameStatus(t, "at the end", g, s, saver.StatusDone)
			})
		}
	}
}

// The function of an entrypoint is run again for what was left, its calls that ended are
// not, and what it keeps for the next run is there for the new input.
func TestFinishFirstOfAnEntrypoint(t *testing.T) {
	for _, d := range allDurabilities {
		for death := range 6 {
			t.Run(fmt.Sprint(d, "/death at save ", death), func(t *testing.T) {
				m := &mortal{Saver: memory.New(memory.Options{}), left: death, stored: map[string]bool{}}
				var mu sync.Mutex
				called := map[int]int{}
				double := pregel.NewTask("double", func(_ context.Context, n int) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					called[n]++
					return 2 * n, nil
				})
				g, err := pregel.Entrypoint("sum", func(c context.Context, n int) (int, error) {
					before, _, err := pregel.Previous[int](c)
					if err != nil {
						return 0, err
					}
					twice, err := double.Call(c, n)
					if err != nil {
						return 0, err
					}
					four, err := double.Call(c, twice)
					return before + four, err
				}, pregel.EntrypointOptions{Options: pregel.Options{Saver: m}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: pregel.Sync})
				died := err != nil
				m.left = -1
				if death == 0 { // nothing is stored: nothing is left
					return
				}
				ended := len(m.stored) // calls, and the function itself
				res, err := g.Invoke(ctx, pregel.Thread("t"), 10, pregel.RunOptions{Durability: d})
				if err != nil || fmt.Sprint(res.Value) != "44" {
					t.Fatalf("%+v, %v; died: %v", res, err, died)
				}
				if n := called[1] + called[2]; died && ended == 0 && n > 4 || ended >= 2 && n > 2 {
					t.Errorf("%d calls for the first input, of which %d ended before the crash", n, ended)
				}
				sameStatus(t, "at the end", g, m, saver.StatusDone)
			})
		}
	}
}

// A crash inside a graph inside: new input goes on within it, from where it was.
func TestFinishFirstInside(t *testing.T) {
	for _, keeps := range []pregel.Checkpointing{pregel.Inherit, pregel.Stable, pregel.Off} {
		for _, d := range allDurabilities {
			for death := 1; ; death++ {
				m := &mortal{Saver: memory.New(memory.Options{}), left: death, stored: map[string]bool{}}
				var mu sync.Mutex
				var ran []string
				does := func(name string) pregel.Func {
					return func(_ context.Context, in any) (any, error) {
						mu.Lock()
						defer mu.Unlock()
						words := in.(map[string]any)["steps"].([]string)
						first := slices.Contains(words, "first") && !slices.Contains(words, "second")
						if first {
							ran = append(ran, name)
						}
						return map[string]any{"steps": []string{name}}, nil
					}
				}
				inner := compiled(t, graph.New(steps()).Node("one", does("one")).Node("two", does("two")).Sequence(graph.Start, "one", "two"),
					graph.Options{Checkpointing: keeps})
				// What a graph inside returns is its whole state: the outer one keeps what is new.
				g := compiled(t, graph.New(steps()).Node("sub", func(c context.Context, in any) (any, error) {
					res, err := inner.Invoke(c, pregel.Inside(), in)
					if err != nil {
						return nil, err
					}
					all, _ := res.Map()["steps"].([]string)
					return map[string]any{"steps": all[len(all)-2:]}, nil
				}, graph.NodeOptions{Subgraphs: []*pregel.Graph{inner}}).Node("after", does("after")).Sequence(graph.Start, "sub", "after"),
					graph.Options{Name: "g", Saver: m})
				in := func(word string) map[string]any { return map[string]any{"steps": []string{word}} }
				_, err := g.Invoke(ctx, pregel.Thread("t"), in("first"), pregel.RunOptions{Durability: pregel.Sync})
				died := err != nil
				m.left = -1
				if _, err := g.Invoke(ctx, pregel.Thread("t"), in("second"), pregel.RunOptions{Durability: d}); err != nil {
					t.Fatalf("%v/%s, death at save %d: %v", keeps, d, death, err)
				}
				want := "[first one two after second one two after]"
				if got := fmt.Sprint(newest(t, g).Map()["steps"]); got != want {
					t.Errorf("%v/%s, death at save %d: %s, want %s", keeps, d, death, got, want)
				}
				if len(ran) > 4 && keeps != pregel.Off { // at most the task that was cut off is run again
					t.Errorf("%v/%s, death at save %d: %v", keeps, d, death, ran)
				}
				sameStatus(t, "at the end", g, m, saver.StatusDone)
				if !died {
					break
				}
			}
		}
	}
}
