package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// An item has one field, the JSON of a value: Run and Schedule say how. Nothing searches
// for fields of their own, and to store them as such would convert each value twice. That of a run
// may have a second one, its last events, and that of a Spec has the JSON of the run as it
// was submitted. An item of events has only these; packEvents says how.
const (
	jsonField   = "json"
	eventsField = "events"
	bornField   = "run"
)

// born is the item of a run that has none of its own: the run as it was submitted, from the item of
// its Spec.
func born(spec *store.Item) (*store.Item, error) {
	text, ok := spec.Value[bornField]
	if !ok {
		return nil, fmt.Errorf("no run beside its Spec: %w", serde.ErrMalformed)
	}
	return &store.Item{Key: spec.Key, Value: map[string]any{jsonField: text}}, nil
}

// putOp stores an item for ever, whatever the default of the store is.
func putOp(ns store.Namespace, key string, v any) (store.PutOp, error) {
	text, err := json.Marshal(v)
	return textOp(ns, key, string(text)), err
}

func textOp(ns store.Namespace, key, text string) store.PutOp {
	return store.PutOp{Namespace: ns, Key: key, Value: map[string]any{jsonField: text}, TTL: -1, NoIndex: true}
}

func valueOf(item *store.Item, v any) error {
	if text, ok := item.Value[jsonField].(string); ok {
		return json.Unmarshal([]byte(text), v)
	}
	// Queues before 0.1.0 stored the fields themselves.
	text, err := json.Marshal(item.Value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func getItem(ctx context.Context, items *store.Local, ns store.Namespace, key string) (*store.Item, error) {
	item, err := items.Get(ctx, ns, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	return item, err
}

// unreadable is the error of reading a run: an UnreadableError if it is about what is stored of the
// run, and not about the store.
func unreadable(id string, err error) error {
	if errors.Is(err, ErrUnreadable) {
		return err
	}
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &mistyped) {
		return &UnreadableError{id, err}
	}
	for _, of := range []error{saver.ErrCorrupt, serde.ErrMalformed, serde.ErrDecodeLimit, serde.ErrUnknownKind, serde.ErrDecrypt, serde.ErrPlaintext} {
		if errors.Is(err, of) {
			return &UnreadableError{id, err}
		}
	}
	return err
}
