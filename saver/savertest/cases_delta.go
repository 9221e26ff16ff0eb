package savertest

import (
	"fmt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// deltas puts checkpoints 1 to n of a delta channel "d", each upon the one
// before: a version each, no values but those of seeds (by checkpoint), and a
// write of the checkpoint's number against each but the last, which makes the
// next.
func (e *env) deltas(n int, seeds map[int]any) {
	e.Helper()
	e.deltasFrom(1, n, seeds)
}

func (e *env) deltasFrom(from, to int, seeds map[int]any) {
	e.Helper()
	for i := from; i <= to; i++ {
		st := step{id: id(i), vers: map[string]any{"d": i}, values: map[string]any{}}
		if i > 1 {
			st.parent = id(i - 1)
		}
		if seed, ok := seeds[i]; ok {
			st.values["d"] = seed
		}
		e.put(st)
		if i < to {
			e.write(at(i), fmt.Sprint("task-", i), "d", i)
		}
	}
}

// history checks the writes of a channel's history and its seed; no seed is the
// string "none". Where the saver reads histories itself, it must agree with the
// function that walks by GetTuple.
func (e *env) history(cfg saver.Config, channel string, seed any, want ...any) {
	e.Helper()
	got := map[string]func() (map[string]saver.DeltaHistory, error){
		"function": func() (map[string]saver.DeltaHistory, error) {
			return rules.DeltaChannelHistory(e.ctx, e.s, cfg, []string{channel})
		},
		"method": func() (map[string]saver.DeltaHistory, error) {
			return e.s.DeltaChannelHistory(e.ctx, cfg, []string{channel})
		},
	}
	for how, call := range got {
		all, err := call()
		e.ok("history by "+how, err)
		h, ok := all[channel]
		if !ok || len(all) != 1 {
			e.Fatalf("history by %s has channels %v, want %q alone", how, all, channel)
		}
		e.equal("history by "+how, e.plainHistory(h), append([]any{"seed", seed}, want...))
	}
}

func (e *env) plainHistory(h saver.DeltaHistory) []any {
	e.Helper()
	out := []any{"seed", "none"}
	if !h.Seed.IsZero() {
		out[1] = e.any(h.Seed)
	}
	for _, w := range h.Writes {
		out = append(out, e.any(w.Value))
	}
	return out
}

var deltaCases = []testCase{
	{id: "DLH-01", name: "oldest first", fn: func(e *env) {
		e.deltas(4, map[int]any{1: []any{}})
		e.history(at(4), "d", []any{}, 1, 2, 3)
		e.history(head, "d", []any{}, 1, 2, 3)
	}},
	{id: "DLH-01", name: "by task path within a checkpoint", fn: func(e *env) {
		e.deltas(2, map[int]any{1: 0})
		e.ok("put writes", e.s.PutWrites(e.ctx, at(1), writes("d", "b1", "d", "b2"), "a", "path b"))
		e.ok("put writes", e.s.PutWrites(e.ctx, at(1), writes("x", 0, "d", "a"), "b", "path a"))
		e.history(head, "d", 0, 1, "a", "b1", "b2")
	}},
	{id: "DLH-02", name: "the nearest value is the seed", fn: func(e *env) {
		e.deltas(5, map[int]any{1: "far", 4: 3})
		e.history(head, "d", 3, 4)
	}},
	{id: "DLH-03", name: "the target's own writes are not in it", fn: func(e *env) {
		e.deltas(3, map[int]any{1: 0})
		e.write(at(3), "task", "d", "extra")
		e.history(at(3), "d", 0, 1, 2)
	}},
	{id: "DLH-03", name: "nor is its own value", fn: func(e *env) {
		e.deltas(3, map[int]any{1: 0, 3: "mine"})
		e.history(at(3), "d", 0, 1, 2)
	}},
	{id: "DLH-04", name: "channels end on their own", fn: func(e *env) {
		for n := 1; n <= 4; n++ {
			st := step{id: id(n), vers: map[string]any{"a": n, "b": n}, values: map[string]any{}}
			if n > 1 {
				st.parent = id(n - 1)
			}
			switch n {
			case 1:
				st.values["a"] = "seed a"
			case 3:
				st.values["b"] = "seed b"
			}
			e.put(st)
			if n < 4 {
				e.write(at(n), "task", "a", n, "b", n)
			}
		}
		all, err := rules.DeltaChannelHistory(e.ctx, e.s, head, []string{"a", "b"})
		e.ok("history", err)
		e.equal("a", e.plainHistory(all["a"]), []any{"seed", "seed a", 1, 2, 3})
		e.equal("b", e.plainHistory(all["b"]), []any{"seed", "seed b", 3})
		e.history(head, "a", "seed a", 1, 2, 3)
		e.history(head, "b", "seed b", 3)
	}},
	{id: "DLH-05", name: "no channels", fn: func(e *env) {
		e.deltas(2, nil)
		all, err := rules.DeltaChannelHistory(e.ctx, e.s, head, nil)
		e.ok("history", err)
		e.equal("channels", len(all), 0)
	}},
	{id: "DLH-06", name: "no seed up to the root", fn: func(e *env) {
		e.deltas(4, nil)
		e.history(head, "d", "none", 1, 2, 3)
		e.history(at(1), "d", "none")
	}},
	{id: "DLH-06", name: "an unknown target, a missing ancestor", fn: func(e *env) {
		e.history(at(9), "d", "none")
		e.put(step{id: id(5), parent: id(4), vers: map[string]any{"d": 5}})
		e.write(at(4), "task", "d", "of no checkpoint")
		e.history(head, "d", "none")
	}},
	{id: "DLH-07", name: "a plain value is a seed", fn: func(e *env) {
		e.deltas(3, map[int]any{2: []any{10, 20, 30}})
		e.history(head, "d", []any{10, 20, 30}, 2)
	}},
	{id: "DLH-08", name: "the writes of the seed's checkpoint are in it", fn: func(e *env) {
		e.deltas(1, nil)
		e.write(at(1), "task", "d", "before")
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"d": []any{10, 20}}, vers: map[string]any{"d": 2}})
		e.write(at(2), "task", "d", "at-seed")
		e.put(step{id: id(3), parent: id(2), vers: map[string]any{"d": 3}})
		e.write(at(3), "task", "d", "after-seed")
		e.put(step{id: id(4), parent: id(3), vers: map[string]any{"d": 4}})
		e.history(head, "d", []any{10, 20}, "at-seed", "after-seed")
	}},
	{id: "DLH-09", name: "own walk and walk by GetTuple agree", fn: func(e *env) {
		e.deltas(6, map[int]any{3: "seed"})
		e.put(step{id: id(7), parent: id(2), vers: map[string]any{"d": 7}})
		e.put(step{id: id(8), parent: id(6), vers: map[string]any{"d": 6, "x": 1}, fresh: []string{"x"}})
		for n := 1; n <= 8; n++ {
			want, err := rules.DeltaChannelHistory(e.ctx, e.s, at(n), []string{"d", "x"})
			e.ok("history by function", err)
			got, err := e.s.DeltaChannelHistory(e.ctx, at(n), []string{"d", "x"})
			e.ok("history by method", err)
			for _, channel := range []string{"d", "x"} {
				e.equal(channel, e.plainHistory(got[channel]), e.plainHistory(want[channel]))
			}
		}
		all, err := e.s.DeltaChannelHistory(e.ctx, head, nil)
		e.ok("history of no channels", err)
		e.equal("channels", len(all), 0)
	}},
	{id: "DLH-10", name: "scalars are seeds, and an empty version hides none", fn: func(e *env) {
		for n, seed := range []any{true, "text", 7, nil} {
			e.put(step{id: id(10 * n), values: map[string]any{"d": seed}, vers: map[string]any{"d": 10 * n}})
			e.put(step{id: id(10*n + 1), parent: id(10 * n), vers: map[string]any{"d": 10*n + 1}})
			e.put(step{id: id(10*n + 2), parent: id(10*n + 1), vers: map[string]any{"d": 10*n + 2}})
			e.history(head, "d", seed)
		}
	}},
	{id: "delta", name: "a fork follows its own ancestors", fn: func(e *env) {
		e.deltas(3, map[int]any{1: 0})
		e.put(step{id: id(8), parent: id(2), vers: map[string]any{"d": 80}})
		e.write(at(8), "task", "d", "fork")
		e.put(step{id: id(9), parent: id(8), vers: map[string]any{"d": 90}})
		e.history(at(9), "d", 0, 1, 2, "fork")
		e.history(at(3), "d", 0, 1, 2)
	}},
	{id: "delta", name: "an ancestor of itself", fn: func(e *env) {
		e.deltas(3, map[int]any{3: "its own value is no seed"})
		e.put(step{id: id(1), parent: id(3), vers: map[string]any{"d": 1}})
		_, err := rules.DeltaChannelHistory(e.ctx, e.s, head, []string{"d"})
		e.fails("history", err, saver.ErrAncestorCycle)
		_, err = e.s.DeltaChannelHistory(e.ctx, head, []string{"d"})
		e.fails("history by method", err, saver.ErrAncestorCycle)
	}},
}
