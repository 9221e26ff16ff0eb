package pgstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// namespaceRead is a NamespaceQuery.
type namespaceRead struct {
	s   *Store
	q   store.NamespaceQuery
	out *store.Result
}

func (s *Store) newListing(q store.NamespaceQuery, out *store.Result) (batchRead, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	return &namespaceRead{s, q, out}, nil
}

func (l *namespaceRead) begin() {}

func (l *namespaceRead) queue(b *pgx.Batch) {
	l.out.Namespaces = []store.Namespace{}
	var a arguments
	var labels []string
	all := []string{"TRUE"}
	if !l.s.opts.ShowExpired {
		all = append(all, "(s.expires_at IS NULL OR s.expires_at > "+a.add(l.s.db.Now())+"::timestamptz)")
	}
	for _, m := range l.q.Match {
		all = append(all, matching(&a, m)...)
	}
	cut := "n.labels"
	if l.q.MaxDepth > 0 {
		cut = "n.labels[1:" + a.add(l.q.MaxDepth) + "::int]"
	}
	// Labels are compared as bytes, one after the other.
	sql := fmt.Sprintf(`SELECT DISTINCT %s COLLATE "C" AS ns
FROM (SELECT DISTINCT s.prefix FROM @.store s WHERE %s) p CROSS JOIN LATERAL (SELECT string_to_array(p.prefix, '.') AS labels) n
ORDER BY ns LIMIT %s::bigint OFFSET %s::bigint`, cut, strings.Join(all, " AND "), a.add(cmp.Or(l.q.Limit, store.DefaultNamespaces)), a.add(l.q.Offset))
	b.Queue(l.s.db.Qualify(sql), a...).Query(pgdb.Each(func() error {
		l.out.Namespaces = append(l.out.Namespaces, labels)
		return nil
	}, &labels))
}

// matching returns conditions for m on the namespace of an item. The fixed beginning of a prefix
// becomes a condition that uses an index.
func matching(a *arguments, m store.Match) []string {
	if len(m.Path) == 0 {
		return nil
	}
	labels, first := "string_to_array(s.prefix, '.')", "0"
	all := []string{fmt.Sprintf("cardinality(%s) >= %d", labels, len(m.Path))}
	if m.Kind == store.MatchSuffix {
		first = fmt.Sprintf("cardinality(%s) - %d", labels, len(m.Path))
	} else if fixed := m.Path[:wildcard(m.Path)]; len(fixed) > 0 && findable(fixed) {
		all = append(all, within(a, "s", fixed))
	}
	for i, label := range m.Path {
		switch {
		case label == store.Wildcard:
		case !pgdb.Storable(label):
			all = append(all, "FALSE")
		default:
			all = append(all, fmt.Sprintf("(%s)[%s + %d] = %s", labels, first, i+1, a.add(label)))
		}
	}
	return all
}

// wildcard returns the index of the first wildcard in a path, or its length.
func wildcard(path store.Namespace) int {
	if i := slices.Index(path, store.Wildcard); i >= 0 {
		return i
	}
	return len(path)
}

func (l *namespaceRead) more() (bool, error) { return false, nil }

func (l *namespaceRead) ranked() bool { return false }

func (l *namespaceRead) end(int64) []*itemRow { return nil }
