package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/store"
)

// searchRead is a Query. Without a filter the database gives the page. With one it gives
// more than the page, in the order of the query, of which the filter passes some; if these
// are too few, still more.
type searchRead struct {
	s      *Store
	q      store.Query
	out    *store.Result
	match  func(map[string]any) bool // nil: no filter
	vector []float32                 // nil: no query
	limit  int                       // of the page
	none   bool                      // there can be no such namespace

	ask    int        // how many rows to ask for; 0: the page alone
	rows   []*itemRow // that came in
	passed []*itemRow // the page, with what is before it if there is a filter
}

func (s *Store) newSearch(ctx context.Context, q store.Query, out *store.Result) (batchRead, error) {
	if err := q.Validate(s.opts.Index); err != nil {
		return nil, err
	}
	if err := store.CheckAddress(q.Prefix, ""); err != nil {
		return nil, err
	}
	match, err := store.CompileFilter(q.Filter)
	if err != nil {
		return nil, err
	}
	x := &searchRead{s: s, q: q, out: out, vector: q.Vector, limit: cmp.Or(q.Limit, store.DefaultLimit), none: !findable(q.Prefix)}
	if len(q.Filter) > 0 {
		x.match = match
	}
	if q.Text != "" {
		vectors, err := s.opts.Index.Vectors(ctx, []string{q.Text})
		if err != nil {
			return nil, err
		}
		x.vector = vectors[0]
	}
	if x.vector != nil {
		if err := s.sql.checkVectors([][]float32{x.vector}); err != nil {
			return nil, err
		}
	}
	if x.vector != nil && s.sql.column.dims == 0 && !x.none {
		return &rankedRead{searchRead: x}, nil
	}
	return x, nil
}

// want is the number of items up to the end of the page.
func (x *searchRead) want() int {
	if x.limit > math.MaxInt-x.q.Offset {
		return math.MaxInt
	}
	return x.q.Offset + x.limit
}

func (x *searchRead) ranked() bool { return false }

const (
	firstAsked = 64   // rows, at least, that a filter is given first
	allAsked   = 1000 // a page that ends beyond this many rows reads all rows with one query
)

func (x *searchRead) begin() {
	switch want := x.want(); {
	case x.match == nil:
		x.ask = 0
	case want > allAsked:
		x.ask = math.MaxInt
	default:
		x.ask = max(4*want, firstAsked)
	}
}

func (x *searchRead) queue(b *pgx.Batch) {
	x.rows = nil
	if x.none {
		return
	}
	var a arguments
	var sql strings.Builder
	distance, order := "NULL::float8", newestFirst
	from := " FROM @.store s" + itemBeside
	switch {
	case x.vector != nil:
		distance, order = "n.d", "n.d NULLS LAST, "+newestFirst
		from += x.nearest(&a)
	case x.q.ByKey:
		order = byKey
	}
	limit, offset := x.limit, x.q.Offset
	if x.ask > 0 {
		limit, offset = x.ask, 0
	}
	fmt.Fprintf(&sql, "SELECT %s, %s%s WHERE %s ORDER BY %s LIMIT %s::bigint OFFSET %s::bigint", itemColumns, distance, from, x.conditions(&a),
		order, a.add(limit), a.add(offset))
	x.read(b, sql.String(), a)
}

func (x *searchRead) read(b *pgx.Batch, sql string, args []any) {
	b.Queue(x.s.db.Qualify(sql), args...).Query(eachItem(func(r *itemRow) { x.rows = append(x.rows, r) }))
}

// conditions select the items that the search sees, and that the filter may pass.
func (x *searchRead) conditions(a *arguments) string {
	all := []string{within(a, "s", x.q.Prefix), narrowed(a, x.q.Filter)}
	if !x.s.opts.ShowExpired {
		all = append(all, "(s.expires_at IS NULL OR s.expires_at > "+a.add(x.s.db.Now())+"::timestamptz)")
	}
	return strings.Join(all, " AND ")
}

// within is the condition that a row is of a namespace, or below it.
func within(a *arguments, table string, ns store.Namespace) string {
	if len(ns) == 0 {
		return "TRUE"
	}
	prefix := prefixOf(ns)
	return fmt.Sprintf(`(%s.prefix = %s OR %s.prefix LIKE %s ESCAPE '\')`, table, a.add(prefix), table, a.add(literal(prefix)+".%"))
}

// nearest joins the distance of each item's nearest vector, of those that have one. A vector
// that is older than its item is of a value that Python has replaced. A vector of zeros has no
// angle to another: its score under Cosine is 0.
func (x *searchRead) nearest(a *arguments) string {
	st := x.s.sql
	d := distances[x.s.opts.Index.Metric]
	measured := fmt.Sprintf("v.embedding OPERATOR(%s.%s) %s::text::%s", st.extension, d.operator, a.add(vectorText(x.vector)), st.vectorType())
	if d.operator == distances[store.Cosine].operator {
		measured = "coalesce(nullif(" + measured + ", 'NaN'), 1)"
	}
	return fmt.Sprintf(` LEFT JOIN (SELECT v.prefix, v.key, min(%s) AS d
	FROM @.store_vectors v JOIN @.store i ON i.prefix = v.prefix AND i.key = v.key AND (v.updated_at < i.updated_at) IS NOT TRUE
	WHERE v.embedding IS NOT NULL AND %s GROUP BY v.prefix, v.key) n ON n.prefix = s.prefix AND n.key = s.key`,
		measured, within(a, "v", x.q.Prefix))
}

// more gives the rows to the filter. With a filter the page needs all rows before it.
func (x *searchRead) more() (bool, error) {
	x.passed = nil
	if err := x.filter(); err != nil {
		return false, err
	}
	if x.ask == 0 || len(x.rows) < x.ask || len(x.passed) == x.want() {
		return false, nil
	}
	x.ask = 4 * min(x.ask, math.MaxInt/4)
	return true, nil
}

// filter adds the rows that pass, up to the end of the page.
func (x *searchRead) filter() error {
	for _, r := range x.rows {
		if len(x.passed) == x.want() {
			return nil
		}
		if err := r.decode(x.s.codec); err != nil {
			return err
		}
		if x.match == nil || x.match(r.value) {
			x.passed = append(x.passed, r)
		}
	}
	return nil
}

// page returns the items of the page. Without a filter, earlier items were not read.
func (x *searchRead) page() []*itemRow {
	if x.match == nil {
		return x.passed
	}
	return x.passed[min(x.q.Offset, len(x.passed)):]
}

func (x *searchRead) end(now int64) []*itemRow {
	page := x.page()
	due := x.s.due(page, x.q.NoRefresh, now)
	x.out.Found = make([]store.Found, len(page))
	for i, r := range page {
		f := &x.out.Found[i]
		f.Item = *r.item()
		switch {
		case r.score != nil:
			f.Score, f.Scored = *r.score, true
		case r.distance != nil:
			f.Score, f.Scored = scoreOf(x.s.opts.Index.Metric, *r.distance), true
		}
	}
	return due
}

// scoreOf is the score at a distance of pgvector.
func scoreOf(m store.Metric, d float64) float64 {
	if m == store.Cosine || m == "" {
		return 1 - d
	}
	return 0 - d
}
