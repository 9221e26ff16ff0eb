package storetest

import (
	"fmt"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%v", err)
	}
}

func (e *env) restore(items ...store.Item) error {
	return e.s.(store.Restorer).Restore(e.ctx, items...)
}

// past is an item that another store had.
func past(key string, v value) store.Item {
	return store.Item{Namespace: ns("old/days"), Key: key, Value: v,
		CreatedAt: time.Date(2021, 2, 3, 4, 5, 6, 7000, time.UTC), UpdatedAt: time.Date(2022, 3, 4, 5, 6, 7, 8000, time.UTC)}
}

var restoreCases = []testCase{
	{id: "restore", name: "an item keeps its times and its life", fn: func(e *env) {
		forEver, renewed, ending := past("for ever", value{"n": int64(1)}), past("renewed", value{"n": 2.5}), past("ending", value{"n": "three"})
		renewed.ExpiresAt, renewed.TTL = time.Date(2098, 1, 1, 0, 0, 0, 0, time.UTC), 90*time.Second
		ending.ExpiresAt = time.Date(2099, 1, 1, 0, 0, 0, 1000, time.UTC)
		e.put("old", "other", value{})
		e.ok(e.restore(forEver, renewed, ending))
		for _, want := range []store.Item{forEver, renewed, ending} {
			got, err := e.s.Get(e.ctx, want.Namespace, want.Key, store.NoRefresh())
			e.ok(err)
			e.equal("item", *got, want)
		}
		e.finds(store.Query{Prefix: ns("old/days"), ByKey: true, NoRefresh: true}, "ending", "for ever", "renewed")
	}},
	{id: "restore", name: "a restored item replaces, and is put again like any", fn: func(e *env) {
		it := past("k", value{"n": int64(1)})
		e.ok(e.s.Put(e.ctx, it.Namespace, it.Key, value{"n": int64(0), "more": true}, store.TTL(time.Hour)))
		e.ok(e.restore(it))
		got, err := e.s.Get(e.ctx, it.Namespace, it.Key)
		e.ok(err)
		e.equal("item", *got, it)
		e.ok(e.s.Put(e.ctx, it.Namespace, it.Key, value{"n": int64(2)}))
		got, err = e.s.Get(e.ctx, it.Namespace, it.Key)
		e.ok(err)
		e.equal("created", got.CreatedAt, it.CreatedAt)
		if !got.UpdatedAt.After(it.UpdatedAt) {
			e.Errorf("it was put again at %v", got.UpdatedAt)
		}
	}},
	{id: "restore", name: "an item that has expired is restored as that", fn: func(e *env) {
		it := past("k", value{"n": int64(1)})
		it.ExpiresAt, it.TTL = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute
		e.ok(e.restore(it, past("live", value{})))
		e.finds(store.Query{Prefix: ns("old/days"), ByKey: true}, "live")
	}},
	{id: "restore", name: "all or nothing, and bad items are refused", fn: func(e *env) {
		good := past("good", value{"n": int64(1)})
		for what, change := range map[string]func(*store.Item){
			"no value":      func(it *store.Item) { it.Value = nil },
			"no creation":   func(it *store.Item) { it.CreatedAt = time.Time{} },
			"no update":     func(it *store.Item) { it.UpdatedAt = time.Time{} },
			"a distant end": func(it *store.Item) { it.ExpiresAt = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) },
			"a lost end":    func(it *store.Item) { it.TTL = time.Hour },
			"a TTL below 0": func(it *store.Item) { it.TTL, it.ExpiresAt = -1, time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC) },
			"twice":         func(it *store.Item) { it.Key = "good" },
		} {
			bad := past("bad", value{"n": int64(2)})
			change(&bad)
			e.refused(what, e.restore(good, bad), store.ErrInvalid)
		}
		long := past(fmt.Sprintf("%070000d", 1), value{})
		e.refused("a long key", e.restore(good, long), saver.ErrTooLarge)
		e.empty()
		e.ok(e.restore())
	}},
}
