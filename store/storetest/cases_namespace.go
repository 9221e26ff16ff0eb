package storetest

import (
	"fmt"

	"github.com/stele-go/stele/store"
)

var namespaceCases = []testCase{
	{id: "STO-01", name: "conditions", fn: func(e *env) {
		e.puts("a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f", "a/c/f", "b/a/f", "users/123", "users/456/settings", "admin/users/789")
		e.lists(matching(prefix("a/b")), "a/b/c", "a/b/d/e", "a/b/d/i", "a/b/f")
		e.lists(matching(suffix("f")), "a/b/f", "a/c/f", "b/a/f")
		e.lists(matching(prefix("a"), suffix("f")), "a/b/f", "a/c/f")
		e.lists(store.NamespaceQuery{Match: []store.Match{prefix("a/b")}, MaxDepth: 3}, "a/b/c", "a/b/d", "a/b/f")
		e.lists(store.NamespaceQuery{Match: []store.Match{prefix("a/b")}, Limit: 2}, "a/b/c", "a/b/d/e")
		e.lists(store.NamespaceQuery{Match: []store.Match{prefix("a/b")}, Offset: 2}, "a/b/d/i", "a/b/f")
		e.lists(matching(prefix("a/*/f")), "a/b/f", "a/c/f")
		e.lists(matching(suffix("*/f")), "a/b/f", "a/c/f", "b/a/f")
		e.lists(matching(prefix("nonexistent")))
		e.lists(matching(prefix("users/123")), "users/123")
	}},
	{id: "STO-02", name: "a wildcard is one label", fn: func(e *env) {
		e.puts("users/123", "users/456", "users/789/settings", "admin/users/789", "guests/123", "guests/456/preferences")
		e.lists(matching(prefix("users/*")), "users/123", "users/456", "users/789/settings")
		e.lists(matching(suffix("*/preferences")), "guests/456/preferences")
		e.lists(matching(prefix("*/users"), suffix("*/settings")))
		e.lists(matching(prefix("*/*/*/*")))
		e.lists(matching(prefix("*"), suffix("*"), prefix("guests")), "guests/123", "guests/456/preferences")
	}},
	{id: "STO-02", name: "an empty condition holds", fn: func(e *env) {
		e.puts("a", "b")
		e.lists(matching(prefix(""), suffix("")), "a", "b")
	}},
	{id: "STO-03", name: "depth", fn: func(e *env) {
		e.puts("a/b/c/d", "a/b/c/e", "a/b/f", "a/g", "h/i/j/k")
		e.lists(store.NamespaceQuery{MaxDepth: 2}, "a/b", "a/g", "h/i")
		e.lists(store.NamespaceQuery{MaxDepth: 1}, "a", "h")
		e.lists(store.NamespaceQuery{MaxDepth: 2, Offset: 1, Limit: 1}, "a/g")
		e.lists(store.NamespaceQuery{MaxDepth: 9}, "a/b/c/d", "a/b/c/e", "a/b/f", "a/g", "h/i/j/k")
	}},
	{id: "STO-03", name: "pages", fn: func(e *env) {
		var all []string
		for i := range 15 {
			all = append(all, fmt.Sprintf("namespace/%02d", i))
		}
		for i := range all {
			e.puts(all[(i*7)%15])
		}
		for page := range 3 {
			e.lists(store.NamespaceQuery{Limit: 5, Offset: 5 * page}, all[5*page:5*page+5]...)
		}
		e.lists(store.NamespaceQuery{Limit: 5, Offset: 15})
		e.lists(store.NamespaceQuery{Offset: 14, Limit: store.NoLimit}, all[14])
	}},
	{id: "STO-03", name: "a hundred by default", fn: func(e *env) {
		for i := range 110 {
			e.puts(fmt.Sprintf("n/%03d", i))
		}
		if n := len(e.batch(store.NamespaceQuery{})[0].Namespaces); n != store.DefaultNamespaces {
			e.Fatalf("%d namespaces", n)
		}
	}},
	{id: "namespaces", name: "sorted label by label", fn: func(e *env) {
		e.puts("a/b", "a", "a!/b", "ab", "a/b/c", "B", "é", "a\x00/b", "a/\x00", "a/\xff")
		e.lists(store.NamespaceQuery{}, "B", "a", "a/\x00", "a/b", "a/b/c", "a/\xff", "a\x00/b", "a!/b", "ab", "é")
	}},
	{id: "namespaces", name: "listed while they have items", fn: func(e *env) {
		e.puts("a", "b")
		e.gone("c", "k")
		e.finds(store.Query{Prefix: ns("d")})
		e.lists(store.NamespaceQuery{}, "a", "b")
		e.delete("a", "k")
		e.lists(store.NamespaceQuery{}, "b")
		e.puts("a")
		e.lists(store.NamespaceQuery{}, "a", "b")
	}},
	{id: "STO-04", name: "invalid namespaces", fn: func(e *env) {
		for _, bad := range []store.Namespace{nil, {}, {"a.b"}, {"a", "b.c"}, {""}, {"a", ""}, {"langgraph"}, {"langgraph", "x"}} {
			err := e.s.Put(e.ctx, bad, "k", value{"a": 1})
			e.refused(fmt.Sprintf("put into %q", []string(bad)), err, store.ErrNamespace)
			e.refused("the same", err, store.ErrInvalid)
		}
		e.empty()
		e.puts("foo/langgraph/foo")
		e.get("foo/langgraph/foo", "k")
	}},
	{id: "STO-04", name: "reads, deletes and batches take any", fn: func(e *env) {
		for i, n := range []store.Namespace{{"langgraph", "x"}, {"a.b"}, {""}, {}} {
			e.gone("none", "k")
			if err := e.s.Delete(e.ctx, n, "k"); err != nil {
				e.Fatalf("delete in %q: %v", []string(n), err)
			}
			e.batch(store.PutOp{Namespace: n, Key: "k", Value: value{"i": int64(i)}})
			it, err := e.s.Get(e.ctx, n, "k")
			if err != nil {
				e.Fatalf("get in %q: %v", []string(n), err)
			}
			e.equal("value", it.Value, value{"i": int64(i)})
			e.equal("namespace", []string(it.Namespace), []string(n))
		}
		e.finds(store.Query{Prefix: store.Namespace{"langgraph"}}, "langgraph/x:k")
	}},
}
