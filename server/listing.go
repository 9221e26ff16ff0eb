package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// sorting says how a search is ordered.
type sorting[T any] struct {
	by   map[string]func(a, b T) int
	then func(a, b T) int // newest first: the default order, also among equal ones
}

// sort orders the results of a search by sort_by, descending by default, and ascending if sort_order is
// asc.
func (o sorting[T]) sort(in body, found []T) {
	less := o.by[in.text("sort_by")]
	sign := 1
	if order := in.text("sort_order"); order == "desc" || order == "" && less != nil {
		sign = -1
	}
	slices.SortStableFunc(found, func(a, b T) int {
		if less != nil {
			if d := less(a, b); d != 0 {
				return sign * d
			}
		}
		return o.then(a, b)
	})
}

// find are the records that match, in the order that a search asks for: what brief keeps of them.
func (r records[T]) find(ctx context.Context, in body, order sorting[T], brief func(T) T,
	matches func(T) bool) ([]T, error) {
	var found []T
	for v, err := range r.all(ctx) {
		if err != nil {
			return nil, err
		}
		if matches(v) {
			found = append(found, brief(v))
		}
	}
	order.sort(in, found)
	return found, nil
}

// cut returns the page of a search for limit and offset. Like LangGraph's server it reports in headers
// whether there is more.
func cut[T any](c *call, found []T, limit int) []T {
	offset := c.body.integer("offset", 0)
	limit = c.body.integer("limit", limit)
	found = found[min(offset, len(found)):]
	h := c.w.Header()
	if len(found) > limit {
		found = found[:limit]
		h.Set("X-Pagination-Next", strconv.Itoa(offset+limit))
		h.Set("X-Pagination-Total", strconv.Itoa(offset+limit+1))
	} else {
		h.Set("X-Pagination-Total", strconv.Itoa(offset+len(found)))
	}
	return found
}

// searched answers with a page of the results of a search. show returns a result as clients see it, and
// false if it was removed, or does not match any more.
func searched[T any](c *call, found []T, err error, show func(T) (any, bool, error), always ...string) error {
	if err != nil {
		return err
	}
	shown := c.listing()
	for _, f := range cut(c, found, 10) {
		v, ok, err := show(f)
		if err == nil && ok {
			err = shown.addSelected(c, v, always...)
		}
		if err != nil {
			return err
		}
	}
	return c.list(shown)
}

// selected returns the fields of a thing that `select` names, and those that are always shown.
func selected(c *call, shown any, always ...string) (any, error) {
	names := c.body.texts("select")
	if len(names) == 0 {
		return shown, nil
	}
	names = append(names, always...)
	text, err := encode(shown)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, n := range names {
		if v, ok := all[n]; ok {
			out[n] = v
		}
	}
	return out, nil
}

// listing is the JSON of a list that an answer has, as it grows.
type listing struct {
	text []byte
	most int
}

// listingMost bounds a listing in bytes, except for its first element: stored values may be large, and
// many clients may request listings at the same time.
const listingMost = 64 << 20

// listing is a list that is empty.
func (c *call) listing() *listing { return &listing{[]byte{'['}, c.listingMost} }

// add appends an element, or returns an error if the listing would be too long.
func (l *listing) add(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	if len(l.text) > 1 {
		if len(l.text)+len(text) > l.most {
			return fail(http.StatusUnprocessableEntity, "The answer would have more than %d bytes: ask for fewer at a time", l.most)
		}
		l.text = append(l.text, ',')
	}
	l.text = append(l.text, text...)
	return nil
}

// addSelected appends what selected makes of a thing.
func (l *listing) addSelected(c *call, shown any, always ...string) error {
	some, err := selected(c, shown, always...)
	if err != nil {
		return err
	}
	return l.add(some)
}

// json is the list when all is added.
func (l *listing) json() json.RawMessage { return append(l.text, ']') }

// list answers with a list.
func (c *call) list(l *listing) error { return writeText(c.w, http.StatusOK, l.json()) }
