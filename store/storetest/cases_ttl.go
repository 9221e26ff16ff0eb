package storetest

import (
	"time"

	"github.com/stele-go/stele/store"
)

func (e *env) sweeps(want int) {
	e.Helper()
	n, err := e.s.(store.Sweeper).Sweep(e.ctx)
	if err != nil || n != want {
		e.Fatalf("sweep: %d removed, %v; want %d", n, err, want)
	}
}

var ttlCases = []testCase{
	{id: "STO-10", name: "gone after a second", fn: func(e *env) {
		e.put("a", "k", value{"v": 1}, store.TTL(time.Second))
		e.put("a", "stays", value{})
		if left := e.get("a", "k").ExpiresAt.Sub(e.clock.Now()); left <= 0 || left > time.Second {
			e.Errorf("expires in %v", left)
		}
		e.sweeps(0)
		e.clock.pass(1100 * time.Millisecond)
		e.gone("a", "k")
		e.sweeps(1)
		e.sweeps(0)
		e.gone("a", "k")
		e.get("a", "stays")
	}},
	{id: "STO-10", name: "a read renews", opts: store.Options{TTL: time.Second}, fn: func(e *env) {
		e.put("a", "k", value{"v": 1})
		for range 3 {
			e.clock.pass(700 * time.Millisecond)
			e.sweeps(0)
			e.get("a", "k")
		}
		for range 3 {
			e.clock.pass(700 * time.Millisecond)
			e.finds(store.Query{}, "a:k")
		}
		e.clock.pass(700 * time.Millisecond)
		e.equal("value", e.get("a", "k").Value, value{"v": int64(1)})
		e.clock.pass(1100 * time.Millisecond)
		e.sweeps(1)
	}},
	{id: "STO-10", name: "no renewal when it is off", opts: store.Options{TTL: time.Second}, fn: func(e *env) {
		e.put("a", "k", value{})
		before := e.get("a", "k").ExpiresAt
		e.clock.pass(700 * time.Millisecond)
		e.equal("expiry", e.get("a", "k", store.NoRefresh()).ExpiresAt, before)
		e.search(store.Query{NoRefresh: true})
		e.batch(store.GetOp{Namespace: ns("a"), Key: "k", NoRefresh: true})
		e.clock.pass(400 * time.Millisecond)
		e.gone("a", "k")
	}},
	{id: "STO-10", name: "no renewal by option", opts: store.Options{TTL: time.Second, NoRefreshOnRead: true}, fn: func(e *env) {
		e.put("a", "k", value{})
		e.clock.pass(700 * time.Millisecond)
		e.get("a", "k")
		e.clock.pass(400 * time.Millisecond)
		e.gone("a", "k")
	}},
	{id: "STO-10", name: "a renewal changes nothing else", fn: func(e *env) {
		e.put("a", "k", value{"v": "x"}, store.TTL(time.Hour))
		before := e.get("a", "k")
		e.clock.pass(30 * time.Minute)
		after := e.get("a", "k")
		if !after.ExpiresAt.After(before.ExpiresAt) {
			e.Errorf("expires %v, then %v", before.ExpiresAt, after.ExpiresAt)
		}
		if again := e.get("a", "k"); again.ExpiresAt != after.ExpiresAt {
			e.Errorf("a second read at once renews too: %v, then %v", after.ExpiresAt, again.ExpiresAt)
		}
		after.ExpiresAt = before.ExpiresAt
		e.equal("item", after, before)
		e.finds(store.Query{Filter: value{"v": "x"}}, "a:k")
	}},
	{id: "STO-10", name: "a put sets the life anew", opts: store.Options{TTL: time.Hour}, fn: func(e *env) {
		e.put("a", "k", value{}, store.TTL(time.Second))
		e.put("a", "k", value{}, store.TTL(-1))
		if x := e.get("a", "k").ExpiresAt; !x.IsZero() {
			e.Errorf("for ever expires %v", x)
		}
		e.put("a", "k", value{})
		e.clock.pass(59 * time.Minute)
		e.get("a", "k", store.NoRefresh())
		e.clock.pass(2 * time.Minute)
		e.gone("a", "k")
		e.put("a", "k", value{"again": true})
		if it := e.get("a", "k"); it.CreatedAt != it.UpdatedAt {
			e.Errorf("an item that expired lives on as %+v", it)
		}
	}},
	{id: "STO-11", name: "expired items are hidden", fn: func(e *env) {
		e.put("a", "k", value{}, store.TTL(time.Second))
		e.put("b", "k", value{}, store.TTL(time.Hour))
		e.put("c", "k", value{})
		e.clock.pass(2 * time.Second)
		e.gone("a", "k")
		e.finds(store.Query{ByKey: true}, "b:k", "c:k")
		e.lists(store.NamespaceQuery{}, "b", "c")
		if r := e.batch(store.GetOp{Namespace: ns("a"), Key: "k"}); r[0].Item != nil {
			e.Errorf("a batch sees %+v", r[0].Item)
		}
		e.sweeps(1)
		e.lists(store.NamespaceQuery{}, "b", "c")
	}},
	{id: "STO-11", name: "or visible until swept", opts: store.Options{ShowExpired: true}, fn: func(e *env) {
		e.put("a", "k", value{}, store.TTL(time.Second))
		e.clock.pass(2 * time.Second)
		before := e.get("a", "k").ExpiresAt
		e.finds(store.Query{}, "a:k")
		e.lists(store.NamespaceQuery{}, "a")
		e.equal("only live items are renewed", e.get("a", "k").ExpiresAt, before)
		e.sweeps(1)
		e.gone("a", "k")
		e.empty()
	}},
	{id: "STO-11", name: "many at once", fn: func(e *env) {
		var ops []store.Op
		for i := range 2500 {
			ops = append(ops, store.PutOp{Namespace: ns("a"), Key: string(rune('a' + i)), Value: value{}, TTL: time.Second})
		}
		e.batch(ops...)
		e.clock.pass(2 * time.Second)
		e.put("a", string(rune('a'+7)), value{}, store.TTL(time.Hour))
		e.sweeps(2499)
		e.finds(store.Query{}, "a:h")
	}},
}
