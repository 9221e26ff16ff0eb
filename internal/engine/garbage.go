package engine

import (
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// garbage is an estimate of what segments hold that no item refers to any more. A
// flush looks at the families it touches, so it is as old as the last flush, and
// knows nothing of what was deleted before the store was opened and not touched
// since.
type garbage struct {
	mu      sync.Mutex
	fams    map[uint64]map[base.FileNum]int64 // bytes of the values, as they are in blocks
	dropped map[uint64]bool                   // families of threads deleted since the last flush
}

func newGarbage() *garbage {
	return &garbage{fams: map[uint64]map[base.FileNum]int64{}, dropped: map[uint64]bool{}}
}

// noteDropped notes the family of a thread that is being deleted.
func (e *Engine) noteDropped(id string) {
	t, err := e.ix.Thread(id)
	if err != nil || t == nil {
		return
	}
	if parts, err := e.ix.Parts(t.Family.ID); err != nil || len(parts) == 0 {
		return // it is an estimate
	}
	e.garbage.mu.Lock()
	defer e.garbage.mu.Unlock()
	e.garbage.dropped[t.Family.ID] = true
}

// isDropped reports whether a thread of the family was deleted since the last
// flush.
func (g *garbage) isDropped(family uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dropped[family]
}

// takeDropped returns the families dropped since it was called last.
func (g *garbage) takeDropped() map[uint64]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.dropped
	g.dropped = map[uint64]bool{}
	return out
}

func (g *garbage) set(family uint64, dead map[base.FileNum]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(dead) == 0 {
		delete(g.fams, family)
		return
	}
	g.fams[family] = dead
}

// forget drops what is known of segments that are gone.
func (g *garbage) forget(files map[base.FileNum]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, dead := range g.fams {
		for n := range dead {
			if files[n] {
				delete(dead, n)
			}
		}
		if len(dead) == 0 {
			delete(g.fams, id)
		}
	}
}

// inSegments is, by segment, about how many bytes of the file are dead.
func (g *garbage) inSegments(segs []snapshot.SegmentInfo) map[base.FileNum]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	raw := map[base.FileNum]int64{}
	for _, dead := range g.fams {
		for n, b := range dead {
			raw[n] += b
		}
	}
	out := map[base.FileNum]int64{}
	for _, s := range segs {
		if b := raw[s.Num]; b > 0 && s.Raw > 0 {
			out[s.Num] = int64(float64(s.Size) * min(1, float64(b)/float64(s.Raw)))
		}
	}
	return out
}

// countDead counts what segments hold of a loaded family for nobody.
func (e *Engine) countDead(w *familyWork) {
	live := map[index.Ref]bool{}
	for _, t := range w.threads {
		t.Ascend("", func(it *index.Item) bool {
			for _, s := range it.Slots {
				live[s.Ref] = true
			}
			return true
		})
	}
	dead := map[base.FileNum]int64{}
	w.fam.Values(func(r index.Ref, l index.Loc) {
		if !l.InLog() && !live[r] {
			dead[l.File] += int64(l.Len)
		}
	})
	e.garbage.set(w.fam.ID, dead)
}

// countDropped counts what segments hold of families without threads.
func (e *Engine) countDropped(alive []familyNames) {
	dropped := e.garbage.takeDropped()
	for i := range alive {
		delete(dropped, alive[i].id)
	}
	for id := range dropped {
		dead := map[base.FileNum]int64{}
		parts, err := e.ix.Parts(id)
		if err != nil {
			continue // it is an estimate
		}
		for _, p := range parts {
			h, err := e.files.acquire(p.File)
			if err != nil {
				continue // it is gone, and what it held with it
			}
			if h.seg != nil {
				if f, ok, err := h.seg.Find(id); err == nil && ok {
					dead[p.File] += f.RawBytes
				}
			}
			e.files.release(h)
		}
		e.garbage.set(id, dead)
	}
}
