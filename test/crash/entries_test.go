package crash

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store/cache"
)

// cacher is a saver with a cache beside its checkpoints.
type cacher interface{ kept() cache.Cache }

func (d *opened) kept() cache.Cache { return d.cache }
func (m *model) kept() cache.Cache  { return m.cache }

var (
	_ cacher = (*opened)(nil)
	_ cacher = (*model)(nil)
)

// groups and keys are few, so that entries are replaced.
const cacheGroups, cacheKeys = 2, 3

func cacheKey(group, key int) cache.Key {
	return cache.Key{NS: fmt.Sprint("group", group), Key: fmt.Sprint("key", key)}
}

// entries keeps some entries in the cache, or clears a group. They have no TTL:
// what is there depends on the calls alone, not on when it is looked at.
func (g *generator) entries() step {
	group := g.rng.IntN(cacheGroups)
	if g.rng.IntN(4) == 0 {
		name := cacheKey(group, 0).NS
		return step{what: "clear " + name, kind: kindDelete, call: func(ctx context.Context, s full) error {
			return s.(cacher).kept().Clear(ctx, name)
		}}
	}
	var list []cache.Entry
	for range 1 + g.rng.IntN(2) {
		key := cacheKey(group, g.rng.IntN(cacheKeys))
		list = append(list, cache.Entry{Key: key, Value: serde.Typed{Kind: "bytes", Data: g.data(g.size() / 2)}})
	}
	return step{what: fmt.Sprintf("keep %d entries", len(list)), kind: kindAppend, call: func(ctx context.Context, s full) error {
		return s.(cacher).kept().Set(ctx, list...)
	}}
}

// allEntries are the keys that a program may use.
var allEntries = func() (keys []cache.Key) {
	for group := range cacheGroups {
		for key := range cacheKeys {
			keys = append(keys, cacheKey(group, key))
		}
	}
	return keys
}()

// entries adds what the cache keeps to the dump.
func (d *dumper) entries(c cache.Cache) error {
	got, err := c.Get(d.ctx, allEntries...)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	for _, at := range allEntries {
		if v, ok := got[at]; ok {
			d.line("entry %s %s %s %d %016x", at.NS, at.Key, v.Kind, len(v.Data), xxhash.Sum64(v.Data))
		}
	}
	return nil
}
