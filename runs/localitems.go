package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/stele-go/stele/store"
)

// The items are values as JSON: Run, Event and Schedule say how.

func toMap(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(text, &m)
}

func fromMap(m map[string]any, v any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// putOp stores an item for ever, whatever the default of the store is.
func putOp(ns store.Namespace, key string, v any) (store.PutOp, error) {
	m, err := toMap(v)
	return store.PutOp{Namespace: ns, Key: key, Value: m, TTL: -1, NoIndex: true}, err
}

func get(ctx context.Context, items *store.Local, ns store.Namespace, key string, v any) error {
	item, err := items.Get(ctx, ns, key)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	return fromMap(item.Value, v)
}

// scan yields the items of a namespace by key, as they were when it began.
func scan[T any](ctx context.Context, items *store.Local, ns store.Namespace) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for found, err := range items.Scan(ctx, store.Query{Prefix: ns, ByKey: true, NoRefresh: true}) {
			var v T
			if err == nil {
				err = fromMap(found.Value, &v)
			}
			if err != nil {
				yield(none, fmt.Errorf("%v %s: %w", ns, found.Key, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
