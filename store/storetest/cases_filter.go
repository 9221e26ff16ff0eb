package storetest

import (
	"math"
	"time"

	"github.com/stele-go/stele/store"
)

// people are items with fields of every kind.
func people(e *env) {
	e.Helper()
	e.put("p", "ann", value{"age": 9, "name": "Ann", "ok": true, "score": 1.5, "tags": []any{"a", "b"}, "home": value{"city": "Rome", "zip": 1}})
	e.put("p", "bob", value{"age": 10, "name": "bob", "ok": false, "score": -2, "tags": []any{"a"}, "home": value{"city": "Oslo"}})
	e.put("p", "cyd", value{"age": 100, "name": "Cyd", "ok": true, "score": nil, "big": uint64(math.MaxUint64)})
	e.put("p", "dee", value{"age": "10", "name": "Dee", "ok": 1, "born": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})
}

func where(f value) store.Query { return store.Query{Prefix: ns("p"), Filter: f, ByKey: true} }

var filterCases = []testCase{
	{id: "STO-09", name: "numbers compare as numbers", fn: func(e *env) {
		people(e)
		e.finds(where(value{"age": value{"$gt": 9}}), "bob", "cyd")
		e.finds(where(value{"age": value{"$gte": 9.5, "$lt": 100}}), "bob")
		e.finds(where(value{"age": value{"$lte": 10}}), "ann", "bob")
		e.finds(where(value{"age": 10}), "bob")
		e.finds(where(value{"age": 10.0}), "bob")
		e.finds(where(value{"age": "10"}), "dee")
		e.finds(where(value{"score": value{"$lt": 0}}), "bob")
		e.finds(where(value{"score": value{"$gt": -1000}}), "ann", "bob")
		e.finds(where(value{"big": value{"$gt": int64(math.MaxInt64)}}), "cyd")
		e.finds(where(value{"big": float64(math.MaxUint64)}))
		e.finds(where(value{"big": value{"$lt": float64(math.MaxUint64)}}), "cyd")
		e.finds(where(value{"big": uint64(math.MaxUint64)}), "cyd")
		e.finds(where(value{"age": value{"$lt": math.Inf(1), "$gt": math.Inf(-1)}}), "ann", "bob", "cyd")
	}},
	{id: "STO-09", name: "booleans are no numbers", fn: func(e *env) {
		people(e)
		e.finds(where(value{"ok": true}), "ann", "cyd")
		e.finds(where(value{"ok": value{"$gt": false}}), "ann", "cyd")
		e.finds(where(value{"ok": 1}), "dee")
		e.finds(where(value{"ok": value{"$ne": true}}), "bob", "dee")
		e.finds(where(value{"ok": value{"$lte": true}}), "ann", "bob", "cyd")
	}},
	{id: "STO-09", name: "text by bytes, times by instant", fn: func(e *env) {
		people(e)
		e.finds(where(value{"name": value{"$lt": "b"}}), "ann", "cyd", "dee")
		e.finds(where(value{"name": value{"$gte": "Cyd", "$lte": "Dee"}}), "cyd", "dee")
		e.finds(where(value{"born": value{"$gt": time.Date(1999, 12, 31, 23, 0, 0, 0, time.FixedZone("x", -3600))}}))
		e.finds(where(value{"born": value{"$gte": time.Date(1999, 12, 31, 23, 0, 0, 0, time.FixedZone("x", -3600))}}), "dee")
	}},
	{id: "STO-09", name: "equality and nil", fn: func(e *env) {
		people(e)
		e.finds(where(value{"name": value{"$eq": "bob"}}), "bob")
		e.finds(where(value{"name": value{"$ne": "bob"}}), "ann", "cyd", "dee")
		e.finds(where(value{"score": nil}), "cyd", "dee")
		e.finds(where(value{"score": value{"$ne": nil}}), "ann", "bob")
		e.finds(where(value{"none": value{"$eq": nil}}), "ann", "bob", "cyd", "dee")
		e.finds(where(value{"none": value{"$ne": 1}}), "ann", "bob", "cyd", "dee")
		e.finds(where(value{"none": value{"$lt": 1}}))
		e.finds(where(value{"ok": true, "age": value{"$gt": 9}}), "cyd")
		e.finds(where(value{}), "ann", "bob", "cyd", "dee")
	}},
	{id: "STO-09", name: "maps and lists", fn: func(e *env) {
		people(e)
		e.finds(where(value{"home": value{"city": "Rome"}}), "ann")
		e.finds(where(value{"home": value{}}), "ann", "bob")
		e.finds(where(value{"home": value{"zip": nil}}), "bob")
		e.finds(where(value{"home": value{"zip": value{"$gte": 1}}}), "ann")
		e.finds(where(value{"home": value{"$eq": value{"city": "Oslo"}}}), "bob")
		e.finds(where(value{"home": value{"$ne": value{"city": "Oslo"}}}), "ann", "cyd", "dee")
		e.finds(where(value{"tags": []any{"a"}}), "bob")
		e.finds(where(value{"tags": []any{"a", value{"$gt": "a"}}}), "ann")
		e.finds(where(value{"tags": []string{"a", "b"}}), "ann")
		e.finds(where(value{"name": []any{}}))
		e.finds(where(value{"name": value{"x": 1}}))
	}},
	{id: "STO-09", name: "nothing in a filter is code", fn: func(e *env) {
		people(e)
		for _, evil := range []string{"' OR 1=1 --", "1) OR (1=1", `"; DROP TABLE store; --`, "%", "_", "*"} {
			e.finds(where(value{"name": evil}))
			e.finds(where(value{evil: "x"}))
			e.finds(where(value{"name": value{"$eq": evil}}))
			e.finds(where(value{"age": value{"$gt": evil}}), onlyIf("10" > evil, "dee")...)
		}
	}},
	{id: "filters", name: "what the index does not keep", fn: func(e *env) {
		many := value{}
		for i := range 400 {
			many[string(rune('a'+i%26))+string(rune('a'+i/26))] = i
		}
		many["zz"] = "last"
		long := string(make([]byte, 4000))
		e.put("p", "many", many)
		e.put("p", "long", value{"text": long, "zz": "last", "bytes": []byte("raw")})
		e.finds(where(value{"zz": "last"}), "long", "many")
		e.finds(where(value{"zz": value{"$ne": "last"}}))
		e.finds(where(value{"text": long}), "long")
		e.finds(where(value{"text": value{"$ne": long}}), "many")
		e.finds(where(value{"zzz": nil, "zz": "last"}), "long", "many")
		e.finds(where(value{"bytes": []byte("raw")}), "long")
	}},
	{id: "filters", name: "what cannot be compared is refused", fn: func(e *env) {
		people(e)
		for _, bad := range []value{{"a": value{"$foo": 1}}, {"a": value{"$eq": 1, "x": 2}}, {"a": value{"$gt": nil}}, {"a": value{"$lt": []any{}}},
			{"a": value{"$gte": value{}}}, {"a": math.NaN()}, {"a": value{"$lt": math.NaN()}}, {"a": value{"$eq": []any{math.NaN()}}},
			{"a": func() {}}, {"a": value{"b": value{"$foo": 1}}}, {"a": []any{value{"$foo": 1}}}, {"a": cyclic()},
			{"$or": []any{value{"a": 1}}}, {"$eq": 1}, {"a": 1, "$": 1}} {
			_, err := e.s.Search(e.ctx, where(bad))
			e.refused("search", err, store.ErrInvalid)
		}
	}},
}

func cyclic() value {
	v := value{}
	v["v"] = v
	return v
}

func onlyIf(cond bool, keys ...string) []string {
	if cond {
		return keys
	}
	return nil
}
