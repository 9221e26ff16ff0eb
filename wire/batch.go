package wire

import (
	"slices"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Batch are the parameters of store_batch.
type Batch struct {
	named
	Ops []store.Op
}

// opOf is an operation with the fields of all kinds.
type opOf struct {
	op     string
	get    store.GetOp
	put    store.PutOp
	query  store.Query
	spaces store.NamespaceQuery

	limit, offset int
	noRefresh     bool
	fields        map[string]bool // that were given
}

// opFields are the fields that each operation has.
var opFields = map[string][]string{
	"get":        {"namespace", "key", "refresh"},
	"put":        {"namespace", "key", "value", "index", "ttl"},
	"search":     {"prefix", "filter", "limit", "offset", "query", "refresh", "vector", "by_key"},
	"namespaces": {"match", "max_depth", "limit", "offset"},
}

// AppendTo appends the parameters. The error is that of serializing a value.
func (p *Batch) AppendTo(b []byte) ([]byte, error) {
	f := beginFields(b)
	f.field("ops")
	f.b = msgp.AppendArrayHeader(f.b, uint32(len(p.Ops)))
	for _, op := range p.Ops {
		var err error
		if f.b, err = appendOp(f.b, op); err != nil {
			return b, err
		}
	}
	p.named.appendTo(&f)
	return f.end(), nil
}

func appendOp(b []byte, op store.Op) ([]byte, error) {
	f := beginFields(b)
	refresh := func(off bool) {
		if off {
			f.field("refresh")
			f.b = msgp.AppendBool(f.b, false)
		}
	}
	switch op := op.(type) {
	case store.GetOp:
		f.name("op", "get")
		f.field("namespace")
		f.b = appendNames(f.b, op.Namespace)
		f.always("key", op.Key)
		refresh(op.NoRefresh)
	case store.PutOp:
		f.name("op", "put")
		f.field("namespace")
		f.b = appendNames(f.b, op.Namespace)
		f.always("key", op.Key)
		if op.Value != nil {
			t, err := serde.Default().Encode(op.Value)
			if err != nil {
				return b, err
			}
			f.typed("value", t)
		}
		switch {
		case op.NoIndex:
			f.field("index")
			f.b = msgp.AppendBool(f.b, false)
		case op.IndexFields != nil:
			f.names("index", op.IndexFields)
		}
		f.seconds("ttl", op.TTL)
	case store.Query:
		f.name("op", "search")
		f.field("prefix")
		f.b = appendNames(f.b, op.Prefix)
		if err := f.plain("filter", op.Filter); err != nil {
			return b, err
		}
		f.number("limit", int64(op.Limit))
		f.number("offset", int64(op.Offset))
		f.name("query", op.Text)
		if op.Vector != nil {
			f.field("vector")
			f.b = msgp.AppendArrayHeader(f.b, uint32(len(op.Vector)))
			for _, x := range op.Vector {
				f.b = msgp.AppendFloat32(f.b, x)
			}
		}
		f.boolean("by_key", op.ByKey)
		refresh(op.NoRefresh)
	case store.NamespaceQuery:
		f.name("op", "namespaces")
		f.field("match")
		f.b = msgp.AppendArrayHeader(f.b, uint32(len(op.Match)))
		for _, m := range op.Match {
			f.b = msgp.AppendArrayHeader(f.b, 2)
			f.b = appendName(f.b, string(m.Kind))
			f.b = appendNames(f.b, m.Path)
		}
		f.number("max_depth", int64(op.MaxDepth))
		f.number("limit", int64(op.Limit))
		f.number("offset", int64(op.Offset))
	}
	return f.end(), nil
}

// DecodeBatch reads the parameters of store_batch. A limit of 0 is the default of LangGraph's
// stores, as in package store.
func DecodeBatch(b []byte) (p Batch, err error) {
	r, a := &reader{b: b}, again(false)
	r.fields(true, func(name string) bool {
		if name != "ops" {
			return p.named.field(r, name, &a)
		}
		n := r.array()
		for range n {
			op := r.op()
			if r.err != nil {
				return true
			}
			p.Ops = append(p.Ops, op)
		}
		return true
	})
	p.named.settle(r, a)
	return p, r.end()
}

func (r *reader) op() store.Op {
	o := opOf{fields: map[string]bool{}}
	r.fields(true, func(name string) bool {
		if name != "op" {
			o.fields[name] = true
		}
		return r.opField(name, &o)
	})
	if r.err != nil {
		return nil
	}
	known, exists := opFields[o.op]
	if !exists {
		r.fail(malformed("unknown operation %q", o.op))
		return nil
	}
	for name := range o.fields {
		if !slices.Contains(known, name) {
			r.fail(malformed("operation %q has no field %q", o.op, name))
			return nil
		}
	}
	return o.whole()
}

func (r *reader) opField(name string, o *opOf) bool {
	switch name {
	case "op":
		o.op = r.name()
	case "namespace":
		o.get.Namespace = r.names()
	case "key":
		o.get.Key = r.name()
	case "refresh":
		o.noRefresh = !r.boolean()
	case "value":
		o.put.Value = r.plain()
	case "index":
		r.index(o)
	case "ttl":
		o.put.TTL = r.seconds()
	case "prefix":
		o.query.Prefix = r.names()
	case "filter":
		o.query.Filter = r.plain()
	case "query":
		o.query.Text = r.name()
	case "vector":
		n := r.array()
		for range n {
			o.query.Vector = append(o.query.Vector, float32(r.float()))
			if r.err != nil {
				return true
			}
		}
	case "by_key":
		o.query.ByKey = r.boolean()
	case "limit":
		o.limit = r.number()
	case "offset":
		o.offset = r.number()
	case "match":
		r.match(o)
	case "max_depth":
		o.spaces.MaxDepth = r.number()
	default:
		return false
	}
	return true
}

// index reads false, or a list of paths.
func (r *reader) index(o *opOf) {
	if r.err == nil && msgp.NextType(r.b) == msgp.BoolType {
		if r.boolean() {
			r.fail(malformed("index is false or a list of paths"))
		}
		o.put.NoIndex = true
		return
	}
	o.put.IndexFields = r.names()
}

func (r *reader) match(o *opOf) {
	n := r.array()
	for range n {
		r.arrayOf(2)
		m := store.Match{Kind: store.MatchKind(r.name()), Path: r.names()}
		if r.err != nil {
			return
		}
		o.spaces.Match = append(o.spaces.Match, m)
	}
}

func (o *opOf) whole() store.Op {
	switch o.op {
	case "get":
		o.get.NoRefresh = o.noRefresh
		return o.get
	case "put":
		o.put.Namespace, o.put.Key = o.get.Namespace, o.get.Key
		return o.put
	case "search":
		o.query.Limit, o.query.Offset, o.query.NoRefresh = o.limit, o.offset, o.noRefresh
		return o.query
	}
	o.spaces.Limit, o.spaces.Offset = o.limit, o.offset
	return o.spaces
}

// AppendResults appends the answer of store_batch to these operations. The error is that of
// serializing a value.
func AppendResults(b []byte, ops []store.Op, results []store.Result) ([]byte, error) {
	b = msgp.AppendArrayHeader(b, uint32(len(results)))
	var err error
	for i := range results {
		switch ops[i].(type) {
		case store.Query:
			b = msgp.AppendArrayHeader(b, uint32(len(results[i].Found)))
			for k := range results[i].Found {
				if b, err = appendItem(b, &results[i].Found[k].Item, &results[i].Found[k]); err != nil {
					return nil, err
				}
			}
		case store.NamespaceQuery:
			b = msgp.AppendArrayHeader(b, uint32(len(results[i].Namespaces)))
			for _, ns := range results[i].Namespaces {
				b = appendNames(b, ns)
			}
		default:
			if results[i].Item == nil {
				b = msgp.AppendNil(b)
			} else if b, err = appendItem(b, results[i].Item, nil); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func appendItem(b []byte, it *store.Item, found *store.Found) ([]byte, error) {
	t, err := serde.Default().Encode(it.Value)
	if err != nil {
		return b, err
	}
	f := beginFields(b)
	f.field("namespace")
	f.b = appendNames(f.b, it.Namespace)
	f.always("key", it.Key)
	f.typed("value", t)
	for _, at := range []struct {
		field string
		time  time.Time
	}{{"created_at", it.CreatedAt}, {"updated_at", it.UpdatedAt}, {"expires_at", it.ExpiresAt}} {
		if !at.time.IsZero() {
			f.field(at.field)
			f.b = appendTime(f.b, at.time)
		}
	}
	if found != nil && found.Scored {
		f.field("score")
		f.b = msgp.AppendFloat64(f.b, found.Score)
	}
	return f.end(), nil
}

func (r *reader) item(found *store.Found) {
	it := &found.Item
	r.fields(false, func(name string) bool {
		switch name {
		case "namespace":
			it.Namespace = r.names()
		case "key":
			it.Key = r.name()
		case "value":
			it.Value = r.plain()
		case "created_at":
			it.CreatedAt = r.time()
		case "updated_at":
			it.UpdatedAt = r.time()
		case "expires_at":
			it.ExpiresAt = r.time()
		case "score":
			found.Score, found.Scored = r.float(), true
		default:
			return false
		}
		return true
	})
}

// DecodeResults reads the answer of store_batch to these operations.
func DecodeResults(b []byte, ops []store.Op) ([]store.Result, error) {
	r := &reader{b: b}
	r.arrayOf(len(ops))
	out := make([]store.Result, len(ops))
	for i := range ops {
		if r.err != nil {
			return nil, r.err
		}
		if r.isNil() {
			continue
		}
		switch ops[i].(type) {
		case store.Query:
			n := r.array()
			for range n {
				var found store.Found
				if r.item(&found); r.err != nil {
					return nil, r.err
				}
				out[i].Found = append(out[i].Found, found)
			}
		case store.NamespaceQuery:
			n := r.array()
			for range n {
				ns := r.names()
				if r.err != nil {
					return nil, r.err
				}
				out[i].Namespaces = append(out[i].Namespaces, ns)
			}
		default:
			var found store.Found
			r.item(&found)
			out[i].Item = &found.Item
		}
	}
	return out, r.end()
}

// AppendFound appends an item of a scan. The error is that of serializing its value.
func AppendFound(b []byte, f *store.Found) ([]byte, error) { return appendItem(b, &f.Item, f) }

// DecodeFound reads an item of a scan.
func DecodeFound(b []byte) (f store.Found, err error) {
	r := &reader{b: b}
	r.item(&f)
	return f, r.end()
}
