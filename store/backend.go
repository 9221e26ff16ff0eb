package store

import (
	"cmp"
	"context"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/serde"
)

// backend keeps the items of a Local: in memory, or on the engine. Namespaces are
// keys as idOf gives them.
type backend interface {
	// get is an item as it is now, with its value; a nil value if there is none,
	// or none that live is true of.
	get(ctx context.Context, ns, key string, live func(meta) bool) (entry, map[string]any, error)
	// view is everything at this moment.
	view() (view, error)
	// commit makes changes, of different items, all or nothing.
	commit(ctx context.Context, changes []change) error
	// renew gives entries the expiry that renewal says, unless they changed.
	renew(ctx context.Context, entries []entry) error
	// sweep removes what has expired.
	sweep(ctx context.Context) (int, error)
	// now is the clock's time in unix µs.
	now() int64
}

// view is a store at one moment; it must be released.
type view interface {
	get(ns, key string) (entry, bool, error)
	// spaces calls fn for the namespaces at prefix and below, in order, until it
	// returns false or an error.
	spaces(prefix string, fn func(space) (bool, error)) error
	// read is the value of an entry of this view.
	read(ctx context.Context, en *entry) (map[string]any, error)
	release()
}

// space is a namespace of a view.
type space interface {
	id() string
	// expiring reports whether items of it may have expired.
	expiring() bool
	// items calls fn for its items in the order of keys. fn must copy the entry
	// to keep it: the next one is written over it.
	items(fn func(*entry) (bool, error)) error
	// nearest offers the items that have vectors and pass accept to top. accept
	// is called concurrently.
	nearest(ctx context.Context, s *scorer, accept func(*entry) (bool, error), top *best[hit]) error
}

// entry is an item without its value.
type entry struct {
	ns, key string
	meta    meta
	summary string

	fam  *index.Family // on the engine: where the value is
	item *index.Item
	mem  *memoryItem // in memory
}

// change is a PutOp made ready.
type change struct {
	ns, key string
	remove  bool
	value   serde.Typed
	summary []byte
	vectors [][]float32
	ttl     int64 // µs; 0: for ever
}

// hit is what a search found.
type hit struct {
	entry
	score  float32
	scored bool
}

// newestFirst is the order of a search without a query.
func newestFirst(a, b hit) bool {
	if a.meta.updated != b.meta.updated {
		return a.meta.updated > b.meta.updated
	}
	return byKey(a, b)
}

func byKey(a, b hit) bool {
	return cmp.Or(strings.Compare(a.ns, b.ns), strings.Compare(a.key, b.key)) < 0
}

// nearestFirst is the order of a search with a query.
func nearestFirst(a, b hit) bool {
	switch {
	case a.scored != b.scored:
		return a.scored
	case a.scored && a.score != b.score:
		return a.score > b.score
	}
	return newestFirst(a, b)
}
