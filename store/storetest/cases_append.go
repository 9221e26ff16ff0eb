package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/store"
)

func (e *env) append(path, topic, once string, v value) {
	e.Helper()
	e.ok(e.s.(store.Appender).Append(e.ctx, ns(path), topic, once, v))
}

// topic is what was appended to a topic, in order: the field n of each.
func (e *env) topic(path string, want ...int64) {
	e.Helper()
	got := []int64{}
	for _, f := range e.search(store.Query{Prefix: ns(path), Limit: store.NoLimit, ByKey: true}) {
		got = append(got, f.Value["n"].(int64))
	}
	e.equal(path, got, append([]int64{}, want...))
}

func n(i int) value { return value{"n": int64(i)} }

var appendCases = []testCase{
	{id: "append", name: "the order is that of the calls, whatever the clock does", opts: store.Options{TTL: time.Minute}, fn: func(e *env) {
		for i := range 6 {
			e.append("box", "ab"[i%2:i%2+1], "", n(i))
			e.clock.pass(-time.Hour)
		}
		e.topic("box/a", 0, 2, 4)
		e.topic("box/b", 1, 3, 5)
		first := e.search(store.Query{Prefix: ns("box/a"), Limit: 1, ByKey: true})[0].Item
		for _, f := range e.search(store.Query{Prefix: ns("box/a"), Limit: store.NoLimit}) {
			e.delete("box/a", f.Key)
		}
		e.append("box", "a", "", n(6))
		e.put("box/a", first.Key, first.Value) // it was there before, and is so again
		e.topic("box/a", 0, 6)
		e.append("other", "a", "", n(7))
		e.topic("box/a", 0, 6)
		e.clock.pass(48 * time.Hour)
		e.gone("box/a", first.Key)
		e.topic("box/a", 6) // it does not expire
	}},
	{id: "append", name: "once", fn: func(e *env) {
		e.append("box", "a", "k", n(1))
		e.append("box", "a", "k", n(2))
		e.append("box", "b", "k", n(3))
		e.append("box", "b", "l", n(4))
		e.append("other", "a", "k", n(5))
		e.topic("box/a", 1)
		e.topic("box/b", 4)
		e.delete("box/a", e.search(store.Query{Prefix: ns("box/a")})[0].Key)
		e.append("box", "a", "k", n(6))
		e.topic("box/a")
		for _, f := range e.search(store.Query{Prefix: ns("box"), Limit: store.NoLimit}) {
			e.ok(e.s.Delete(e.ctx, f.Namespace, f.Key))
		}
		e.append("box", "a", "k", n(7))
		e.topic("box/a", 7)
	}},
	{id: "append", name: "many at once", fn: func(e *env) {
		const callers, each = 8, 20
		var all sync.WaitGroup
		errs := make(chan error, 2*callers*each)
		for c := range callers {
			all.Go(func() {
				for i := range each {
					errs <- e.s.(store.Appender).Append(e.ctx, ns("box"), "a", "", n(c*each+i))
					errs <- e.s.(store.Appender).Append(e.ctx, ns("box"), "b", fmt.Sprint(i), n(i))
				}
			})
		}
		all.Wait()
		for range callers * each * 2 {
			e.ok(<-errs)
		}
		var got [callers][]int64
		for _, f := range e.search(store.Query{Prefix: ns("box/a"), Limit: store.NoLimit, ByKey: true}) {
			i := f.Value["n"].(int64)
			got[i/each] = append(got[i/each], i)
		}
		for c := range got {
			if len(got[c]) != each || !slices.IsSorted(got[c]) {
				e.Errorf("caller %d: %v", c, got[c])
			}
		}
		if found := e.search(store.Query{Prefix: ns("box/b"), Limit: store.NoLimit}); len(found) != each {
			e.Errorf("%d under %d names that count once", len(found), each)
		}
	}},
	{id: "append", name: "bad arguments are refused", fn: func(e *env) {
		for _, bad := range []struct {
			ns    store.Namespace
			topic string
			v     value
		}{{ns("box"), "", n(1)}, {ns("box"), "a.b", n(1)}, {store.Namespace{""}, "a", n(1)}, {ns("box"), "a", nil}} {
			e.refused(fmt.Sprintf("%+v", bad), e.s.(store.Appender).Append(e.ctx, bad.ns, bad.topic, "", bad.v), store.ErrInvalid)
		}
		e.empty()
	}},
}
