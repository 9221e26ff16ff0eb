package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/store"
)

// space is the namespace of the server's own items. No client can name it; see reserved.
const space = "__stele_server__"

// jsonField is the only field of a record's item: its JSON. No search goes by other fields, and
// to store them as such would convert each record twice.
const jsonField = "json"

// records are items of one type, as JSON, by key.
type records[T any] struct {
	items store.Store
	ns    store.Namespace
	log   *slog.Logger
	kept  *decoded[T]  // nil if each is decoded whenever it is read
	keeps func(T) bool // reports whether a record may be kept; nil keeps all
}

func newRecords[T any](items store.Store, log *slog.Logger, kind string) records[T] {
	return records[T]{items: items, ns: store.Namespace{space, kind}, log: log}
}

// decoded are records by their JSON. Nobody may change what is in one.
type decoded[T any] struct {
	mu sync.Mutex
	by map[string]T
}

// decodedMost bounds how many there are, and decodedBytes how long the JSON of one is.
const (
	decodedMost  = 1000
	decodedBytes = 16 << 10
)

func (k *decoded[T]) get(text string) (T, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.by[text]
	return v, ok
}

func (k *decoded[T]) put(text string, v T) {
	if len(text) > decodedBytes {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil || len(k.by) == decodedMost {
		k.by = map[string]T{}
	}
	k.by[text] = v
}

// get returns a record; ok is false if there is none.
func (r records[T]) get(ctx context.Context, key string) (v T, ok bool, err error) {
	item, err := r.items.Get(ctx, r.ns, key, store.NoRefresh())
	if errors.Is(err, store.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	v, err = r.of(item)
	return v, err == nil, err
}

func (r records[T]) of(item *store.Item) (v T, err error) {
	text, ok := item.Value[jsonField].(string)
	if !ok { // servers before 0.1.0 stored the fields themselves
		fields, err := json.Marshal(item.Value)
		if err != nil {
			return v, fmt.Errorf("%v %s: %w", r.ns, item.Key, err)
		}
		text = string(fields)
	}
	if r.kept != nil {
		if v, ok := r.kept.get(text); ok {
			return v, nil
		}
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return v, fmt.Errorf("%v %s: %w: %w", r.ns, item.Key, errUndecoded, err)
	}
	if r.kept != nil && (r.keeps == nil || r.keeps(v)) {
		r.kept.put(text, v)
	}
	return v, nil
}

// errUndecoded: a record cannot be decoded.
var errUndecoded = errors.New("the record cannot be decoded")

// put stores a record for ever.
func (r records[T]) put(ctx context.Context, key string, v T) error {
	op, err := r.op(key, v)
	if err != nil {
		return err
	}
	_, err = r.items.Batch(ctx, op)
	return err
}

// op is what put does, for a batch.
func (r records[T]) op(key string, v T) (store.Op, error) {
	text, err := json.Marshal(v)
	return store.PutOp{Namespace: r.ns, Key: key, Value: map[string]any{jsonField: string(text)}, TTL: -1, NoIndex: true}, err
}

// deletion is what delete does, for a batch.
func (r records[T]) deletion(key string) store.Op { return store.PutOp{Namespace: r.ns, Key: key} }

func (r records[T]) delete(ctx context.Context, key string) error {
	return r.items.Delete(ctx, r.ns, key)
}

// page is how many records a listing reads at a time where the store cannot iterate.
const page = 500

// all yields the records, by key. One that cannot be decoded is told to the operator, and hides no others.
func (r records[T]) all(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range r.each(ctx) {
			var v T
			if err == nil {
				if v, err = r.of(item); err != nil {
					r.log.Error("a record cannot be decoded", "error", err)
					continue
				}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// each yields the items of the records, by key.
func (r records[T]) each(ctx context.Context) iter.Seq2[*store.Item, error] {
	q := store.Query{Prefix: r.ns, ByKey: true, NoRefresh: true}
	return func(yield func(*store.Item, error) bool) {
		if s, ok := r.items.(store.Scanner); ok {
			for found, err := range s.Scan(ctx, q) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(&found.Item, nil) {
					return
				}
			}
			return
		}
		for q.Limit = page; ; q.Offset += page {
			found, err := r.items.Search(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, f := range found {
				if !yield(&f.Item, nil) {
					return
				}
			}
			if len(found) < page {
				return
			}
		}
	}
}

// locks are locks by name, for changes of a record that read it first. They hold in this
// process: of two servers that change a record at once the later one counts.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// lock waits for the lock of a name and returns the function that releases it.
func (l *locks) lock(name string) (unlock func()) {
	l.mu.Lock()
	k := l.held[name]
	if k == nil {
		k = &lock{}
		l.held[name] = k
	}
	k.users++
	l.mu.Unlock()
	k.Lock()
	return func() {
		k.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, name)
		}
	}
}

// now is the time as records have it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// stamped is a time as clients see it.
func stamped(t time.Time) string { return pregeljson.Time(t) }

// sorting says how a search is ordered.
type sorting[T any] struct {
	by   map[string]func(a, b T) int
	then func(a, b T) int // newest first: the order if none is asked for, and of equal ones
}

// sort orders what a search has found. A field that is asked for is ascending unless sort_order says desc.
func (o sorting[T]) sort(in body, found []T) {
	less := o.by[in.text("sort_by")]
	sign := 1
	if order := in.text("sort_order"); strings.EqualFold(order, "desc") || order == "" && less != nil {
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
func (r records[T]) find(ctx context.Context, in body, order sorting[T], brief func(T) T, matches func(T) bool) ([]T, error) {
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

// cut is the page of a search that limit and offset ask for. Like LangGraph's server it
// tells in headers that there is more.
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

// searched answers with the page of what a search has found. show is one of these as clients see it, and false
// if it was removed, or does not fit any more.
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

// selected is a thing as clients see it, with the fields that select asks for, and those that are always
// shown.
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

// listingMost bounds a listing in bytes, but for its first element: what is stored may be large, and
// many clients ask at once.
const listingMost = 64 << 20

// listing is a list that is empty.
func (c *call) listing() *listing { return &listing{[]byte{'['}, c.listingMost} }

// add appends an element, or refuses what would be too long.
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
