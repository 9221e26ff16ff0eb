package storetest

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/store"
)

// watcher is a TB that notes whether a case failed.
type watcher struct {
	mu    sync.Mutex
	notes []string
}

func (w *watcher) Helper() {}

func (w *watcher) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *watcher) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

// failure runs one case and returns why it failed, "" if it passed.
func failure(c testCase, open func(store.Options) store.Store) string {
	w := &watcher{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(w, open)
	}()
	<-done
	return strings.Join(w.notes, "\n")
}

// mutant is a store with a bug.
type mutant struct {
	*store.Local
	opts   store.Options
	put    func(m *mutant, ns store.Namespace, key string, v map[string]any, opts []store.PutOption) error
	get    func(*store.Item) *store.Item
	search func(m *mutant, q store.Query) ([]store.Found, error)
	list   func(m *mutant, q store.NamespaceQuery) ([]store.Namespace, error)
	batch  func(m *mutant, ops []store.Op) ([]store.Result, error)
	sweep  func(n int) int

	restore func(m *mutant, it store.Item) error
}

func (m *mutant) put1(it store.Item) error {
	return m.Local.Put(ctx, it.Namespace, it.Key, it.Value, store.TTL(it.TTL))
}

func (m *mutant) Restore(ctx context.Context, items ...store.Item) error {
	if m.restore == nil {
		return m.Local.Restore(ctx, items...)
	}
	for _, it := range items {
		if err := m.restore(m, it); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutant) Put(ctx context.Context, ns store.Namespace, key string, v map[string]any, opts ...store.PutOption) error {
	if m.put != nil {
		return m.put(m, ns, key, v, opts)
	}
	return m.Local.Put(ctx, ns, key, v, opts...)
}

func (m *mutant) Get(ctx context.Context, ns store.Namespace, key string, opts ...store.GetOption) (*store.Item, error) {
	it, err := m.Local.Get(ctx, ns, key, opts...)
	if err == nil && m.get != nil {
		it = m.get(it)
	}
	return it, err
}

func (m *mutant) Search(ctx context.Context, q store.Query) ([]store.Found, error) {
	if m.search != nil {
		return m.search(m, q)
	}
	return m.Local.Search(ctx, q)
}

func (m *mutant) ListNamespaces(ctx context.Context, q store.NamespaceQuery) ([]store.Namespace, error) {
	if m.list != nil {
		return m.list(m, q)
	}
	return m.Local.ListNamespaces(ctx, q)
}

func (m *mutant) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	if m.batch != nil {
		return m.batch(m, ops)
	}
	return m.Local.Batch(ctx, ops...)
}

func (m *mutant) Sweep(ctx context.Context) (int, error) {
	n, err := m.Local.Sweep(ctx)
	if m.sweep != nil {
		n = m.sweep(n)
	}
	return n, err
}

var ctx = context.Background()

// bugs are planted one at a time; a case of the id must see each.
var bugs = []struct {
	id, name string
	plant    func(*mutant)
}{
	{"STO-01", "suffix taken for prefix", func(m *mutant) {
		m.list = func(m *mutant, q store.NamespaceQuery) ([]store.Namespace, error) {
			for i := range q.Match {
				q.Match[i].Kind = store.MatchPrefix
			}
			return m.Local.ListNamespaces(ctx, q)
		}
	}},
	{"STO-02", "a wildcard is a label", func(m *mutant) {
		m.list = func(m *mutant, q store.NamespaceQuery) ([]store.Namespace, error) {
			for i := range q.Match {
				for k, l := range q.Match[i].Path {
					q.Match[i].Path[k] = strings.Replace(l, "*", "?", 1)
				}
			}
			return m.Local.ListNamespaces(ctx, q)
		}
	}},
	{"STO-03", "depth ignored", func(m *mutant) {
		m.list = func(m *mutant, q store.NamespaceQuery) ([]store.Namespace, error) {
			q.MaxDepth = 0
			return m.Local.ListNamespaces(ctx, q)
		}
	}},
	{"STO-04", "namespaces unchecked", func(m *mutant) {
		m.put = func(m *mutant, ns store.Namespace, key string, v map[string]any, _ []store.PutOption) error {
			_, err := m.Local.Batch(ctx, store.PutOp{Namespace: ns, Key: key, Value: v})
			return err
		}
	}},
	{"STO-05", "the first put of a key counts", func(m *mutant) {
		m.batch = func(m *mutant, ops []store.Op) ([]store.Result, error) {
			seen := map[string]bool{}
			for i, op := range ops {
				if p, ok := op.(store.PutOp); ok {
					if seen[p.Key] {
						ops[i] = store.GetOp{Namespace: p.Namespace, Key: "none"}
					}
					seen[p.Key] = true
				}
			}
			return m.Local.Batch(ctx, ops...)
		}
	}},
	{"STO-06", "one operation after the other", func(m *mutant) {
		m.batch = func(m *mutant, ops []store.Op) ([]store.Result, error) {
			var out []store.Result
			for _, op := range ops {
				r, err := m.Local.Batch(ctx, op)
				if err != nil {
					return nil, err
				}
				out = append(out, r...)
			}
			return out, nil
		}
	}},
	{"STO-08", "oldest first", func(m *mutant) {
		m.search = func(m *mutant, q store.Query) ([]store.Found, error) {
			q.ByKey = true
			return m.Local.Search(ctx, q)
		}
	}},
	{"STO-09", "filters ignored", func(m *mutant) {
		m.search = func(m *mutant, q store.Query) ([]store.Found, error) {
			q.Filter = nil
			return m.Local.Search(ctx, q)
		}
	}},
	{"STO-10", "TTL ignored", func(m *mutant) {
		m.put = func(m *mutant, ns store.Namespace, key string, v map[string]any, _ []store.PutOption) error {
			return m.Local.Put(ctx, ns, key, v)
		}
	}},
	{"STO-11", "the sweeper miscounts", func(m *mutant) { m.sweep = func(n int) int { return min(n, 1000) } }},
	{"STO-12", "offset ignored", func(m *mutant) {
		m.search = func(m *mutant, q store.Query) ([]store.Found, error) {
			q.Offset = 0
			return m.Local.Search(ctx, q)
		}
	}},
	{"restore", "times are those of a put", func(m *mutant) { m.restore = (*mutant).put1 }},
	{"items", "created is updated", func(m *mutant) {
		m.get = func(it *store.Item) *store.Item { it.CreatedAt = it.UpdatedAt; return it }
	}},
}

func TestMutants(t *testing.T) {
	open := func(plant func(*mutant)) func(store.Options) store.Store {
		return func(o store.Options) store.Store {
			s, err := store.NewMemory(o)
			if err != nil {
				t.Fatal(err)
			}
			m := &mutant{Local: s, opts: o}
			plant(m)
			return m
		}
	}
	for _, c := range allCases() {
		if why := failure(c, open(func(*mutant) {})); why != "" {
			t.Fatalf("without a bug, %s/%s fails: %s", c.id, c.name, why)
		}
	}
	for _, bug := range bugs {
		seen := ""
		for _, c := range allCases() {
			if c.id == bug.id && seen == "" {
				seen = failure(c, open(bug.plant))
			}
		}
		if seen == "" {
			t.Errorf("%s: no case of %s fails", bug.name, bug.id)
		}
	}
	t.Logf("%d bugs planted", len(bugs))
}

func TestEveryIDHasACase(t *testing.T) {
	have, names := map[string]int{}, map[string]bool{}
	for _, c := range allCases() {
		have[c.id]++
		if names[c.id+c.name] {
			t.Errorf("two cases are called %s/%s", c.id, c.name)
		}
		names[c.id+c.name] = true
	}
	for _, id := range ids() {
		if have[id] == 0 {
			t.Errorf("%s has no case", id)
		}
		delete(have, id)
	}
	for id := range have {
		if regexp.MustCompile(`^STO-\d\d$`).MatchString(id) {
			t.Errorf("%s is not registered", id)
		}
	}
}
