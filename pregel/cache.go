package pregel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stele-go/stele/serde"
)

// CacheKey names what a node makes of one input. NS groups the entries of a
// node, so that they can be cleared together.
type CacheKey struct{ NS, Key string }

// CacheEntry is what a task wrote: pairs of channel and value.
type CacheEntry []Pair

// Cache keeps what finished tasks wrote. Only successes are kept. All methods
// are safe for concurrent use. An error of Get counts as a miss.
type Cache interface {
	// Get returns the entries that are kept under keys; a missing key is a miss.
	Get(ctx context.Context, keys []CacheKey) (map[CacheKey]CacheEntry, error)
	// Set keeps an entry for ttl, for ever if it is 0.
	Set(ctx context.Context, key CacheKey, entry CacheEntry, ttl time.Duration) error
	// Clear removes the entries of these groups.
	Clear(ctx context.Context, namespaces ...string) error
}

type cacheKey struct {
	CacheKey
	ttl time.Duration
}

// cacheKeyOf identifies what node makes of input; nil without a policy.
func cacheKeyOf(graph, node string, p *CachePolicy, input any) (*cacheKey, error) {
	if p == nil {
		return nil, nil
	}
	var id string
	if p.Key != nil {
		var err error
		if id, err = p.Key(input); err != nil {
			return nil, fmt.Errorf("cache key: %w", err)
		}
	} else {
		typed, err := serde.Default().Encode(input)
		if err != nil {
			return nil, fmt.Errorf("cache key: %w", err)
		}
		id = typed.Kind + ":" + string(typed.Data)
	}
	return &cacheKey{CacheKey{NS: cacheGroup(graph, node), Key: hexHash(id)}, p.TTL}, nil
}

// callGroup stands for the graph in the cache groups of called functions, which
// all graphs share.
const callGroup = "call"

func cacheGroup(graph, node string) string { return cacheNS + "," + graph + "," + node }

// MemoryCache is a Cache in memory. The zero value is ready.
type MemoryCache struct {
	// Now is the clock of expiry; nil is the system's.
	Now func() time.Time

	mu      sync.Mutex
	entries map[CacheKey]memoryEntry
}

type memoryEntry struct {
	entry   CacheEntry
	expires time.Time // zero: never
}

func (c *MemoryCache) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Get implements Cache.
func (c *MemoryCache) Get(_ context.Context, keys []CacheKey) (map[CacheKey]CacheEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[CacheKey]CacheEntry{}
	now := c.now()
	for _, k := range keys {
		e, ok := c.entries[k]
		if ok && !e.expires.IsZero() && !now.Before(e.expires) {
			delete(c.entries, k)
			continue
		}
		if ok {
			out[k] = e.entry
		}
	}
	return out, nil
}

// Set implements Cache.
func (c *MemoryCache) Set(_ context.Context, key CacheKey, entry CacheEntry, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := memoryEntry{entry: entry}
	if ttl > 0 {
		e.expires = c.now().Add(ttl)
	}
	if c.entries == nil {
		c.entries = map[CacheKey]memoryEntry{}
	}
	c.entries[key] = e
	return nil
}

// Clear implements Cache.
func (c *MemoryCache) Clear(_ context.Context, namespaces ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ns := range namespaces {
		for k := range c.entries {
			if k.NS == ns {
				delete(c.entries, k)
			}
		}
	}
	return nil
}

// ClearCache forgets what was kept for nodes, or for all of them if none are
// named. Without a cache it is ErrNoCache.
func (g *Graph) ClearCache(ctx context.Context, nodes ...string) error {
	if g.opts.Cache == nil {
		return fmt.Errorf("clear cache of %q: %w", g.opts.Name, ErrNoCache)
	}
	if len(nodes) == 0 {
		nodes = g.order
	}
	groups := make([]string, len(nodes))
	for i, n := range nodes {
		groups[i] = cacheGroup(g.opts.Name, n)
	}
	return g.opts.Cache.Clear(ctx, groups...)
}

// setCacheKey finds out whether t's result may be kept.
func (l *loop) setCacheKey(t *task) error {
	if l.cache() == nil {
		return nil
	}
	policy, group := l.g.opts.CachePolicy, l.g.opts.Name
	switch {
	case t.call != nil:
		policy, group = t.call.cache, callGroup
	case t.node.Handler:
		policy = t.node.Cache
	case t.node.Cache != nil:
		policy = t.node.Cache
	}
	key, err := cacheKeyOf(group, t.name, policy, t.input)
	t.cacheKey = key
	return err
}

func (l *loop) cache() Cache {
	for x := l; ; x = x.parent.step.l {
		if x.g.opts.Cache != nil || x.parent == nil {
			return x.g.opts.Cache
		}
	}
}

// matchCache gives tasks that have not run what the cache keeps for them.
func (l *loop) matchCache(ctx context.Context, tasks ...*task) error {
	c := l.cache()
	if c == nil {
		return nil
	}
	var keys []CacheKey
	for _, t := range tasks {
		if len(t.writes) > 0 {
			continue
		}
		if err := l.setCacheKey(t); err != nil {
			return fmt.Errorf("node %q: %w", t.name, err)
		}
		if t.cacheKey != nil {
			keys = append(keys, t.cacheKey.CacheKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := c.Get(ctx, keys)
	if err != nil {
		l.env().Logger.Warn("cache lookup failed", "graph", l.g.opts.Name, "err", err)
		return nil
	}
	for _, t := range tasks {
		if t.cacheKey == nil || len(t.writes) > 0 {
			continue
		}
		if entry, ok := found[t.cacheKey.CacheKey]; ok {
			for _, p := range entry {
				t.writes = append(t.writes, write{p.Key, p.Value})
			}
			t.cached = true
			if err := l.putWrites(t, t.id, t.writes); err != nil {
				return err
			}
			l.emitWrites(t, t.writes, true)
		}
	}
	return nil
}

// keepInCache keeps what t wrote.
func (l *loop) keepInCache(ctx context.Context, t *task) {
	c := l.cache()
	if c == nil || t.cacheKey == nil {
		return
	}
	entry := make(CacheEntry, len(t.writes))
	for i, w := range t.writes {
		entry[i] = Pair{w.channel, w.value}
	}
	if err := c.Set(ctx, t.cacheKey.CacheKey, entry, t.cacheKey.ttl); err != nil {
		l.env().Logger.Warn("cache store failed", "graph", l.g.opts.Name, "node", t.name, "err", err)
	}
}
