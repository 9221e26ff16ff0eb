package index

import (
	"runtime"
	"sync"
	"weak"
)

// weakFamily is a family that somebody may hold.
type weakFamily = weak.Pointer[Family]

// families knows the families in memory. Whoever asks for one gets the one that
// somebody else holds already, if anybody does: where values lie is told to it, and
// all who read must hear of it.
type families struct {
	mu sync.Mutex
	m  map[uint64]weakFamily
}

// get returns the family, a new one if nobody holds it.
func (fs *families) get(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.m[id].Value(); f != nil {
		return f
	}
	f := NewFamily(id)
	fs.put(f)
	return f
}

// held returns the family if somebody holds it, or nil.
func (fs *families) held(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.m[id].Value()
}

// add makes a family known that a record has begun. It comes with every commit, and one
// that is known is not asked for by its weak pointer: that waits while the collector ends its
// marking.
func (fs *families) add(f *Family) {
	if f.known.Load() == fs {
		return // and stays so, as it is held
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[f.ID].Value() == nil {
		fs.put(f)
	}
}

func (fs *families) put(f *Family) {
	fs.m[f.ID] = weak.Make(f)
	f.known.Store(fs)
	runtime.AddCleanup(f, fs.gone, f.ID)
}

// gone forgets a family that nobody holds any more.
func (fs *families) gone(id uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if p, ok := fs.m[id]; ok && p.Value() == nil {
		delete(fs.m, id)
	}
}

// all returns the families somebody holds.
func (fs *families) all() []*Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	out := make([]*Family, 0, len(fs.m))
	for _, p := range fs.m {
		if f := p.Value(); f != nil {
			out = append(out, f)
		}
	}
	return out
}
