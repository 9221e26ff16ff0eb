package storetest

import (
	"errors"
	"reflect"
	"strings"

	"context"

	"github.com/stele-go/stele/store"
)

// env is the environment of a case: one store and helpers that fail the case.
type env struct {
	TB
	s     store.Store
	ctx   context.Context
	clock *clock
}

type value = map[string]any

// ns is a namespace written with slashes.
func ns(path string) store.Namespace {
	if path == "" {
		return store.Namespace{}
	}
	return strings.Split(path, "/")
}

func (e *env) put(path, key string, v value, opts ...store.PutOption) {
	e.Helper()
	if err := e.s.Put(e.ctx, ns(path), key, v, opts...); err != nil {
		e.Fatalf("put %s %s: %v", path, key, err)
	}
}

// puts stores an empty item in each namespace.
func (e *env) puts(paths ...string) {
	e.Helper()
	for _, p := range paths {
		e.put(p, "k", value{})
	}
}

func (e *env) delete(path, key string) {
	e.Helper()
	if err := e.s.Delete(e.ctx, ns(path), key); err != nil {
		e.Fatalf("delete %s %s: %v", path, key, err)
	}
}

func (e *env) get(path, key string, opts ...store.GetOption) *store.Item {
	e.Helper()
	it, err := e.s.Get(e.ctx, ns(path), key, opts...)
	if err != nil {
		e.Fatalf("get %s %s: %v", path, key, err)
	}
	return it
}

// gone checks that there is no such item.
func (e *env) gone(path, key string) {
	e.Helper()
	if it, err := e.s.Get(e.ctx, ns(path), key); !errors.Is(err, store.ErrNotFound) {
		e.Fatalf("get %s %s: got %+v, %v; want ErrNotFound", path, key, it, err)
	}
}

func (e *env) search(q store.Query) []store.Found {
	e.Helper()
	found, err := e.s.Search(e.ctx, q)
	if err != nil {
		e.Fatalf("search %+v: %v", q, err)
	}
	return found
}

// finds checks the keys a search gives, in order, each behind its namespace if
// that is not the prefix.
func (e *env) finds(q store.Query, want ...string) {
	e.Helper()
	var got []string
	for _, f := range e.search(q) {
		key := f.Key
		if len(f.Namespace) > len(q.Prefix) {
			key = strings.Join(f.Namespace, "/") + ":" + key
		}
		got = append(got, key)
	}
	e.equal("search", got, want)
}

// lists checks the namespaces a listing gives, in order.
func (e *env) lists(q store.NamespaceQuery, want ...string) {
	e.Helper()
	found, err := e.s.ListNamespaces(e.ctx, q)
	if err != nil {
		e.Fatalf("list %+v: %v", q, err)
	}
	var got []string
	for _, n := range found {
		got = append(got, strings.Join(n, "/"))
	}
	e.equal("namespaces", got, want)
}

// refused checks that a call failed as it should.
func (e *env) refused(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

// empty checks that nothing is stored.
func (e *env) empty() {
	e.Helper()
	e.finds(store.Query{Limit: store.NoLimit})
	e.lists(store.NamespaceQuery{})
}

func (e *env) equal(what string, got, want any) {
	e.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && w.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}

func (e *env) batch(ops ...store.Op) []store.Result {
	e.Helper()
	res, err := e.s.Batch(e.ctx, ops...)
	if err != nil {
		e.Fatalf("batch: %v", err)
	}
	if len(res) != len(ops) {
		e.Fatalf("%d results for %d operations", len(res), len(ops))
	}
	return res
}

func prefix(path string) store.Match {
	return store.Match{Kind: store.MatchPrefix, Path: ns(path)}
}

func suffix(path string) store.Match {
	return store.Match{Kind: store.MatchSuffix, Path: ns(path)}
}

func matching(m ...store.Match) store.NamespaceQuery { return store.NamespaceQuery{Match: m} }
