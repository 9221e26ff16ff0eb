package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

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
	mu   sync.Mutex
	by   map[string]T
	made atomic.Int64 // how many records were decoded
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
	v, item, err := r.read(ctx, key)
	return v, item != nil, err
}

// read returns a record, and the item that it is; nil if there is none.
func (r records[T]) read(ctx context.Context, key string) (v T, item *store.Item, err error) {
	item, err = r.items.Get(ctx, r.ns, key, store.NoRefresh())
	if errors.Is(err, store.ErrNotFound) {
		return v, nil, nil
	}
	if err == nil {
		v, err = r.of(item)
	}
	if err != nil {
		return v, nil, err
	}
	return v, item, nil
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
	if r.kept != nil {
		r.kept.made.Add(1)
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

// op returns the operation of put, for a batch.
func (r records[T]) op(key string, v T) (store.PutOp, error) {
	text, err := json.Marshal(v)
	return store.PutOp{Namespace: r.ns, Key: key, Value: map[string]any{jsonField: string(text)}, TTL: -1, NoIndex: true}, err
}

// deletion returns the operation of delete, for a batch.
func (r records[T]) deletion(key string) store.Op { return store.PutOp{Namespace: r.ns, Key: key} }

func (r records[T]) delete(ctx context.Context, key string) error {
	return r.items.Delete(ctx, r.ns, key)
}

// page is how many records a listing reads at a time if the store cannot iterate.
const page = 500

// all yields the records, by key. One that cannot be decoded is logged and left out.
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

// now returns the time in the precision of records.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// stamped is a time as clients see it.
func stamped(t time.Time) string { return pregeljson.Time(t) }

// namespaceGraph is the namespace of the UUIDs of graphs' assistants: LangGraph's.
var namespaceGraph = uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
