package store

import (
	"cmp"
	"context"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/serde"
)

// backend stores the items of a Local, in memory or on the engine. Its namespaces are keys
// that idOf made.
type backend interface {
	// get returns the current item and its value. The value is nil if there is no item
	// or live is false for it.
	get(ctx context.Context, ns, key string, live func(meta) bool) (entry, map[string]any, error)
	// view is a consistent view of the store as it is now.
	view(ctx context.Context) (view, error)
	// commit makes all changes or none. No two are of the same item.
	commit(ctx context.Context, changes []change) error
	// commitOver is commit if the item under a key was put, or last read, at updated; else it makes none, and returns errReplaced.
	commitOver(ctx context.Context, ns, key string, updated int64, changes []change) error
	// append makes the changes of an Append, with keys in the order of its commits.
	append(ctx context.Context, changes []change) error
	// sync makes durable what was committed before, also what ctx of DeferSync put off.
	sync(ctx context.Context) error
	// renew stores the expiry that entries have now, except for items that were replaced
	// since they were read.
	renew(ctx context.Context, entries []entry) error
	// sweep removes what has expired.
	sweep(ctx context.Context) (int, error)
	// now is the clock's time in unix µs.
	now() int64
}

// view is a consistent view of a store. It must be released.
type view interface {
	get(ns, key string) (entry, bool, error)
	// spaces calls fn for the namespaces at prefix and below, from an id on, in order, until it
	// returns false or an error.
	spaces(prefix, from string, fn func(space) (bool, error)) error
	// read is the value of an entry of this view.
	read(ctx context.Context, en *entry) (map[string]any, error)
	release()
}

// space is one namespace in a view.
type space interface {
	id() string
	// expiring reports whether some of its items may have expired.
	expiring() bool
	// items calls fn for its items in the order of keys. The entry is reused for the
	// next item, so fn must copy what it keeps.
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
	item *index.Entry
	mem  *memoryItem // in memory
}

// change is a PutOp, checked and serialized.
type change struct {
	ns, key string
	remove  bool
	value   serde.Typed
	summary []byte
	vectors [][]float32
	ttl     int64 // µs; 0: for ever
	times   *meta // of an item that is restored; nil: those of a put
}

// timesOf are the times of an item that c puts at now, in place of old if that is not nil.
func (c *change) timesOf(now int64, old *meta) meta {
	if c.times != nil {
		return *c.times
	}
	m := meta{created: now, updated: now, expires: Expiry(now, c.ttl), ttl: c.ttl}
	if old != nil && old.live(now) {
		m.created = old.created
	}
	return m
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
	return byKey(&a.entry, &b.entry)
}

func byKey(a, b *entry) bool {
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
