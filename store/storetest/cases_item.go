package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/store"
)

var itemCases = []testCase{
	{id: "items", name: "put, get, put again, delete", fn: func(e *env) {
		e.gone("a/b", "k")
		e.put("a/b", "k", value{"text": "one", "n": 1, "f": 1.5, "ok": true, "nil": nil, "list": []any{1, "x"}, "map": value{"deep": value{}}})
		first := e.get("a/b", "k")
		e.equal("value", first.Value, value{"text": "one", "n": int64(1), "f": 1.5, "ok": true, "nil": nil,
			"list": []any{int64(1), "x"}, "map": value{"deep": value{}}})
		e.equal("namespace", first.Namespace, ns("a/b"))
		e.equal("key", first.Key, "k")
		if first.CreatedAt.IsZero() || first.CreatedAt != first.UpdatedAt || first.CreatedAt.Location() != time.UTC {
			e.Errorf("created %v, updated %v", first.CreatedAt, first.UpdatedAt)
		}
		if !first.ExpiresAt.IsZero() {
			e.Errorf("expires %v", first.ExpiresAt)
		}
		e.clock.pass(time.Hour)
		e.put("a/b", "k", value{"text": "two"})
		again := e.get("a/b", "k")
		e.equal("value", again.Value, value{"text": "two"})
		if again.CreatedAt != first.CreatedAt || again.UpdatedAt.Sub(first.UpdatedAt) < time.Hour {
			e.Errorf("put again: created %v, updated %v", again.CreatedAt, again.UpdatedAt)
		}
		e.delete("a/b", "k")
		e.gone("a/b", "k")
		e.delete("a/b", "k")
		e.put("a/b", "k", value{})
		if born := e.get("a/b", "k"); born.CreatedAt != born.UpdatedAt {
			e.Errorf("put after delete: created %v, updated %v", born.CreatedAt, born.UpdatedAt)
		}
	}},
	{id: "items", name: "keys and namespaces are bytes", fn: func(e *env) {
		keys := []string{"", "a", "A", "a\x00", "\x00", "ü", "%", "_", "\xff\xfe", strings.Repeat("k", 2000)}
		for i, k := range keys {
			e.put("a", k, value{"i": int64(i)})
			e.put("a/b", k, value{"i": int64(-i)})
		}
		for i, k := range keys {
			e.equal("value", e.get("a", k).Value, value{"i": int64(i)})
			e.equal("value", e.get("a/b", k).Value, value{"i": int64(-i)})
		}
		e.finds(store.Query{Prefix: ns("a/b"), ByKey: true, Limit: 3}, "", "\x00", "%")
	}},
	{id: "items", name: "values are copies", fn: func(e *env) {
		v := value{"list": []any{"a"}}
		e.put("a", "k", v)
		v["list"].([]any)[0] = "changed"
		v["more"] = true
		got := e.get("a", "k")
		e.equal("value", got.Value, value{"list": []any{"a"}})
		got.Value["list"].([]any)[0] = "changed"
		got.Namespace[0] = "changed"
		e.equal("value", e.get("a", "k").Value, value{"list": []any{"a"}})
		found := e.search(store.Query{})
		found[0].Value["list"].([]any)[0] = "changed"
		e.equal("value", e.search(store.Query{})[0].Value, value{"list": []any{"a"}})
	}},
	{id: "items", name: "large values", fn: func(e *env) {
		big := strings.Repeat("0123456789abcdef", 1<<16)
		e.put("a", "big", value{"text": big})
		e.equal("value", e.get("a", "big").Value, value{"text": big})
		e.finds(store.Query{Filter: value{"text": big}}, "a:big")
	}},
	{id: "items", name: "concurrent writers and readers", fn: func(e *env) {
		const writers, each = 8, 20
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					key := string(rune('a' + w))
					if err := e.s.Put(e.ctx, ns("shared"), key, value{"i": i, "w": w}); err != nil {
						e.Errorf("put: %v", err)
					}
					if found, err := e.s.Search(e.ctx, store.Query{Prefix: ns("shared"), Filter: value{"w": w}}); err != nil || len(found) != 1 {
						e.Errorf("search: %d found, %v", len(found), err)
					}
				}
			})
		}
		wg.Wait()
		if found := e.search(store.Query{Prefix: ns("shared"), Filter: value{"i": each - 1}}); len(found) != writers {
			e.Errorf("%d of %d writers are seen", len(found), writers)
		}
	}},
	{id: "STO-08", name: "prefixes are whole labels", fn: func(e *env) {
		e.puts("a", "a/b", "ab", "a/b/c", "A", "A/b")
		e.finds(store.Query{Prefix: ns("a"), ByKey: true}, "k", "a/b:k", "a/b/c:k")
		e.finds(store.Query{Prefix: ns("A"), ByKey: true}, "k", "A/b:k")
		e.finds(store.Query{Prefix: ns("a/b"), ByKey: true}, "k", "a/b/c:k")
		e.finds(store.Query{ByKey: true}, "A:k", "A/b:k", "a:k", "a/b:k", "a/b/c:k", "ab:k")
		e.finds(store.Query{Prefix: ns("b")})
	}},
	{id: "STO-08", name: "nothing in a prefix is a pattern", fn: func(e *env) {
		e.puts("a%", "a_", "ab", "a*", "[a]", "a?")
		for _, p := range []string{"a%", "a_", "ab", "a*", "[a]", "a?"} {
			e.finds(store.Query{Prefix: ns(p)}, "k")
		}
	}},
	{id: "STO-08", name: "newest first", fn: func(e *env) {
		e.put("a", "1", value{})
		e.put("b", "2", value{})
		e.put("a", "3", value{})
		e.put("b", "2", value{"again": true})
		e.finds(store.Query{}, "b:2", "a:3", "a:1")
		e.finds(store.Query{Limit: 1, Offset: 1}, "a:3")
		e.finds(store.Query{Offset: 3})
		e.finds(store.Query{Offset: store.NoLimit, Limit: store.NoLimit})
		e.finds(store.Query{ByKey: true, Offset: 1, Limit: 1}, "a:3")
	}},
	{id: "STO-08", name: "ten by default", fn: func(e *env) {
		for i := range 12 {
			e.put("a", string(rune('a'+i)), value{"i": i})
		}
		if n := len(e.search(store.Query{})); n != store.DefaultLimit {
			e.Errorf("%d results", n)
		}
		if n := len(e.search(store.Query{Limit: store.NoLimit})); n != 12 {
			e.Errorf("%d results without a limit", n)
		}
	}},
}
