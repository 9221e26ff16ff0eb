package storetest

import (
	"fmt"

	"github.com/stele-go/stele/store"
)

// scan collects the keys of a scan, and calls between after each.
func (e *env) scan(q store.Query, between func(n int)) []string {
	e.Helper()
	var keys []string
	for f, err := range e.s.(store.Scanner).Scan(e.ctx, q) {
		if err != nil {
			e.Fatalf("scan: %v", err)
		}
		if f.Value["key"] != f.Key {
			e.Fatalf("the value of %q is %v", f.Key, f.Value)
		}
		keys = append(keys, f.Key)
		between(len(keys))
	}
	return keys
}

func (e *env) fill(n int) (keys []string) {
	e.Helper()
	for i := range n {
		keys = append(keys, fmt.Sprintf("%03d", i))
		e.put("s", keys[i], value{"key": keys[i], "even": i%2 == 0})
	}
	return keys
}

var scanCases = []testCase{
	{id: "STO-12", name: "a scan is one moment", fn: func(e *env) {
		keys := e.fill(30)
		got := e.scan(store.Query{ByKey: true}, func(n int) {
			e.put("s", fmt.Sprintf("%03d-new", n), value{})
			e.put("s", keys[30-n], value{"key": "changed"})
			if n > 1 {
				e.delete("s", keys[n-2])
			}
		})
		e.equal("keys", got, keys)
	}},
	{id: "STO-12", name: "scans stop, skip and filter", fn: func(e *env) {
		e.fill(20)
		even := store.Query{Prefix: ns("s"), Filter: value{"even": true}, ByKey: true, Offset: 2}
		e.equal("keys", e.scan(even, func(int) {}), []string{"004", "006", "008", "010", "012", "014", "016", "018"})
		even.Limit = 2
		e.equal("keys", e.scan(even, func(int) {}), []string{"004", "006"})
		for range e.s.(store.Scanner).Scan(e.ctx, store.Query{}) {
			break
		}
		n := 0
		for _, err := range e.s.(store.Scanner).Scan(e.ctx, store.Query{Limit: -1}) {
			e.refused("scan", err, store.ErrInvalid)
			n++
		}
		e.equal("errors", n, 1)
	}},
	{id: "STO-12", name: "pages by key survive writes", fn: func(e *env) {
		keys := e.fill(12)
		var got []string
		for page := range 4 {
			for _, f := range e.search(store.Query{Prefix: ns("s"), ByKey: true, Limit: 3, Offset: 3 * page}) {
				got = append(got, f.Key)
			}
			e.put("s", keys[5], value{"again": page})
		}
		e.equal("keys", got, keys)
	}},
}
