package store

import (
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/layout"
)

// Watch reports the changes in one namespace, and in the threads of the saver below, for a caller that
// keeps data derived from them in memory. It is not safe for concurrent use.
type Watch struct {
	d     *durable
	part  string
	w     *engine.Watch
	begun bool
	birth base.LSN // of the namespace's partition; 0: there was none
	since base.LSN // the last record that was reported
}

// Watch begins to watch a namespace, without those below it. It returns nil in memory. Close it
// before the saver.
func (s *Local) Watch(ns Namespace) *Watch {
	if s.disk == nil {
		return nil
	}
	part := partitionOf(idOf(ns))
	return &Watch{d: s.disk, part: part, w: s.disk.e.Watch(func(id string) bool {
		return id == part || strings.HasPrefix(id, layout.SpaceThread)
	})}
}

// WatchItems is Watch for items alone. It needs no Close, and nothing but Next may be called.
func (s *Local) WatchItems(ns Namespace) *Watch {
	if s.disk == nil {
		return nil
	}
	return &Watch{d: s.disk, part: partitionOf(idOf(ns))}
}

// Follows reports whether the store lies in a saver that follows a leader, and takes no writes.
func (s *Local) Follows() bool { return s.disk != nil && s.disk.e.Follows() }

// Close ends the Watch.
func (w *Watch) Close() { w.w.Close() }

// Many receives when there are many changes.
func (w *Watch) Many() <-chan struct{} { return w.w.Many() }

// News are the changes since the last call of Next.
type News struct {
	// Keys has the keys of items that were put or removed, and the record that put the item: an item
	// that is put again has another number. For a removed one the number is 0.
	Keys map[string]uint64
	// All: Keys has all items that exist. It is set at first, and when it is no longer known what was
	// removed.
	All bool
	// Threads are the threads of the saver that were changed or removed.
	Threads []string
}

// Next returns the changes since the last Next. It does not wait. Once a Put or Delete has
// returned, Next reports its change; it may report it earlier, and twice. After an error, changes
// that were not reported are lost.
func (w *Watch) Next() (n News, err error) {
	changed := !w.begun || w.w == nil
	if w.w != nil {
		for _, id := range w.w.Take() {
			if id == w.part {
				changed = true
			} else {
				n.Threads = append(n.Threads, strings.TrimPrefix(id, layout.SpaceThread))
			}
		}
	}
	if !changed {
		return n, nil
	}
	t, err := w.d.e.Partition(w.part)
	if err != nil {
		return n, err
	}
	if w.w == nil && w.begun && t != nil && t.Birth == w.birth && t.LSN == w.since {
		return n, nil
	}
	n.Keys, n.All = map[string]uint64{}, !w.begun || t == nil || t.Birth != w.birth || t.Forgot(w.since+1)
	w.begun = true
	if t == nil {
		w.birth, w.since = 0, 0
		return n, nil
	}
	first := w.since + 1
	if n.All {
		first = 0
	}
	t.Entries(first, func(it *index.Entry) {
		switch key := strings.TrimPrefix(it.Key, prefixItem); {
		case !it.Deleted():
			n.Keys[key] = uint64(it.LSN)
		case !n.All:
			n.Keys[key] = 0
		}
	})
	w.birth, w.since = t.Birth, t.LSN
	return n, nil
}
