package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/store"
)

// moves moves a namespace and checks how many items that took, and which were left; dry runs say the same before.
func (e *env) moves(from, to string, moved int, left ...string) {
	e.Helper()
	for _, dry := range []bool{true, false} {
		rep, err := e.s.(store.Mover).Move(e.ctx, ns(from), ns(to), dry)
		e.ok(err)
		if rep.Moved != moved || !slices.Equal(rep.Left, left) {
			e.Errorf("dry %v: moved %+v, want %d, and %q left", dry, rep, moved, left)
		}
	}
}

var moveCases = []testCase{
	{id: "move", name: "an item moves as it is", opts: indexed("", "text"), fn: func(e *env) {
		e.put("a/b", "1", text("aaa"), store.TTL(90*time.Second))
		e.put("a/b", "2", value{"text": "bbb", "list": []any{int64(1), 2.5, "\x00", nil}})
		e.put("a/b", "3", text("aab"), store.NoIndex(), store.TTL(time.Hour))
		e.put("a/b", "4", value{"x": "abb"}, store.IndexFields("x"))
		e.put("a/b/c", "below", text("aaa"))
		e.put("a", "above", text("aaa"))
		e.clock.pass(time.Minute)
		before := map[string]store.Item{}
		for _, f := range e.search(store.Query{Prefix: ns("a/b"), NoRefresh: true}) {
			before[f.Key] = f.Item
		}
		e.moves("a/b", "x%2E/b", 4)
		for key, it := range before {
			if key == "below" {
				continue
			}
			e.gone("a/b", key)
			it.Namespace = ns("x%2E/b")
			e.equal("item", *e.get("x%2E/b", key, store.NoRefresh()), it)
		}
		found := e.search(store.Query{Prefix: ns("x%2E"), Text: "a", NoRefresh: true})
		for i, want := range []string{"1", "4", "2", "3"} { // the last has no vector
			if found[i].Key != want || found[i].Scored != (want != "3") {
				e.Errorf("found %+v as %d, want %s", found[i], i, want)
			}
		}
		e.lists(store.NamespaceQuery{}, "a", "a/b/c", "x%2E/b")
		e.moves("a/b", "x%2E/b", 0)
		e.get("x%2E/b", "1") // renews it
		e.clock.pass(80 * time.Second)
		e.get("x%2E/b", "1")
		e.clock.pass(2 * time.Hour)
		e.gone("x%2E/b", "1")
		e.gone("x%2E/b", "3")
		e.finds(store.Query{Prefix: ns("x%2E/b"), ByKey: true}, "2", "4")
	}},
	{id: "move", name: "what is in the way stays", opts: indexed("", "text"), fn: func(e *env) {
		for _, key := range []string{"equal", "other", "type", "free"} {
			e.put("a", key, value{"text": "old", "n": int64(1)})
		}
		e.put("b", "equal", value{"text": "old", "n": int64(1)}, store.TTL(time.Hour))
		e.put("b", "other", value{"text": "new", "n": int64(1)})
		e.put("b", "type", value{"text": "old", "n": 1.0})
		e.put("b", "theirs", value{})
		kept := e.get("b", "equal", store.NoRefresh())
		e.moves("a", "b", 2, "other", "type")
		e.finds(store.Query{Prefix: ns("a"), ByKey: true}, "other", "type")
		e.finds(store.Query{Prefix: ns("b"), ByKey: true, NoRefresh: true}, "equal", "free", "other", "theirs", "type")
		e.equal("the one in its place", *e.get("b", "equal", store.NoRefresh()), *kept)
		e.equal("value", e.get("b", "other").Value, value{"text": "new", "n": int64(1)})
		e.delete("b", "other")
		e.moves("a", "b", 1, "type")
		e.equal("value", e.get("b", "other").Value, value{"text": "old", "n": int64(1)})
	}},
	{id: "move", name: "what has expired is in nobody's way", fn: func(e *env) {
		e.put("a", "1", value{"n": int64(1)})
		e.put("a", "2", value{"n": int64(2)}, store.TTL(time.Minute))
		e.put("b", "1", value{"n": int64(3)}, store.TTL(time.Minute))
		e.clock.pass(time.Hour)
		e.put("b", "2", value{"n": int64(4)})
		e.moves("a", "b", 2)
		e.equal("value", e.get("b", "1").Value, value{"n": int64(1)})
		e.equal("value", e.get("b", "2").Value, value{"n": int64(4)})
		e.lists(store.NamespaceQuery{}, "b")
	}},
	{id: "move", name: "many items, and bad namespaces", fn: func(e *env) {
		var ops []store.Op
		for i := range 1201 {
			ops = append(ops, store.PutOp{Namespace: ns("a"), Key: fmt.Sprintf("%04d", i), Value: value{"n": int64(i)}})
		}
		_, err := e.s.Batch(e.ctx, ops...)
		e.ok(err)
		e.put("b", "0700", value{})
		e.moves("a", "b", 1200, "0700")
		if found := e.search(store.Query{Prefix: ns("b"), Limit: store.NoLimit}); len(found) != 1201 {
			e.Errorf("%d items", len(found))
		}
		for _, to := range []store.Namespace{nil, {""}, {"a.b"}, {"langgraph"}, {"a"}} {
			_, err := e.s.(store.Mover).Move(e.ctx, ns("a"), to, false)
			e.refused(fmt.Sprintf("to %q", to), err, store.ErrInvalid)
		}
		e.moves("nowhere", "b", 0)
	}},
}
