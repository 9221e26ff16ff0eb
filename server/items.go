package server

import (
	"errors"
	"slices"
	"strings"

	"github.com/stele-go/stele/store"
)

// itemAPI has the operations on items of the store.
type itemAPI struct{ store store.Store }

// shownItem is an item of the store as clients see it.
type shownItem struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key"`
	Value     map[string]any  `json:"value"`
	CreatedAt string          `json:"created_at"`
	UpdatedAt string          `json:"updated_at"`
}

func (s *itemAPI) shown(c *call, it *store.Item) shownItem {
	return shownItem{s.outside(c, it.Namespace), it.Key, it.Value, stamped(it.CreatedAt), stamped(it.UpdatedAt)}
}

// inside returns the namespace of the store for a client's namespace. Labels with a dot and reserved
// labels are refused.
func (s *itemAPI) inside(c *call, labels []string) (store.Namespace, error) {
	for _, l := range labels {
		if l == "" || strings.Contains(l, ".") {
			return nil, fail(422, "Namespace label '%s' must be a non-empty string without periods", l)
		}
	}
	ns := slices.Concat(c.grant.Namespace, store.Namespace(labels))
	if s.hides(c, ns) {
		return nil, fail(422, "Namespace label '%s' is reserved", ns[0])
	}
	return ns, nil
}

// outside is a namespace as a client sees it.
func (s *itemAPI) outside(c *call, ns store.Namespace) store.Namespace {
	return ns[len(c.grant.Namespace):]
}

func (s *itemAPI) put(c *call) error {
	ns, err := s.inside(c, c.body.texts("namespace"))
	if err != nil {
		return err
	}
	if len(c.body.texts("namespace")) == 0 {
		return fail(400, "Namespace cannot be empty.")
	}
	var opts []store.PutOption
	switch index := c.body["index"].(type) {
	case bool:
		if !index {
			opts = append(opts, store.NoIndex())
		}
	case []any:
		opts = append(opts, store.IndexFields(c.body.texts("index")...))
	}
	if n, given := asNumber(c.body["ttl"]); given {
		if n <= 0 {
			return fail(422, "Invalid ttl: %v; it is minutes, more than 0", n)
		}
		opts = append(opts, store.TTL(minutes(n)))
	}
	return c.none(s.store.Put(c.ctx, ns, c.body.text("key"), merged(c.body.object("value")), opts...))
}

func (s *itemAPI) get(c *call) error {
	if len(c.values("key")) == 0 {
		return writeJSON(c.w, 400, map[string]string{"error": "Key is required"})
	}
	ns, err := s.inside(c, strings.Split(c.query("namespace"), "."))
	if err != nil {
		return err
	}
	var opts []store.GetOption
	refresh, err := c.isTrue("refresh_ttl", true)
	if err != nil {
		return err
	}
	if !refresh {
		opts = append(opts, store.NoRefresh())
	}
	item, err := s.store.Get(c.ctx, ns, c.query("key"), opts...)
	if errors.Is(err, store.ErrNotFound) {
		return c.json(nil)
	}
	if err != nil {
		return err
	}
	return c.json(s.shown(c, item))
}

func (s *itemAPI) delete(c *call) error {
	ns, err := s.inside(c, c.body.texts("namespace"))
	if err != nil {
		return err
	}
	if len(ns) == 0 {
		return fail(400, "Namespace cannot be empty.")
	}
	return c.none(s.store.Delete(c.ctx, ns, c.body.text("key")))
}

// roots are the prefixes that a search for all items covers: those of clients.
func (s *itemAPI) roots(c *call, prefix store.Namespace) ([]store.Namespace, error) {
	if len(prefix) > 0 {
		return []store.Namespace{prefix}, nil
	}
	all, err := s.store.ListNamespaces(c.ctx, store.NamespaceQuery{MaxDepth: 1, Limit: store.NoLimit})
	return slices.DeleteFunc(all, func(ns store.Namespace) bool { return s.hides(c, ns) }), err
}

func (s *itemAPI) search(c *call) error {
	prefix, err := s.inside(c, c.body.texts("namespace_prefix"))
	if err != nil {
		return err
	}
	roots, err := s.roots(c, prefix)
	if err != nil {
		return err
	}
	limit, offset := c.body.integer("limit", 10), c.body.integer("offset", 0)
	refresh, given := c.body["refresh_ttl"].(bool)
	var found []store.Found
	for _, root := range roots {
		some, err := s.store.Search(c.ctx, store.Query{Prefix: root, Filter: c.body.object("filter"), Limit: offset + limit,
			Text: c.body.text("query"), NoRefresh: given && !refresh})
		if errors.Is(err, store.ErrNoIndex) { // as in LangGraph: without an index a query finds everything
			some, err = s.store.Search(c.ctx, store.Query{Prefix: root, Filter: c.body.object("filter"), Limit: offset + limit, NoRefresh: given && !refresh})
		}
		if err != nil {
			return err
		}
		found = append(found, some...)
	}
	if len(roots) > 1 {
		slices.SortStableFunc(found, func(a, b store.Found) int {
			switch {
			case a.Scored != b.Scored && a.Scored, a.Scored && a.Score > b.Score:
				return -1
			case a.Scored != b.Scored, a.Scored && a.Score < b.Score:
				return 1
			}
			return b.UpdatedAt.Compare(a.UpdatedAt)
		})
	}
	type scored struct {
		shownItem
		Score *float64 `json:"score"`
	}
	items := c.listing()
	found = found[min(offset, len(found)):]
	for _, f := range found[:min(limit, len(found))] {
		one := scored{shownItem: s.shown(c, &f.Item)}
		if f.Scored {
			one.Score = &f.Score
		}
		if err := items.add(one); err != nil {
			return err
		}
	}
	return c.json(map[string]any{"items": items.json()})
}

func (s *itemAPI) namespaces(c *call) error {
	prefix, err := s.inside(c, c.body.texts("prefix"))
	if err != nil {
		return err
	}
	q := store.NamespaceQuery{Limit: store.NoLimit, MaxDepth: c.body.integer("max_depth", 0)}
	if q.MaxDepth > 0 {
		q.MaxDepth += len(c.grant.Namespace)
	}
	if len(prefix) > 0 {
		q.Match = append(q.Match, store.Match{Kind: store.MatchPrefix, Path: prefix})
	}
	if suffix := c.body.texts("suffix"); len(suffix) > 0 {
		// The grant's namespace is no part of the client's: the suffix is not searched in it.
		own := slices.Concat(c.grant.Namespace, slices.Repeat(store.Namespace{store.Wildcard}, len(suffix)))
		q.Match = append(q.Match, store.Match{Kind: store.MatchSuffix, Path: suffix}, store.Match{Kind: store.MatchPrefix, Path: own})
	}
	all, err := s.store.ListNamespaces(c.ctx, q)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(ns store.Namespace) bool {
		return len(ns) <= len(c.grant.Namespace) || s.hides(c, ns)
	})
	limit, offset := c.body.integer("limit", 100), c.body.integer("offset", 0)
	all = all[min(offset, len(all)):]
	shown := []store.Namespace{}
	for _, ns := range all[:min(limit, len(all))] {
		shown = append(shown, s.outside(c, ns))
	}
	return c.json(map[string]any{"namespaces": shown})
}

// hides reports whether a namespace of the store is none that the client may name. The Namespace of a
// grant was checked when it was granted. NoAuth has one user, who sees all that users have.
func (s *itemAPI) hides(c *call, ns store.Namespace) bool {
	return len(c.grant.Namespace) == 0 && reserved(ns) && !(c.auth.open && ns[0] == usersSpace)
}
