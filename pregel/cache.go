package pregel

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store/cache"
)

type cacheKey struct {
	cache.Key
	ttl time.Duration
}

// cacheKeyOf identifies the result of a node for an input; nil without a policy.
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
	return &cacheKey{cache.Key{NS: cacheGroup(graph, node), Key: hexHash(id)}, p.TTL}, nil
}

// callGroup takes the place of the graph in the cache groups of called functions. All graphs
// share these groups.
const callGroup = "call"

func cacheGroup(graph, node string) string { return cacheNS + "," + graph + "," + node }

// ClearCache deletes the cached results of these nodes, or of all nodes if none are named. Without a
// cache the error is ErrNoCache.
func (g *Graph) ClearCache(ctx context.Context, nodes ...string) error {
	g.mustBe()
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

// setCacheKey sets t's cache key, if its result may be cached.
func (r *runConfig) setCacheKey(t *task) error {
	if r.cache == nil {
		return nil
	}
	policy, group := r.g.spec.CachePolicy, r.g.opts.Name
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

// encodeKept serializes writes as a list of pairs of channel and value.
func (e *encoder) encodeKept(writes []write) (serde.Typed, error) {
	pairs := make([]any, len(writes))
	for i, w := range writes {
		pairs[i] = []any{w.channel, w.value}
	}
	return e.plainCodec().Encode(pairs)
}

// decodeKept is the inverse of encodeKept. It accepts any bytes, because a cache may return
// anything.
func (e *encoder) decodeKept(typed serde.Typed) ([]write, error) {
	v, err := e.plainCodec().Decode(typed)
	if err != nil {
		return nil, err
	}
	pairs, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list of writes, got %T", v)
	}
	writes := make([]write, len(pairs))
	for i, p := range pairs {
		pair, ok := p.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("write %d is no pair", i)
		}
		if writes[i].channel, ok = pair[0].(string); !ok {
			return nil, fmt.Errorf("channel %d: want string, got %T", i, pair[0])
		}
		writes[i].value = pair[1]
	}
	return writes, nil
}
