package savertest

import (
	"fmt"

	"github.com/stele-go/stele/saver"
)

// four puts the listing fixture: steps 0 to 3, sources input, loop, input, loop.
func (e *env) four() {
	e.Helper()
	for n := range 4 {
		st := step{id: id(n), md: saver.Metadata{"source": []string{"input", "loop"}[n%2], "step": n, "score": 40 + n, "run_id": fmt.Sprint("run-", n/2)}}
		if n > 0 {
			st.parent = id(n - 1)
		}
		e.put(st)
	}
}

// search puts the fixture of LangGraph's test_search: three checkpoints with the
// metadata of an input, of a loop with nested writes, and of nothing, the last
// two in one thread, one of them in a namespace.
func (e *env) search() {
	e.Helper()
	e.put(step{thread: "thread-1", id: id(1), md: saver.Metadata{"source": "input", "step": 2, "writes": map[string]any{}, "score": 1}})
	e.put(step{thread: "thread-2", id: id(2), md: saver.Metadata{"source": "loop", "step": 1, "writes": map[string]any{"foo": "bar"}, "score": nil}})
	e.put(step{thread: "thread-2", id: id(3), ns: "inner", md: saver.Metadata{}})
}

func (e *env) filtered(filter map[string]any, want ...int) {
	e.Helper()
	e.listed(saver.Query{Filter: filter}, want...)
}

var listCases = []testCase{
	{id: "LST-01", name: "all of a thread", fn: func(e *env) {
		e.four()
		e.listed(saver.Query{ThreadID: "t"}, 3, 2, 1, 0)
		e.listed(saver.Query{ThreadID: "other"})
	}},
	{id: "LST-02", name: "newest first whatever the order of puts", fn: func(e *env) {
		for _, n := range []int{5, 1, 4, 2, 3} {
			e.put(step{id: id(n)})
		}
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3, 2, 1)
	}},
	{id: "LST-02", name: "ids descend over threads and namespaces", fn: func(e *env) {
		for n, st := range []step{{thread: "b"}, {thread: "a", ns: "x"}, {thread: "b", ns: "y"}, {thread: "a"}} {
			st.id = id(n)
			e.put(st)
		}
		for _, st := range []step{{thread: "b", ns: "z"}, {thread: "b"}, {thread: "a", ns: "z"}} {
			st.id = id(9)
			e.put(st)
		}
		e.listed(saver.Query{}, 9, 9, 9, 3, 2, 1, 0)
		var ties []any
		for _, tup := range e.list(saver.Query{Limit: 3}) {
			ties = append(ties, tup.Config.ThreadID+"/"+tup.Config.Namespace)
		}
		e.equal("equal ids", ties, []any{"a/z", "b/", "b/z"})
	}},
	{id: "LST-03", name: "namespaces", fn: func(e *env) {
		e.put(step{id: id(1)})
		e.put(step{id: id(2), ns: "child:1"})
		e.put(step{id: id(3), ns: "child:2"})
		e.listed(saver.Query{ThreadID: "t", Namespace: saver.InNamespace("")}, 1)
		e.listed(saver.Query{ThreadID: "t", Namespace: saver.InNamespace("child:1")}, 2)
		e.listed(saver.Query{ThreadID: "t", Namespace: saver.InNamespace("child")})
		e.listed(saver.Query{ThreadID: "t"}, 3, 2, 1)
		e.listed(saver.Query{Namespace: saver.InNamespace("child:2")}, 3)
	}},
	{id: "LST-04", name: "filter by metadata", fn: func(e *env) {
		e.four()
		e.filtered(map[string]any{"source": "input"}, 2, 0)
		e.filtered(map[string]any{"step": 1}, 1)
		e.filtered(map[string]any{"source": "input", "step": 2}, 2)
		e.filtered(map[string]any{"source": "update"})
		e.filtered(map[string]any{"source": "input", "step": 1})
	}},
	{id: "LST-05", name: "filter by custom keys", fn: func(e *env) {
		e.four()
		e.filtered(map[string]any{"score": 42}, 2)
		e.filtered(map[string]any{"run_id": "run-0"}, 1, 0)
		e.filtered(map[string]any{"score": 42, "run_id": "run-0"})
	}},
	{id: "LST-06", name: "before is strict", fn: func(e *env) {
		e.four()
		e.listed(saver.Query{ThreadID: "t", Before: id(2)}, 1, 0)
		e.listed(saver.Query{ThreadID: "t", Before: id(0)})
		e.listed(saver.Query{ThreadID: "t", Before: id(3) + "0"}, 3, 2, 1, 0)
		e.listed(saver.Query{ThreadID: "t", Before: ""}, 3, 2, 1, 0)
	}},
	{id: "LST-07", name: "limit", fn: func(e *env) {
		e.four()
		e.listed(saver.Query{ThreadID: "t", Limit: 1}, 3)
		e.listed(saver.Query{ThreadID: "t", Limit: 2}, 3, 2)
		e.listed(saver.Query{ThreadID: "t", Limit: 1, Before: id(3)}, 2)
		e.listed(saver.Query{ThreadID: "t", Limit: 9}, 3, 2, 1, 0)
		e.listed(saver.Query{ThreadID: "t", Limit: 1, Filter: map[string]any{"source": "input"}}, 2)
	}},
	{id: "LST-08", name: "over all threads", fn: func(e *env) {
		e.search()
		e.filtered(map[string]any{}, 3, 2, 1)
		e.filtered(map[string]any{"source": "input"}, 1)
		e.filtered(map[string]any{"step": 1, "writes": map[string]any{"foo": "bar"}}, 2)
		e.filtered(map[string]any{"source": "update", "step": 1})
		e.listed(saver.Query{ThreadID: "thread-2"}, 3, 2)
	}},
	{id: "LST-09", name: "before over all threads", fn: func(e *env) {
		e.search()
		e.listed(saver.Query{Before: id(2)}, 1)
	}},
	{id: "LST-10", name: "limit none, some, all", fn: func(e *env) {
		e.chain(1, 5)
		e.listed(saver.Query{ThreadID: "t", Limit: 2}, 5, 4)
		e.listed(saver.Query{ThreadID: "t", Limit: saver.NoResults})
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3, 2, 1)
	}},
	{id: "LST-11", name: "filter values of every kind", fn: func(e *env) {
		e.put(step{id: id(1), md: saver.Metadata{"source": "loop", "step": 1, "writes": map[string]any{}, "score": 1}})
		e.put(step{id: id(2), md: saver.Metadata{"source": "loop", "step": 1, "writes": map[string]any{"foo": "bar"}, "score": nil}})
		e.put(step{id: id(3), md: saver.Metadata{"source": "loop", "step": 1.5, "flag": true, "list": []any{1, "x"}}})
		e.filtered(map[string]any{"source": "loop", "step": 1, "writes": map[string]any{"foo": "bar"}, "score": nil}, 2)
		e.filtered(map[string]any{"writes": map[string]any{}}, 1)
		e.filtered(map[string]any{"score": nil}, 3, 2) // a missing key is nil
		e.filtered(map[string]any{"step": 1.0}, 2, 1)
		e.filtered(map[string]any{"step": "1"})
		e.filtered(map[string]any{"flag": true}, 3)
		e.filtered(map[string]any{"flag": 1}) // true is not 1
		e.filtered(map[string]any{"list": []any{1, "x"}}, 3)
		e.filtered(map[string]any{"list": []any{1}})
		e.filtered(map[string]any{"writes": map[string]any{"foo": "bar", "more": 1}})
	}},
	{id: "LST-12", name: "filter and before together", fn: func(e *env) {
		md := saver.Metadata{"source": "input", "step": 2, "writes": map[string]any{}, "score": 1}
		e.put(step{id: id(1), md: md})
		e.put(step{id: id(2), md: md})
		e.put(step{id: id(0), md: saver.Metadata{"source": "input", "step": 2, "writes": map[string]any{"a": 1}, "score": 1}})
		e.listed(saver.Query{Before: id(2), Filter: md}, 1)
	}},
	{id: "LST-13", name: "filter keys", fn: func(e *env) {
		e.put(step{id: id(1), md: saver.Metadata{"access-level": "a", "123abc": 1, "user": map[string]any{"access-level": "b",
			"deep": map[string]any{"er": nil}}, "a.b": "flat"}})
		e.filtered(map[string]any{"access-level": "a"}, 1)
		e.filtered(map[string]any{"123abc": 1}, 1)
		e.filtered(map[string]any{"user.access-level": "b"}, 1)
		e.filtered(map[string]any{"user.access-level": "a"})
		e.filtered(map[string]any{"user.deep": map[string]any{"er": nil}}, 1)
		e.filtered(map[string]any{"a.b": "flat"}, 1)
		for _, key := range []string{"", "a b", "a'b", "x') OR 1=1 --", "a\x00", "ä", "a/b", "$.a"} {
			e.refusesList(saver.Query{Filter: map[string]any{key: 1}})
		}
	}},
	{id: "list", name: "one id in all namespaces", fn: func(e *env) {
		e.put(step{id: id(1)})
		e.put(step{id: id(1), ns: "child"})
		e.put(step{id: id(2)})
		e.listed(saver.Query{ThreadID: "t", CheckpointID: id(1)}, 1, 1)
		e.listed(saver.Query{ThreadID: "t", CheckpointID: id(3)})
	}},
	{id: "list", name: "full tuples", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": 1}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"b": 2}, vers: map[string]any{"a": 1, "b": 1}, fresh: []string{"b"}})
		e.write(at(2), "task", "ch", "v")
		tups := e.list(saver.Query{ThreadID: "t"})
		e.values(tups[0], map[string]any{"a": 1, "b": 2})
		e.values(tups[1], map[string]any{"a": 1})
		e.pending(tups[0], "task", "ch", "v")
		e.equal("parent", *tups[0].Parent, at(1))
		e.equal("config", tups[0].Config, at(2))
	}},
	{id: "list", name: "one moment, whatever happens meanwhile", fn: func(e *env) {
		e.four()
		var got []any
		for tup, err := range e.s.List(e.ctx, saver.Query{ThreadID: "t"}) {
			e.ok("list", err)
			e.pending(tup)
			e.put(step{id: id(-1 + 0x100 - len(got))})
			e.write(at(0), "task", "ch", "v")
			e.put(step{id: id(1), md: saver.Metadata{"step": "replaced"}})
			got = append(got, tup.Metadata["step"])
		}
		e.equal("steps", got, []any{3, 2, 1, 0})
		e.equal("afterwards", len(e.list(saver.Query{ThreadID: "t"})), 8)
	}},
	{id: "list", name: "stopping early", fn: func(e *env) {
		e.chain(1, 3)
		for range e.s.List(e.ctx, saver.Query{ThreadID: "t"}) {
			break
		}
		e.ok("delete afterwards", e.s.DeleteThread(e.ctx, "t"))
	}},
}
