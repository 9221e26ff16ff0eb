package storetest

import (
	"context"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

var badCases = []testCase{
	{id: "bad input", name: "limits", fn: func(e *env) {
		long := strings.Repeat("x", 1<<12)
		for what, err := range map[string]error{
			"long key":       e.s.Put(e.ctx, ns("a"), long, value{}),
			"long label":     e.s.Put(e.ctx, store.Namespace{long}, "k", value{}),
			"many labels":    e.s.Put(e.ctx, ns(strings.Repeat("a/", 99)+"a"), "k", value{}),
			"large value":    e.s.Put(e.ctx, ns("a"), "k", value{"v": make([]byte, 65<<20)}),
			"delete of such": e.s.Delete(e.ctx, ns("a"), long),
		} {
			e.refused(what, err, saver.ErrTooLarge)
		}
		_, err := e.s.Get(e.ctx, ns("a"), long)
		e.refused("get of such", err, saver.ErrTooLarge)
		e.empty()
	}},
	{id: "bad input", name: "nil and what has no form", fn: func(e *env) {
		e.refused("put of nil", e.s.Put(e.ctx, ns("a"), "k", nil), store.ErrInvalid)
		if err := e.s.Put(e.ctx, ns("a"), "k", value{"f": func() {}}); err == nil {
			e.Errorf("a func is stored")
		}
		if err := e.s.Put(e.ctx, ns("a"), "k", cyclic()); err == nil {
			e.Errorf("a cycle is stored")
		}
		e.empty()
	}},
	{id: "bad input", name: "queries", fn: func(e *env) {
		for _, q := range []store.Query{{Limit: -1}, {Offset: -1}} {
			_, err := e.s.Search(e.ctx, q)
			e.refused("search", err, store.ErrInvalid)
		}
		for _, q := range []store.NamespaceQuery{{Limit: -1}, {Offset: -1}, {MaxDepth: -1}, matching(store.Match{Kind: "infix"})} {
			_, err := e.s.ListNamespaces(e.ctx, q)
			e.refused("list", err, store.ErrInvalid)
		}
	}},
	{id: "bad input", name: "a context that ended", fn: func(e *env) {
		e.put("a", "k", value{"v": 1})
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_, get := e.s.Get(ctx, ns("a"), "k")
		_, search := e.s.Search(ctx, store.Query{})
		_, list := e.s.ListNamespaces(ctx, store.NamespaceQuery{})
		_, batch := e.s.Batch(ctx, store.PutOp{Namespace: ns("a"), Key: "k"})
		for what, err := range map[string]error{"get": get, "search": search, "list": list, "batch": batch,
			"put": e.s.Put(ctx, ns("a"), "k", value{}), "delete": e.s.Delete(ctx, ns("a"), "k")} {
			e.refused(what, err, context.Canceled)
		}
		e.equal("value", e.get("a", "k").Value, value{"v": int64(1)})
	}},
}
