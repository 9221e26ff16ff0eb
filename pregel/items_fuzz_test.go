package pregel

import (
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// FuzzItemRecords decodes what a pending write of items may hold: any data at all.
func FuzzItemRecords(f *testing.F) {
	full := store.PutOp{Namespace: store.Namespace{"a", "b"}, Key: "k", Value: map[string]any{"x": int64(1)}, TTL: time.Minute, NoIndex: true, IndexFields: []string{"x"}}
	for _, v := range []any{
		[]any{recordOf(full), recordOf(store.PutOp{Namespace: store.Namespace{"a"}, Key: ""}), recordOf(store.PutOp{IndexFields: []string{}, TTL: -1})},
		[]any{map[string]any{"ns": []any{1}, "key": "k"}}, []any{map[string]any{"ns": []any{}, "key": 1}}, []any{1}, "x", nil,
		[]any{map[string]any{"ns": []any{}, "key": "k", "value": 1, "ttl": "x", "no_index": 0, "fields": 1}},
	} {
		typed, err := serde.Default().Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(typed.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := serde.Default().Decode(serde.Typed{Kind: "msgpack", Data: b})
		if err != nil {
			return
		}
		ops, err := opsOf(v)
		if err != nil {
			return
		}
		records := make([]any, len(ops))
		for i, op := range ops {
			records[i] = recordOf(op)
		}
		if back, err := opsOf(records); err != nil || len(back) != len(ops) {
			t.Fatalf("%v come back as %v, %v", ops, back, err)
		}
	})
}

func TestItemRecords(t *testing.T) {
	for _, op := range []store.PutOp{
		{Namespace: store.Namespace{"a", "b"}, Key: "k", Value: map[string]any{"x": int64(1)}, TTL: time.Minute, NoIndex: true, IndexFields: []string{"x"}},
		{Namespace: store.Namespace{"a"}, Key: "", IndexFields: []string{}, TTL: -1},
	} {
		typed, err := serde.Default().Encode([]any{recordOf(op)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := serde.Default().Decode(typed)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := opsOf(v); err != nil || len(back) != 1 || !reflect.DeepEqual(back[0], op) {
			t.Errorf("%+v comes back as %+v, %v", op, back, err)
		}
	}
	for what, v := range map[string]any{"list": 1, "item": []any{1}, "key": []any{map[string]any{"ns": []any{}}}, "label": []any{map[string]any{"ns": []any{1}, "key": ""}},
		"value": []any{map[string]any{"ns": []any{}, "key": "", "value": 1}}, "ttl": []any{map[string]any{"ns": []any{}, "key": "", "ttl": "1"}},
		"fields": []any{map[string]any{"ns": []any{}, "key": "", "fields": 1}}} {
		if ops, err := opsOf(v); err == nil {
			t.Errorf("%s: %v", what, ops)
		}
	}
}
