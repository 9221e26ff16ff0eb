package wire

import (
	"reflect"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/store"
)

// Batch are the parameters of store_batch and store_scan.
type Batch struct {
	Ops []store.Op `msgpack:"ops"`
	named
}

// opOf is an operation with its name.
type opOf[T any] struct {
	Op string `msgpack:"op"`
	Of T      `msgpack:",inline"`
}

// getOp has the tags of store.GetOp.
type getOp struct {
	Namespace store.Namespace `msgpack:"namespace"`
	Key       string          `msgpack:"key"`
	NoRefresh bool            `msgpack:"refresh,omitempty,not"`
}

// putOp is store.PutOp. A nil value deletes; an empty one does not.
type putOp struct {
	Namespace store.Namespace `msgpack:"namespace"`
	Key       string          `msgpack:"key"`
	Value     *map[string]any `msgpack:"value,omitempty"`
	Index     indexOf         `msgpack:"index,omitempty"`
	TTL       time.Duration   `msgpack:"ttl,omitempty"`
}

// indexOf is false, or a list of paths.
type indexOf struct {
	off   bool
	paths []string
}

// search has the tags of store.Query. A limit of 0 is the default of LangGraph's stores, as
// in package store.
type search struct {
	Prefix    store.Namespace `msgpack:"prefix"`
	Filter    map[string]any  `msgpack:"filter,omitempty"`
	Limit     int             `msgpack:"limit,omitempty"`
	Offset    int             `msgpack:"offset,omitempty"`
	Text      string          `msgpack:"query,omitempty"`
	Vector    []float32       `msgpack:"vector,omitempty"`
	ByKey     bool            `msgpack:"by_key,omitempty"`
	NoRefresh bool            `msgpack:"refresh,omitempty,not"`
}

// namespaces has the tags of store.NamespaceQuery.
type namespaces struct {
	Match    []store.Match `msgpack:"match"`
	MaxDepth int           `msgpack:"max_depth,omitempty"`
	Limit    int           `msgpack:"limit,omitempty"`
	Offset   int           `msgpack:"offset,omitempty"`
}

func (e *encoder) op(op store.Op) {
	var of any
	switch op := op.(type) {
	case store.GetOp:
		of = &opOf[store.GetOp]{"get", op}
	case store.PutOp:
		p := putOp{Namespace: op.Namespace, Key: op.Key, Index: indexOf{op.NoIndex, op.IndexFields}, TTL: op.TTL}
		if op.Value != nil {
			p.Value = &op.Value
		}
		of = &opOf[putOp]{"put", p}
	case store.Query:
		of = &opOf[store.Query]{"search", op}
	case store.NamespaceQuery:
		of = &opOf[store.NamespaceQuery]{"namespaces", op}
	}
	e.append(of)
}

func (e *encoder) index(x *indexOf) {
	if x.off {
		e.b = msgp.AppendBool(e.b, false)
		return
	}
	e.append(&x.paths)
}

func (r *reader) op() store.Op {
	raw := r.raw()
	if r.err != nil {
		return nil
	}
	of, err := Decode[struct {
		Op string `msgpack:"op"`
	}](raw)
	r.fail(err)
	switch of.Op {
	case "get":
		return readOp[store.GetOp](r, raw)
	case "put":
		p := readOp[putOp](r, raw)
		op := store.PutOp{Namespace: p.Namespace, Key: p.Key, NoIndex: p.Index.off, IndexFields: p.Index.paths, TTL: p.TTL}
		if p.Value != nil {
			op.Value = *p.Value
		}
		return op
	case "search":
		return readOp[store.Query](r, raw)
	case "namespaces":
		return readOp[store.NamespaceQuery](r, raw)
	}
	r.fail(malformed("unknown operation %q", of.Op))
	return nil
}

func readOp[T any](r *reader, raw []byte) T {
	op, err := decode[opOf[T]](&reader{b: raw, strict: true})
	r.fail(err)
	return op.Of
}

func (r *reader) index(x *indexOf) {
	if r.err != nil || msgp.NextType(r.b) != msgp.BoolType {
		r.value(reflect.ValueOf(&x.paths).Elem(), &field{omit: true})
		return
	}
	if x.off = true; r.boolean() {
		r.fail(malformed("index is false or a list of paths"))
	}
}

// EncodeResults is the answer of store_batch to these operations. The error is that of
// serializing a value.
func EncodeResults(ops []store.Op, results []store.Result) ([]byte, error) {
	e := encoder{b: msgp.AppendArrayHeader(nil, uint32(len(results)))}
	for i := range results {
		e.append(answerOf(ops[i], &results[i]))
	}
	return e.b, e.err
}

// DecodeResults reads the answer of store_batch to these operations.
func DecodeResults(b []byte, ops []store.Op) ([]store.Result, error) {
	r := &reader{b: b}
	r.arrayOf(len(ops))
	out := make([]store.Result, len(ops))
	for i := 0; i < len(ops) && r.err == nil; i++ {
		r.into(answerOf(ops[i], &out[i]))
	}
	return out, r.end()
}

// answerOf is the field of a result that answers an operation.
func answerOf(op store.Op, res *store.Result) any {
	switch op.(type) {
	case store.Query:
		return &res.Found
	case store.NamespaceQuery:
		return &res.Namespaces
	}
	return &res.Item
}

// item is a store.Item, or a store.Found with its score.
type item struct {
	Namespace store.Namespace `msgpack:"namespace"`
	Key       string          `msgpack:"key"`
	Value     map[string]any  `msgpack:"value"`
	CreatedAt time.Time       `msgpack:"created_at,omitempty"`
	UpdatedAt time.Time       `msgpack:"updated_at,omitempty"`
	ExpiresAt time.Time       `msgpack:"expires_at,omitempty"`
	Score     *float64        `msgpack:"score,omitempty"`
}

func itemOf(f *store.Found) *item {
	it := &item{Namespace: f.Namespace, Key: f.Key, Value: f.Value, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, ExpiresAt: f.ExpiresAt}
	if f.Scored {
		it.Score = &f.Score
	}
	return it
}

func (r *reader) item() store.Found {
	var it item
	r.into(&it)
	f := store.Found{Item: store.Item{Namespace: it.Namespace, Key: it.Key, Value: it.Value, CreatedAt: it.CreatedAt, UpdatedAt: it.UpdatedAt,
		ExpiresAt: it.ExpiresAt}}
	if it.Score != nil {
		f.Score, f.Scored = *it.Score, true
	}
	return f
}
