package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/stele-go/stele/store"
)

// putsOver is what a store that is an Appender has, too.
type putsOver interface {
	PutOver(ctx context.Context, was *store.Item, puts ...store.PutOp) (bool, error)
}

func (e *env) over(was *store.Item, want bool, v value) {
	e.Helper()
	ok, err := e.s.(putsOver).PutOver(e.ctx, was, store.PutOp{Namespace: was.Namespace, Key: was.Key, Value: v},
		store.PutOp{Namespace: ns("beside"), Key: "k", Value: v})
	e.ok(err)
	e.equal("put over", ok, want)
}

var overCases = []testCase{
	{id: "over", name: "an item that was replaced or removed is not put over", fn: func(e *env) {
		e.put("a", "k", n(1))
		was := e.get("a", "k")
		e.clock.pass(time.Second)
		e.over(was, true, n(2))
		e.equal("the item", e.get("a", "k").Value, n(2))
		e.equal("what was put with it", e.get("beside", "k").Value, n(2))
		e.over(was, false, n(3))
		e.equal("the item", e.get("a", "k").Value, n(2))
		e.equal("what was put with it", e.get("beside", "k").Value, n(2))
		was = e.get("a", "k")
		e.delete("a", "k")
		e.over(was, false, n(4))
		e.gone("a", "k")
		e.equal("what was put with it", e.get("beside", "k").Value, n(2))
	}},
	{id: "over", name: "of several callers one wins", fn: func(e *env) {
		e.put("a", "k", n(0))
		was := e.get("a", "k")
		e.clock.pass(time.Second)
		const callers = 8
		var all sync.WaitGroup
		won := make(chan bool, callers)
		for i := range callers {
			all.Go(func() {
				ok, err := e.s.(putsOver).PutOver(e.ctx, was, store.PutOp{Namespace: ns("a"), Key: "k", Value: n(i)},
					store.PutOp{Namespace: ns("beside"), Key: "k", Value: n(i)})
				if err != nil {
					e.Errorf("%v", err)
				}
				won <- ok
			})
		}
		all.Wait()
		winners := 0
		for range callers {
			if <-won {
				winners++
			}
		}
		e.equal("winners", winners, 1)
		e.equal("what was put with it", e.get("beside", "k").Value, e.get("a", "k").Value)
	}},
}
