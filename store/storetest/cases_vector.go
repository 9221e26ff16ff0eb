package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stele-go/stele/store"
)

const letters = 26

// countLetters is an embedder that needs no model: how often each letter stands in
// the text.
func countLetters(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = make([]float32, letters)
		for _, r := range strings.ToLower(t) {
			if r >= 'a' && r <= 'z' {
				out[i][r-'a']++
			}
		}
	}
	return out, nil
}

func indexed(m store.Metric, fields ...string) store.Options {
	return store.Options{Index: &store.Index{Dims: letters, Embed: countLetters, Fields: fields, Metric: m}}
}

func text(s string) value { return value{"text": s} }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }

var vectorCases = []testCase{
	{id: "STO-12", name: "nearest first", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "1", text("aaa"))
		e.put("d", "2", text("aab"))
		e.put("d", "3", text("bbb"))
		found := e.search(store.Query{Prefix: ns("d"), Text: "a"})
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "1", "2", "3")
		for i, want := range []float64{1, 2 / math.Sqrt(5), 0} {
			if !found[i].Scored || !near(found[i].Score, want) {
				e.Errorf("score %d is %v, want %v", i, found[i].Score, want)
			}
		}
		e.finds(store.Query{Prefix: ns("d"), Text: "b"}, "3", "2", "1")
		e.put("d", "3", text("aaaa"))
		e.delete("d", "1")
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "3", "2")
	}},
	{id: "STO-12", name: "dot product and distance", opts: indexed(store.Dot, "text"), fn: func(e *env) {
		e.put("d", "short", text("a"))
		e.put("d", "long", text("aaab"))
		found := e.search(store.Query{Text: "a"})
		if found[0].Key != "long" || !near(found[0].Score, 3) || !near(found[1].Score, 1) {
			e.Errorf("dot: %+v", found)
		}
	}},
	{id: "STO-12", name: "distance", opts: indexed(store.L2, "text"), fn: func(e *env) {
		e.put("d", "far", text("aaab"))
		e.put("d", "same", text("a"))
		found := e.search(store.Query{Text: "a"})
		if found[0].Key != "same" || !near(found[0].Score, 0) || !near(found[1].Score, -math.Sqrt(5)) {
			e.Errorf("l2: %+v", found)
		}
	}},
	{id: "STO-12", name: "pages", opts: indexed("", "text"), fn: func(e *env) {
		for i := range 9 {
			e.put(fmt.Sprintf("d/%d", i%3), fmt.Sprint(i), text("a"+strings.Repeat("b", i)))
		}
		var all []string
		for page := range 4 {
			for _, f := range e.search(store.Query{Prefix: ns("d"), Text: "a", Limit: 3, Offset: 3 * page}) {
				all = append(all, f.Key)
			}
		}
		e.equal("pages", all, strings.Split("012345678", ""))
	}},
	{id: "STO-12", name: "equal scores keep an order", opts: indexed("", "text"), fn: func(e *env) {
		for i := range 6 {
			e.put("d", fmt.Sprint(i), text("same"))
		}
		e.finds(store.Query{Prefix: ns("d"), Text: "same", Limit: 3}, "5", "4", "3")
		e.finds(store.Query{Prefix: ns("d"), Text: "same", Limit: 3, Offset: 3}, "2", "1", "0")
	}},
	{id: "STO-12", name: "filters", opts: indexed("", "text"), fn: func(e *env) {
		for i := range 6 {
			e.put("d", fmt.Sprint(i), value{"text": strings.Repeat("a", i+1) + "b", "odd": i%2 == 1, "more": value{"i": i}})
		}
		e.finds(store.Query{Prefix: ns("d"), Text: "a", Limit: 2, Filter: value{"odd": false}}, "4", "2")
		e.finds(store.Query{Prefix: ns("d"), Text: "a", Filter: value{"more": value{"i": value{"$lt": 2}}}}, "1", "0")
	}},
	{id: "STO-12", name: "items without a vector come last, unscored", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "no", text("aaaa"), store.NoIndex())
		e.put("d", "missing", value{"other": "aaaa"})
		e.put("d", "yes", text("zab"))
		found := e.search(store.Query{Prefix: ns("d"), Text: "a"})
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "yes", "missing", "no")
		if !found[0].Scored || found[1].Scored || found[2].Scored {
			e.Errorf("scored: %+v", found)
		}
		e.finds(store.Query{Prefix: ns("d"), Text: "a", Limit: 1}, "yes")
		e.finds(store.Query{Prefix: ns("d"), Text: "a", Offset: 1, Limit: 1}, "missing")
		if found := e.search(store.Query{Prefix: ns("d")}); found[0].Scored {
			e.Errorf("a search without a query scores: %+v", found)
		}
	}},
	{id: "STO-12", name: "fields of the item", opts: indexed("", "a", "b[*].c"), fn: func(e *env) {
		e.put("d", "1", value{"a": "xx", "b": []any{value{"c": "yy"}, value{"c": "zz"}}})
		for _, q := range []string{"x", "y", "z"} {
			if f := e.search(store.Query{Text: q}); !near(f[0].Score, 1) {
				e.Errorf("the nearest vector of %q scores %v", q, f[0].Score)
			}
		}
		e.put("d", "2", value{"a": "xx", "own": "qq"}, store.IndexFields("own"))
		found := e.search(store.Query{Text: "q"})
		if found[0].Key != "2" || !near(found[0].Score, 1) || !near(found[1].Score, 0) {
			e.Errorf("own fields: %+v", found)
		}
	}},
	{id: "STO-12", name: "the whole value by default", opts: indexed(""), fn: func(e *env) {
		e.put("d", "1", value{"q": value{"w": "qq"}})
		e.put("d", "2", value{"e": "r"})
		e.finds(store.Query{Prefix: ns("d"), Text: "qw"}, "1", "2")
	}},
	{id: "STO-12", name: "a vector as the query", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "1", text("aaa"))
		e.put("d", "2", text("bbb"))
		v := make([]float32, letters)
		v[1] = 7
		e.finds(store.Query{Prefix: ns("d"), Vector: v}, "2", "1")
	}},
	{id: "STO-12", name: "zero vectors", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "zero", text("123"))
		e.put("d", "one", text("a"))
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "one", "zero")
		if f := e.search(store.Query{Text: "!"}); f[0].Score != 0 || f[1].Score != 0 || !f[0].Scored {
			e.Errorf("scores of nothing: %+v", f)
		}
	}},
	{id: "STO-12", name: "expired items are not found", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "1", text("a"), store.TTL(time.Second))
		e.put("d", "2", text("ab"))
		e.finds(store.Query{Prefix: ns("d"), Text: "a", NoRefresh: true}, "1", "2")
		e.clock.pass(2 * time.Second)
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "2")
		e.sweeps(1)
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "2")
	}},
	{id: "STO-12", name: "renewed items keep their vectors", opts: indexed("", "text"), fn: func(e *env) {
		e.put("d", "1", text("aab"), store.TTL(time.Hour))
		e.finds(store.Query{Prefix: ns("d"), Text: "a"}, "1")
		e.clock.pass(30 * time.Minute)
		e.get("d", "1")
		if f := e.search(store.Query{Text: "a"}); !near(f[0].Score, 2/math.Sqrt(5)) {
			e.Errorf("score %v", f[0].Score)
		}
	}},
	{id: "vectors", name: "unusable vectors are refused", opts: store.Options{Index: &store.Index{Dims: 2, Embed: brokenEmbedder}}, fn: func(e *env) {
		for _, how := range []string{"short", "long", "nan", "inf", "huge", "few"} {
			e.refused("put "+how, e.s.Put(e.ctx, ns("d"), "k", value{"how": how}), store.ErrVector)
			_, err := e.s.Search(e.ctx, store.Query{Text: how})
			e.refused("search "+how, err, store.ErrVector)
		}
		e.refused("put fail", e.s.Put(e.ctx, ns("d"), "k", value{"how": "fail"}), errEmbed)
		for _, v := range [][]float32{{}, {1}, {1, 2, 3}, {float32(math.NaN()), 1}, {float32(math.Inf(-1)), 1}} {
			_, err := e.s.Search(e.ctx, store.Query{Vector: v})
			e.refused(fmt.Sprintf("search %v", v), err, store.ErrVector)
		}
		e.empty()
	}},
	{id: "vectors", name: "a query needs an index", fn: func(e *env) {
		e.put("d", "1", text("a"))
		for _, q := range []store.Query{{Text: "a"}, {Vector: []float32{1}}} {
			_, err := e.s.Search(e.ctx, q)
			e.refused("search", err, store.ErrNoIndex)
		}
	}},
}

var errEmbed = errors.New("the embedder is down")

// brokenEmbedder fails in the way that the text names.
func brokenEmbedder(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		switch {
		case strings.Contains(t, "short"):
			out[i] = []float32{1}
		case strings.Contains(t, "long"):
			out[i] = []float32{1, 2, 3}
		case strings.Contains(t, "nan"):
			out[i] = []float32{1, float32(math.NaN())}
		case strings.Contains(t, "inf"):
			out[i] = []float32{float32(math.Inf(1)), 0}
		case strings.Contains(t, "huge"):
			out[i] = []float32{1e30, 0}
		case strings.Contains(t, "few"):
			return nil, nil
		default:
			return nil, errEmbed
		}
	}
	return out, nil
}
