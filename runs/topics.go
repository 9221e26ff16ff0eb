package runs

import "sync"

// Topics tell watchers that something has changed, for implementers of Queue. The zero
// Topics is ready for use. It is safe for concurrent use.
type Topics struct {
	mu sync.Mutex
	by map[string]map[chan struct{}]bool
}

// Watch implements Queue.
func (t *Topics) Watch(id string) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]map[chan struct{}]bool{}
	}
	if t.by[id] == nil {
		t.by[id] = map[chan struct{}]bool{}
	}
	t.by[id][c] = true
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.by[id], c); len(t.by[id]) == 0 {
			delete(t.by, id)
		}
	}
}

// isWatched reports whether somebody watches id.
func (t *Topics) isWatched(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.by[id]) > 0
}

// Changed wakes the watchers of id.
func (t *Topics) Changed(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.by[id] {
		select {
		case c <- struct{}{}:
		default: // one is waiting already
		}
	}
}

// ChangedAll wakes all watchers, as it is not known what has changed.
func (t *Topics) ChangedAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, watching := range t.by {
		for c := range watching {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}
