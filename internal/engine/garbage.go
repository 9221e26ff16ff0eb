package engine

import (
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
)

// garbage is an estimate of what segments hold that no item refers to any more. A
// flush looks at the families it touches, so it is as old as the last flush. The
// first look after Open finds the families without threads; of threads that lost
// items before and were not touched since nothing is known.
type garbage struct {
	mu      sync.Mutex
	fams    map[uint64]map[base.FileNum]int64 // bytes of the file
	dropped map[uint64]bool                   // families of threads deleted since the last flush
	looked  bool                              // for families without threads
}

func newGarbage() *garbage {
	return &garbage{fams: map[uint64]map[base.FileNum]int64{}, dropped: map[uint64]bool{}}
}

// noteDropped notes the family of a thread that is being deleted.
func (e *Engine) noteDropped(id string) {
	t := e.ix.Thread(id)
	if t == nil || len(e.ix.Parts(t.Family.ID)) == 0 {
		return
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
	sum := map[base.FileNum]int64{}
	for _, dead := range g.fams {
		for n, b := range dead {
			sum[n] += b
		}
	}
	out := map[base.FileNum]int64{}
	for _, s := range segs {
		if b := sum[s.Num]; b > 0 {
			out[s.Num] = min(b, s.Size)
		}
	}
	return out
}

// held is what a segment holds of a family, and how much of that is dead.
type held struct {
	values, dead    int64 // their number
	bytes, deadSize int64 // as they are in blocks
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
	files := map[base.FileNum]held{}
	w.fam.Values(func(r index.Ref, l index.Loc) {
		if l.InLog() {
			return
		}
		h := files[l.File]
		h.values, h.bytes = h.values+1, h.bytes+int64(l.Len)
		if !live[r] {
			h.dead, h.deadSize = h.dead+1, h.deadSize+int64(l.Len)
		}
		files[l.File] = h
	})
	dead := map[base.FileNum]int64{}
	for n, h := range files {
		if h.dead > 0 {
			dead[n] = e.deadOf(w.fam.ID, n, h)
		}
	}
	e.garbage.set(w.fam.ID, dead)
}

// deadOf is about how many bytes of a segment a family holds for nobody: of its blocks
// the share of its values' bytes, of its directory that of their number.
func (e *Engine) deadOf(family uint64, n base.FileNum, h held) int64 {
	f, ok := e.inSegment(family, n)
	if !ok {
		return 0
	}
	blocks := float64(f.Stored-int64(f.DirStored)) * float64(h.deadSize) / float64(max(h.bytes, 1))
	return int64(blocks + float64(f.DirStored)*float64(h.dead)/float64(h.values))
}

// inSegment is what a segment says of a family; false if it is gone, or does not hold
// the family.
func (e *Engine) inSegment(family uint64, n base.FileNum) (f segment.FamilyInfo, ok bool) {
	h, err := e.files.acquire(n)
	if err != nil {
		return f, false
	}
	defer e.files.release(h)
	if h.seg == nil {
		return f, false
	}
	f, ok, err = h.seg.Find(family)
	return f, ok && err == nil
}

// countDropped counts what segments hold of families without threads.
func (e *Engine) countDropped(alive []familyNames) {
	dropped := e.garbage.takeDropped()
	for i := range alive {
		delete(dropped, alive[i].id)
	}
	for id := range dropped {
		dead := map[base.FileNum]int64{}
		for _, p := range e.ix.Parts(id) {
			if f, ok := e.inSegment(id, p.File); ok {
				dead[p.File] += f.Stored
			}
		}
		e.garbage.set(id, dead)
	}
}

// look finds, at the first flush after Open, the families that segments hold and that no thread is
// of: those of threads deleted before. It looks at the index and at the lists of
// families of all segments.
func (e *Engine) look(v *View, segs []snapshot.SegmentInfo) {
	e.garbage.mu.Lock()
	looked := e.garbage.looked
	e.garbage.looked = true
	e.garbage.mu.Unlock()
	if looked || len(segs) == 0 {
		return
	}
	alive := map[uint64]bool{}
	v.v.Rows("", func(r *index.Row, _ *index.Thread) bool {
		alive[r.Family] = true
		return true
	})
	found := map[uint64]map[base.FileNum]int64{}
	for _, s := range segs {
		for _, f := range e.listedIn(s.Num) {
			if alive[f.ID] {
				continue
			}
			if found[f.ID] == nil {
				found[f.ID] = map[base.FileNum]int64{}
			}
			found[f.ID][s.Num] += f.Stored
		}
	}
	for id, dead := range found {
		e.garbage.set(id, dead)
	}
}

// listedIn are the families of a segment; none if they cannot be read, which whoever
// needs them finds out.
func (e *Engine) listedIn(n base.FileNum) []segment.FamilyInfo {
	h, err := e.files.acquire(n)
	if err != nil {
		return nil
	}
	defer e.files.release(h)
	if h.seg == nil {
		return nil
	}
	fams, err := h.seg.Families()
	if err != nil {
		return nil
	}
	return fams
}
