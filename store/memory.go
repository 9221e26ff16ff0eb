package store

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/stele-go/stele/saver/serde"
)

// memory is the backend of NewMemory: one tree of immutable items, by namespace
// and key. A view is a clone of it, which costs nothing until the next change.
type memory struct {
	codec serde.Serializer
	index *Index
	clock func() time.Time

	mu   sync.RWMutex // guards the next two
	tree *btree.BTreeG[*memoryItem]
	held bool // a view may have the tree
}

type memoryItem struct {
	entry
	value   serde.Typed
	vectors []float32 // prepared
}

func newMemory(o *Options) *memory {
	m := &memory{codec: o.Serializer, index: o.Index, clock: o.Clock}
	if m.clock == nil {
		m.clock = time.Now
	}
	m.tree = btree.NewG(32, func(a, b *memoryItem) bool { return byKey(&a.entry, &b.entry) })
	return m
}

func (m *memory) now() int64 { return m.clock().UnixMicro() }

func at(ns, key string) *memoryItem { return &memoryItem{entry: entry{ns: ns, key: key}} }

func (m *memory) get(ctx context.Context, ns, key string, live func(meta) bool) (entry, map[string]any, error) {
	m.mu.RLock()
	it, ok := m.tree.Get(at(ns, key))
	m.mu.RUnlock()
	if !ok || !live(it.meta) {
		return entry{}, nil, nil
	}
	value, err := decodeValue(m.codec, it.value)
	return it.entry, value, err
}

func (m *memory) view(context.Context) (view, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
	return &memoryView{m, m.tree}, nil
}

// unshare replaces the tree by a clone if a view has it, so that it can be changed. The
// caller holds mu.
func (m *memory) unshare() {
	if m.held {
		m.tree, m.held = m.tree.Clone(), false
	}
}

func (m *memory) sync(ctx context.Context) error { return ctx.Err() }

func (m *memory) commit(ctx context.Context, changes []change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.apply(changes)
	return nil
}

// apply makes changes. The caller holds mu.
func (m *memory) apply(changes []change) {
	m.unshare()
	now := m.now()
	for _, c := range changes {
		if c.remove {
			m.tree.Delete(at(c.ns, c.key))
			continue
		}
		it := &memoryItem{entry: entry{ns: c.ns, key: c.key, summary: string(c.summary)}, value: cloneTyped(c.value)}
		var before *meta
		if old, ok := m.tree.Get(it); ok {
			before = &old.meta
		}
		it.meta = c.timesOf(now, before)
		for _, v := range c.vectors {
			it.vectors = append(it.vectors, v...)
		}
		if len(it.vectors) > 0 {
			prepareVectors(m.index.Metric, m.index.Dims, it.vectors)
		}
		it.mem = it
		m.tree.ReplaceOrInsert(it)
	}
}

func cloneTyped(t serde.Typed) serde.Typed {
	return serde.Typed{Kind: t.Kind, Data: bytes.Clone(t.Data)}
}

func (m *memory) renew(_ context.Context, entries []entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unshare()
	for i := range entries {
		en := &entries[i]
		if it, ok := m.tree.Get(at(en.ns, en.key)); ok && it == en.mem {
			n := *it
			n.meta, n.mem = en.meta, &n
			m.tree.ReplaceOrInsert(&n)
		}
	}
	return nil
}

func (m *memory) sweep(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unshare()
	now := m.now()
	var gone []*memoryItem
	m.tree.Ascend(func(it *memoryItem) bool {
		if !it.meta.live(now) {
			gone = append(gone, it)
		}
		return true
	})
	for _, it := range gone {
		m.tree.Delete(it)
	}
	return len(gone), nil
}

type memoryView struct {
	m    *memory
	tree *btree.BTreeG[*memoryItem]
}

func (v *memoryView) release() {}

func (v *memoryView) get(ns, key string) (entry, bool, error) {
	it, ok := v.tree.Get(at(ns, key))
	if !ok {
		return entry{}, false, nil
	}
	return it.entry, true, nil
}

func (v *memoryView) read(_ context.Context, en *entry) (map[string]any, error) {
	return decodeValue(v.m.codec, en.mem.value)
}

func (v *memoryView) spaces(prefix, from string, fn func(space) (bool, error)) error {
	for from = max(from, prefix); ; {
		var first *memoryItem
		v.tree.AscendGreaterOrEqual(at(from, ""), func(it *memoryItem) bool { first = it; return false })
		if first == nil || !strings.HasPrefix(first.ns, prefix) {
			return nil
		}
		if more, err := fn(&memorySpace{v, first.ns}); err != nil || !more {
			return err
		}
		from = first.ns + "\x00" // after its items, not after the namespaces below it
	}
}

type memorySpace struct {
	v  *memoryView
	ns string
}

func (s *memorySpace) id() string { return s.ns }

func (s *memorySpace) expiring() bool { return true }

func (s *memorySpace) items(fn func(*entry) (bool, error)) error {
	var en entry
	return s.each(func(it *memoryItem) (bool, error) {
		en = it.entry
		return fn(&en)
	})
}

func (s *memorySpace) each(fn func(*memoryItem) (bool, error)) (err error) {
	s.v.tree.AscendGreaterOrEqual(at(s.ns, ""), func(it *memoryItem) bool {
		if it.ns != s.ns {
			return false
		}
		var more bool
		more, err = fn(it)
		return more && err == nil
	})
	return err
}

func (s *memorySpace) nearest(ctx context.Context, sc *scorer, accept func(*entry) (bool, error), top *best[hit]) error {
	return s.each(func(it *memoryItem) (bool, error) {
		if len(it.vectors) == 0 {
			return true, ctx.Err()
		}
		h := hit{entry: it.entry, score: sc.best(it.vectors), scored: true}
		if !top.wants(h) {
			return true, nil
		}
		ok, err := accept(&h.entry)
		if ok && err == nil {
			top.offer(h)
		}
		return true, err
	})
}
