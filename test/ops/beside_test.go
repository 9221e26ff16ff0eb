package ops

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// What is found in stores and caches on a saver, and what is not, is counted with
// the saver; what is refused is not.
func TestItemsAndResultsAreCounted(t *testing.T) {
	d, _, _ := open(t, disk.Options{}, 0)
	defer mustClose(t, d)
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results, err := cache.On(d, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ns, there := store.Namespace{"a"}, cache.Key{NS: "n", Key: "k"}
	if err := errors.Join(items.Put(ctx, ns, "k", map[string]any{}), results.Set(ctx, cache.Entry{Key: there, Value: serde.Typed{Kind: "bytes"}})); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"k", "k", "none"} {
		if _, err := items.Get(ctx, ns, k); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if _, err := items.Batch(ctx, store.GetOp{Namespace: ns, Key: "none"}, store.GetOp{Namespace: ns, Key: "k"}, store.Query{}); err != nil {
		t.Fatal(err)
	}
	if _, err := items.Search(ctx, store.Query{}); err != nil {
		t.Fatal(err)
	}
	if _, err := items.Search(ctx, store.Query{Limit: -1}); !errors.Is(err, store.ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := results.Get(ctx, there, cache.Key{NS: "n", Key: "none"}, cache.Key{NS: "none", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	m := d.Metrics()
	if m.ItemHits != 3 || m.ItemMisses != 2 || m.ItemSearches.Count() != 2 || m.ResultHits != 1 || m.ResultMisses != 2 {
		t.Errorf("items %d found and %d not, %d searches; results %d found and %d not", m.ItemHits, m.ItemMisses, m.ItemSearches.Count(), m.ResultHits, m.ResultMisses)
	}
}
