package store

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/stele-go/stele/engine"
)

// search is a Query, checked, compiled and embedded.
type search struct {
	q      Query
	prefix string
	filter filter
	query  []float32 // nil: none
	limit  int
}

// newSearch checks a query, and embeds its text.
func (s *Local) newSearch(ctx context.Context, q Query) (*search, error) {
	if err := q.Validate(s.opts.Index); err != nil {
		return nil, err
	}
	if err := checkSize(q.Prefix); err != nil {
		return nil, err
	}
	f, err := compileFilter(q.Filter)
	if err != nil {
		return nil, err
	}
	x := &search{q: q, prefix: idOf(q.Prefix), filter: f, query: q.Vector, limit: q.Limit}
	if x.limit == 0 {
		x.limit = DefaultLimit
	}
	if q.Text != "" {
		vecs, err := s.opts.Index.Vectors(ctx, []string{q.Text})
		if err != nil {
			return nil, err
		}
		x.query = vecs[0]
	}
	return x, nil
}

// Search implements Store.
func (s *Local) Search(ctx context.Context, q Query) ([]Found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, err := s.newSearch(ctx, q)
	if err != nil {
		return nil, err
	}
	v, err := s.back.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return s.find(ctx, v, x)
}

// Scan implements Scanner.
func (s *Local) Scan(ctx context.Context, q Query) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		if q.Limit == 0 {
			q.Limit = NoLimit
		}
		if err := s.scan(ctx, q, yield); err != nil {
			yield(Found{}, err)
		}
	}
}

func (s *Local) scan(ctx context.Context, q Query, yield func(Found, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x, err := s.newSearch(ctx, q)
	if err != nil {
		return err
	}
	v, err := s.back.view(ctx)
	if err != nil {
		return err
	}
	defer v.release()
	hits, err := s.hits(ctx, v, x)
	if err != nil {
		return err
	}
	for i := range hits {
		found, err := s.read(ctx, v, x, hits[i:i+1])
		if err != nil {
			return err
		}
		if !yield(found[0], nil) {
			return nil
		}
	}
	return nil
}

func (s *Local) find(ctx context.Context, v view, x *search) ([]Found, error) {
	begin := engine.Now()
	hits, err := s.hits(ctx, v, x)
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, v, x, hits)
	if err == nil {
		s.m.Searched(begin)
	}
	return found, err
}

// read reads the values of hits, and renews them.
func (s *Local) read(ctx context.Context, v view, x *search, hits []hit) ([]Found, error) {
	out := make([]Found, len(hits))
	entries := make([]*entry, len(hits))
	var scorer scorer
	if x.query != nil {
		scorer = s.opts.Index.scorer(x.query)
	}
	for i := range hits {
		h := &hits[i]
		value, err := v.read(ctx, &h.entry)
		if err != nil {
			return nil, err
		}
		entries[i] = &h.entry
		out[i].Value = value
		if h.scored {
			out[i].Score, out[i].Scored = scorer.public(h.score), true
		}
	}
	s.renew(ctx, x.q.NoRefresh, entries...)
	for i := range hits {
		out[i].Item = *itemOf(hits[i].entry, out[i].Value)
	}
	return out, nil
}

// hits selects and orders entries and returns one page of them.
func (s *Local) hits(ctx context.Context, v view, x *search) ([]hit, error) {
	want := math.MaxInt
	if x.limit <= math.MaxInt-x.q.Offset {
		want = x.q.Offset + x.limit
	}
	accept := s.accepts(ctx, v, x.filter)
	var hits []hit
	var err error
	switch {
	case x.query != nil:
		hits, err = s.nearest(ctx, v, x, want, accept)
	case x.q.ByKey:
		err = eachEntry(ctx, v, x.prefix, accept, func(en *entry) bool {
			hits = append(hits, hit{entry: *en})
			return len(hits) < want
		})
	default:
		top := best[hit]{n: want, before: newestFirst}
		wanted := func(en *entry) (bool, error) {
			if !top.wants(hit{entry: *en}) {
				return false, nil
			}
			return accept(en)
		}
		err = eachEntry(ctx, v, x.prefix, wanted, func(en *entry) bool {
			top.offer(hit{entry: *en})
			return true
		})
		hits = top.sorted()
	}
	if err != nil {
		return nil, err
	}
	return hits[min(x.q.Offset, len(hits)):], nil
}

// accepts returns a function that reports whether a search sees an entry and the filter
// matches it. The function is safe for concurrent use.
func (s *Local) accepts(ctx context.Context, v view, f filter) func(*entry) (bool, error) {
	visible := s.visible()
	return func(en *entry) (bool, error) {
		if !visible(en.meta) {
			return false, nil
		}
		if len(f) == 0 {
			return true, nil
		}
		switch f.matchSummary(en.summary) {
		case yes:
			return true, nil
		case no:
			return false, nil
		}
		value, err := v.read(ctx, en)
		return err == nil && f.match(value), err
	}
}

// checkEvery is how many entries are processed between two checks of the context.
const checkEvery = 1024

func eachEntry(ctx context.Context, v view, prefix string, accept func(*entry) (bool, error), fn func(*entry) bool) error {
	n := 0
	return v.spaces(prefix, "", func(sp space) (bool, error) {
		more := true
		err := sp.items(func(en *entry) (bool, error) {
			if n++; n%checkEvery == 0 && ctx.Err() != nil {
				return false, ctx.Err()
			}
			ok, err := accept(en)
			if ok && err == nil {
				more = fn(en)
			}
			return more, err
		})
		return more, err
	})
}

// nearest ranks the items that have vectors by score. If they do not fill the
// page, those without follow, newest first.
func (s *Local) nearest(ctx context.Context, v view, x *search, want int, accept func(*entry) (bool, error)) ([]hit, error) {
	scorer := s.opts.Index.scorer(x.query)
	top := best[hit]{n: want, before: nearestFirst}
	err := v.spaces(x.prefix, "", func(sp space) (bool, error) {
		return true, sp.nearest(ctx, &scorer, accept, &top)
	})
	if err != nil || len(top.list) >= want {
		return top.sorted(), err
	}
	type address struct{ ns, key string }
	scored := make(map[address]bool, len(top.list))
	for i := range top.list {
		scored[address{top.list[i].ns, top.list[i].key}] = true
	}
	err = eachEntry(ctx, v, x.prefix, accept, func(en *entry) bool {
		if !scored[address{en.ns, en.key}] {
			top.offer(hit{entry: *en})
		}
		return true
	})
	return top.sorted(), err
}

// ListNamespaces implements Store.
func (s *Local) ListNamespaces(ctx context.Context, q NamespaceQuery) ([]Namespace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	v, err := s.back.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return s.namespaces(ctx, v, q)
}

func (s *Local) namespaces(ctx context.Context, v view, q NamespaceQuery) ([]Namespace, error) {
	limit := q.Limit
	if limit == 0 {
		limit = DefaultNamespaces
	}
	visible := s.visible()
	out, skipped := []Namespace{}, 0
	var last Namespace
	prefix, from := idOf(fixedPrefix(q.Match)), ""
	visit := func(sp space) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ns, ok := namespaceOf(sp.id())
		if !ok || !matchesAll(q.Match, ns) {
			return true, nil
		}
		if sp.expiring() {
			if live, err := hasVisible(sp, visible); err != nil || !live {
				return true, err
			}
		}
		if q.MaxDepth > 0 && len(ns) > q.MaxDepth {
			ns = ns[:q.MaxDepth:q.MaxDepth]
		}
		if last != nil && slices.Equal(last, ns) {
			// Cut namespaces stay sorted, so equal ones are neighbours. Those that follow are not looked at.
			from = behind(last)
			return false, nil
		}
		if last = ns; skipped < q.Offset {
			skipped++
			return true, nil
		}
		out = append(out, ns)
		return len(out) < limit, nil
	}
	err := v.spaces(prefix, "", visit)
	for from != "" && err == nil {
		at := from
		from = ""
		err = v.spaces(prefix, at, visit)
	}
	return out, err
}

func hasVisible(sp space, visible func(meta) bool) (found bool, err error) {
	err = sp.items(func(en *entry) (bool, error) {
		found = visible(en.meta)
		return !found, nil
	})
	return found, err
}

// fixedPrefix is a prefix that every matching namespace has.
func fixedPrefix(conditions []Match) Namespace {
	var longest Namespace
	for _, m := range conditions {
		if m.Kind != MatchPrefix {
			continue
		}
		fixed := m.Path
		if i := slices.Index(fixed, Wildcard); i >= 0 {
			fixed = fixed[:i]
		}
		if len(fixed) > len(longest) {
			longest = fixed
		}
	}
	return longest
}

func matchesAll(conditions []Match, ns Namespace) bool {
	for _, m := range conditions {
		if len(m.Path) > len(ns) {
			return false
		}
		part := ns[:len(m.Path)]
		if m.Kind == MatchSuffix {
			part = ns[len(ns)-len(m.Path):]
		}
		for i, label := range m.Path {
			if label != Wildcard && label != part[i] {
				return false
			}
		}
	}
	return true
}
