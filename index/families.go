package index

import (
	"runtime"
	"sync"
	"weak"
)

// weakFamily is a family that somebody may hold.
type weakFamily = weak.Pointer[Family]

// freshMax is how many of the families used last stay in memory: enough for concurrent loads of a
// partition. Once it is loaded, the index holds its family.
const freshMax = 8

// families has the families in memory. A family that is in memory is shared: it is told where values
// lie, and all readers must learn of it. Families that the index holds are counted. To find others
// takes a weak pointer and a cleanup each, which cost the garbage collector more than a family does. So
// a family gets them only when the index drops it, as a reader may still hold it.
type families struct {
	mu     sync.Mutex
	held   map[uint64]*Family
	others map[uint64]weakFamily

	fresh   []*Family // those used last, in order; held too
	keeping bool      // fresh grows without bound

	self weak.Pointer[families]
}

func newFamilies() *families {
	fs := &families{held: map[uint64]*Family{}, others: map[uint64]weakFamily{}}
	fs.self = weak.Make(fs)
	return fs
}

// get returns the family, a new one if nobody holds it.
func (fs *families) get(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.find(id)
	if f == nil {
		f = NewFamily(id)
		fs.holdLocked(f)
		fs.fresh = append(fs.fresh, f)
		fs.trim(1)
	}
	return f
}

// find returns a family in memory, or nil. The lock is held.
func (fs *families) find(id uint64) *Family {
	if f := fs.held[id]; f != nil {
		return f
	}
	return fs.others[id].Value()
}

// inMemory returns the family if somebody holds it, or nil.
func (fs *families) inMemory(id uint64) *Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.find(id)
}

// hold makes a family known, and keeps it until drop is called as often.
func (fs *families) hold(f *Family) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.holdLocked(f)
}

func (fs *families) holdLocked(f *Family) {
	f.holds++
	if f.holds == 1 {
		fs.held[f.ID] = f
	}
}

// drop undoes hold.
func (fs *families) drop(f *Family) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropLocked(f)
}

func (fs *families) dropLocked(f *Family) {
	if f.holds--; f.holds > 0 {
		return
	}
	delete(fs.held, f.ID)
	if !f.weak {
		f.weak = true
		fs.others[f.ID] = weak.Make(f)
		runtime.AddCleanup(f, gone, knownFamily{fs.self, f.ID})
	}
}

// trim drops up to n of the oldest fresh families while there are too many. The lock is held.
func (fs *families) trim(n int) {
	for ; n > 0 && len(fs.fresh) > freshMax && !fs.keeping; n-- {
		fs.dropLocked(fs.fresh[0])
		fs.fresh[0] = nil
		fs.fresh = fs.fresh[1:]
	}
}

// knownFamily is what a cleanup knows. It must not hold the families: they hold the one it is
// for, and all of them would outlive the index.
type knownFamily struct {
	fs weak.Pointer[families]
	id uint64
}

// gone forgets a family that nobody holds any more.
func gone(k knownFamily) {
	fs := k.fs.Value()
	if fs == nil {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if p, ok := fs.others[k.id]; ok && p.Value() == nil {
		delete(fs.others, k.id)
	}
}

// keep holds all families that are used from now on.
func (fs *families) keep() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.keeping = true
}

// release ends keep. It gives up the lock now and then while it drops the families.
func (fs *families) release() {
	for more := true; more; {
		fs.mu.Lock()
		fs.keeping = false
		fs.trim(64)
		more = len(fs.fresh) > freshMax && !fs.keeping
		fs.mu.Unlock()
	}
}

// all returns the families in memory.
func (fs *families) all() []*Family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	out := make([]*Family, 0, len(fs.held)+len(fs.others))
	for _, f := range fs.held {
		out = append(out, f)
	}
	for id, p := range fs.others {
		if fs.held[id] != nil {
			continue
		}
		if f := p.Value(); f != nil {
			out = append(out, f)
		}
	}
	return out
}
