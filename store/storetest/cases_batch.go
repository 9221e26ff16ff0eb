package storetest

import (
	"github.com/stele-go/stele/store"
)

var batchCases = []testCase{
	{id: "STO-05", name: "equal operations, and the last put of a key", fn: func(e *env) {
		e.put("a", "x", value{"v": "old"})
		res := e.batch(store.GetOp{Namespace: ns("a"), Key: "x"}, store.GetOp{Namespace: ns("a"), Key: "y"}, store.GetOp{Namespace: ns("a"), Key: "x"},
			store.PutOp{Namespace: ns("a"), Key: "b", Value: value{"v": 1}}, store.PutOp{Namespace: ns("a"), Key: "b", Value: value{"v": 2}},
			store.Query{Prefix: ns("a")}, store.Query{Prefix: ns("a")})
		e.equal("first get", res[0].Item, res[2].Item)
		if res[1].Item != nil {
			e.Fatalf("a missing item: %+v", res[1].Item)
		}
		e.equal("searches", res[5].Found, res[6].Found)
		res[0].Item.Value["v"] = "changed"
		e.equal("results share nothing", res[2].Item.Value, value{"v": "old"})
		e.equal("value", e.get("a", "b").Value, value{"v": int64(2)})
	}},
	{id: "STO-05", name: "put and delete of one key", fn: func(e *env) {
		e.put("a", "x", value{})
		e.batch(store.PutOp{Namespace: ns("a"), Key: "x", Value: value{"v": 1}}, store.PutOp{Namespace: ns("a"), Key: "x"},
			store.PutOp{Namespace: ns("a"), Key: "y"}, store.PutOp{Namespace: ns("a"), Key: "y", Value: value{"v": 2}})
		e.gone("a", "x")
		e.equal("value", e.get("a", "y").Value, value{"v": int64(2)})
	}},
	{id: "STO-06", name: "reads see the store before the puts", fn: func(e *env) {
		e.put("a", "old", value{"v": 1})
		res := e.batch(
			store.PutOp{Namespace: ns("a"), Key: "old", Value: value{"v": 2}}, store.GetOp{Namespace: ns("a"), Key: "old"},
			store.PutOp{Namespace: ns("b"), Key: "new", Value: value{"v": 3}}, store.GetOp{Namespace: ns("b"), Key: "new"},
			store.Query{Limit: 10}, store.NamespaceQuery{}, store.PutOp{Namespace: ns("c"), Key: "none"})
		e.equal("get", res[1].Item.Value, value{"v": int64(1)})
		if res[3].Item != nil {
			e.Errorf("a get sees a put of its batch: %+v", res[3].Item)
		}
		if len(res[4].Found) != 1 || res[4].Found[0].Value["v"] != int64(1) {
			e.Errorf("a search sees puts of its batch: %+v", res[4].Found)
		}
		e.equal("namespaces", res[5].Namespaces, []store.Namespace{ns("a")})
		for _, i := range []int{0, 2, 6} {
			if r := res[i]; r.Item != nil || r.Found != nil || r.Namespaces != nil {
				e.Errorf("a put gives %+v", r)
			}
		}
		e.equal("value", e.get("a", "old").Value, value{"v": int64(2)})
		e.equal("value", e.get("b", "new").Value, value{"v": int64(3)})
	}},
	{id: "STO-06", name: "one bad operation refuses the batch", fn: func(e *env) {
		good := store.PutOp{Namespace: ns("a"), Key: "k", Value: value{"v": 1}}
		for _, bad := range []store.Op{store.Query{Limit: -1}, store.Query{Filter: value{"a": value{"$no": 1}}}, store.NamespaceQuery{Limit: -1},
			store.PutOp{Namespace: ns("a"), Key: "f", Value: value{"f": func() {}}}, nil} {
			if _, err := e.s.Batch(e.ctx, good, bad); err == nil {
				e.Errorf("%+v is taken", bad)
			}
			e.empty()
		}
	}},
	{id: "STO-06", name: "an empty batch", fn: func(e *env) { e.batch() }},
}
