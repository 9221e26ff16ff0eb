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

	kept    map[uint64]*Family // not in m: nobody needs to hold them
	keeping bool               // those that come are kept
}

// get returns the family, a new one if nobody holds it.
func (fs *families) get(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.find(id)
	if f == nil {
		f = NewFamily(id)
		fs.put(f)
	}
	return f
}

// find returns a family in memory, or nil. The lock is held.
func (fs *families) find(id uint64) *Family {
	if f := fs.kept[id]; f != nil {
		return f
	}
	return fs.m[id].Value()
}

// held returns the family if somebody holds it, or nil.
func (fs *families) held(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.find(id)
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
	if fs.find(f.ID) == nil {
		fs.put(f)
	}
}

func (fs *families) put(f *Family) {
	f.known.Store(fs)
	if fs.keeping {
		fs.kept[f.ID] = f
		return
	}
	fs.weaken(f)
}

func (fs *families) weaken(f *Family) {
	fs.m[f.ID] = weak.Make(f)
	runtime.AddCleanup(f, gone, knownFamily{fs, f.ID})
}

// knownFamily is what is left of a family that nobody holds any more.
type knownFamily struct {
	fs *families
	id uint64
}

func gone(k knownFamily) { k.fs.gone(k.id) }

// keep holds the families that come from now on, about n of them.
func (fs *families) keep(n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.keeping = true
	if fs.kept == nil {
		fs.kept = make(map[uint64]*Family, n)
	}
}

// release holds no family any more. Others have their turn while it looks at all.
func (fs *families) release() {
	for fs.releaseSome(64) {
	}
}

// releaseSome lets n families go, and reports whether there are more.
func (fs *families) releaseSome(n int) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.keeping = false
	for id, f := range fs.kept {
		if n == 0 {
			return true
		}
		n--
		delete(fs.kept, id)
		fs.weaken(f)
	}
	fs.kept = nil
	return false
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
	out := make([]*Family, 0, len(fs.m)+len(fs.kept))
	for _, f := range fs.kept {
		out = append(out, f)
	}
	for _, p := range fs.m {
		if f := p.Value(); f != nil {
			out = append(out, f)
		}
	}
	return out
}
