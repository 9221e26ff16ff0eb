package engine

import (
	"slices"
	"sync"
)

// Watch notes which partitions commits change, for callers that keep data derived from them in memory.
// It is safe for concurrent use.
type Watch struct {
	e     *Engine
	wants func(id string) bool

	mu      sync.Mutex
	changed map[string]bool
	changes int // since they were taken
	many    chan struct{}
}

// manyChanges is the number of changes from which Many receives.
const manyChanges = 1024

// Watch begins to note the partitions for whose id wants is true, until Close. wants runs on the
// committer and must not block. A partition is noted when the commit that changed or removed it is
// visible, before the call that made it returns: who calls Take then, and reads the partition,
// sees at least that commit.
func (e *Engine) Watch(wants func(id string) bool) *Watch {
	w := &Watch{e: e, wants: wants, changed: map[string]bool{}, many: make(chan struct{}, 1)}
	e.watchesMu.Lock()
	defer e.watchesMu.Unlock()
	e.watches = append(e.watches, w)
	return w
}

// Close ends the Watch.
func (w *Watch) Close() {
	w.e.watchesMu.Lock()
	defer w.e.watchesMu.Unlock()
	w.e.watches = slices.DeleteFunc(w.e.watches, func(o *Watch) bool { return o == w })
}

// Take returns the ids of the partitions that were changed since it was called last, in no
// order.
func (w *Watch) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, 0, len(w.changed))
	for id := range w.changed {
		ids = append(ids, id)
	}
	clear(w.changed)
	w.changes = 0
	return ids
}

// Many receives when there are many changes to Take, so that a caller need not poll.
func (w *Watch) Many() <-chan struct{} { return w.many }

// noteChanged passes the partitions that a visible batch changed to all Watches.
func (e *Engine) noteChanged(changed func(yield func(id string))) {
	e.watchesMu.Lock()
	defer e.watchesMu.Unlock()
	for _, w := range e.watches {
		w.note(changed)
	}
}

func (w *Watch) note(changed func(yield func(id string))) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed(func(id string) {
		if w.wants(id) {
			w.changed[id] = true
			w.changes++
		}
	})
	if w.changes >= manyChanges {
		select {
		case w.many <- struct{}{}:
		default:
		}
	}
}
