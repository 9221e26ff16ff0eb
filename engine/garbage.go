package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
)

// garbageEstimate estimates how many bytes of each segment no entry refers to any more. A flush counts
// the families that it changes, so the estimate is as old as the last flush. The manifest keeps the
// sums, and Open starts from them. The bytes of families without partitions are added to its sums, as
// they are never counted again. For other families the larger of the two numbers is used, since they
// may be counted again.
type garbageEstimate struct {
	*Store

	mu      sync.Mutex
	fams    map[uint64]deadFamily
	dropped map[uint64]base.LSN                   // families of deleted partitions that no flush has counted, with the last record that deleted one
	before  map[base.FileNum]snapshot.SegmentDead // as Open found it

	// counted is what the flush under way has counted, and taken are the families that it took from
	// dropped. They are settled when the flush is published.
	counted map[uint64]deadFamily
	taken   map[uint64]base.LSN
}

// deadFamily is how many bytes of a family in segments are dead.
type deadFamily struct {
	bytes   map[base.FileNum]int64 // in the measure of SegmentInfo.Raw
	dropped bool                   // it has no partition left
}

// newGarbage returns the estimate of a store without segments.
func newGarbage(s *Store) *garbageEstimate {
	return &garbageEstimate{Store: s, fams: map[uint64]deadFamily{}, dropped: map[uint64]base.LSN{}, before: map[base.FileNum]snapshot.SegmentDead{},
		counted: map[uint64]deadFamily{}, taken: map[uint64]base.LSN{}}
}

// Restore starts from the sums in the manifest.
func (g *garbageEstimate) Restore(segs []snapshot.SegmentInfo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range segs {
		if s.Dropped != 0 || s.Unused != 0 {
			g.before[s.Num] = snapshot.SegmentDead{Num: s.Num, Dropped: s.Dropped, Unused: s.Unused}
		}
	}
}

// sums returns the dead bytes of each segment, of these families. mu is held.
func (g *garbageEstimate) sums(segs []snapshot.SegmentInfo, fams map[uint64]deadFamily) []snapshot.SegmentDead {
	now := map[base.FileNum]snapshot.SegmentDead{}
	for _, f := range fams {
		for n, b := range f.bytes {
			d := now[n]
			if f.dropped {
				d.Dropped += b
			} else {
				d.Unused += b
			}
			now[n] = d
		}
	}
	out := make([]snapshot.SegmentDead, len(segs))
	for i, s := range segs {
		d, b := now[s.Num], g.before[s.Num]
		out[i] = snapshot.SegmentDead{Num: s.Num, Dropped: min(d.Dropped+b.Dropped, s.Raw), Unused: min(max(d.Unused, b.Unused), s.Raw)}
	}
	return out
}

// news returns the sums that differ from those in the manifest, with those just counted, for segments
// that the manifest names.
func (g *garbageEstimate) news(segs []snapshot.SegmentInfo) []snapshot.SegmentDead {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []snapshot.SegmentDead
	fams := maps.Clone(g.fams)
	maps.Copy(fams, g.counted)
	for i, d := range g.sums(segs, fams) {
		if d.Dropped != segs[i].Dropped || d.Unused != segs[i].Unused {
			out = append(out, d)
		}
	}
	return out
}

// noteDropped notes the family of a partition that a record up to lsn deletes; nil if there is none.
func (g *garbageEstimate) noteDropped(t *index.Partition, lsn base.LSN) {
	if t == nil {
		return
	}
	if parts, err := g.Index.Parts(t.Family.ID); err != nil || len(parts) == 0 {
		return // it is an estimate
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropped[t.Family.ID] = max(lsn, g.dropped[t.Family.ID])
}

func (g *garbageEstimate) anyDropped() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.dropped) > 0
}

// takeDropped takes out of g.dropped, and returns, the families whose last deletion was by a record
// up to cut. It leaves the others, because a view at the cut still shows their partitions. If the
// flush is not published, settle puts the taken families back.
func (g *garbageEstimate) takeDropped(cut base.LSN) map[uint64]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[uint64]bool{}
	for family, lsn := range g.dropped {
		if lsn <= cut {
			out[family], g.taken[family] = true, lsn
			delete(g.dropped, family)
		}
	}
	return out
}

// set records the dead bytes of a family, for settle.
func (g *garbageEstimate) set(family uint64, dead deadFamily) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counted[family] = dead
}

// settle adopts the numbers of a flush if it was published. Otherwise it forgets them, and the next
// flush counts again. The lock of the stack of images has been held since they were counted.
func (g *garbageEstimate) settle(published bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if published {
		for family, dead := range g.counted {
			if g.fams[family] = dead; len(dead.bytes) == 0 {
				delete(g.fams, family)
			}
		}
	} else {
		for family, lsn := range g.taken {
			g.dropped[family] = max(lsn, g.dropped[family])
		}
	}
	clear(g.counted)
	clear(g.taken)
}

// forget drops the numbers of segments that are gone.
func (g *garbageEstimate) forget(files map[base.FileNum]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range files {
		delete(g.before, n)
	}
	for id, dead := range g.fams {
		for n := range dead.bytes {
			if files[n] {
				delete(dead.bytes, n)
			}
		}
		if len(dead.bytes) == 0 {
			delete(g.fams, id)
		}
	}
}

// inSegments returns, by segment, about how many bytes of the file are dead.
func (g *garbageEstimate) inSegments(segs []snapshot.SegmentInfo) map[base.FileNum]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[base.FileNum]int64{}
	for i, d := range g.sums(segs, g.fams) {
		if b, s := d.Dropped+d.Unused, segs[i]; b > 0 {
			out[s.Num] = int64(float64(s.Size) * min(1, float64(b)/float64(s.Raw)))
		}
	}
	return out
}

// countDead counts the dead bytes of a loaded family in segments. floor is that of the store: the
// values of records from there on are in the log.
func (g *garbageEstimate) countDead(w *Family, floor base.LSN) {
	if index.BornOf(w.Fam.ID) >= floor {
		return // no segment has bytes of this family
	}
	room := liveRooms.Get().(*[]index.Ref)
	defer liveRooms.Put(room)
	live := (*room)[:0]
	var refs, before []index.Ref // of an entry, and of the one before it
	for _, t := range w.Partitions {
		t.Ascend("", func(it *index.Entry) bool {
			refs, before = before[:0], refs
			for i, r := range it.Slots.Refs() {
				refs = append(refs, r)
				if r.LSN < floor && (i >= len(before) || before[i] != r) { // otherwise it is counted already, or does not matter
					live = append(live, r)
				}
			}
			return true
		})
	}
	if *room = live; len(live) > keptLive {
		*room = nil
	}
	slices.SortFunc(live, index.Ref.Compare)
	files := map[base.FileNum]familyBytes{}
	w.Fam.Values(func(r index.Ref, l index.Loc) {
		if l.InLog() {
			return
		}
		h := files[l.File]
		h.values, h.bytes = h.values+1, h.bytes+int64(l.Len)
		for len(live) > 0 && live[0].Compare(r) < 0 {
			live = live[1:]
		}
		if len(live) == 0 || live[0] != r {
			h.dead, h.deadBytes = h.dead+1, h.deadBytes+int64(l.Len)
		}
		files[l.File] = h
	})
	dead := map[base.FileNum]int64{}
	for n, h := range files {
		if h.dead > 0 {
			dead[n] = g.deadOf(w.Fam.ID, n, h)
		}
	}
	g.set(w.Fam.ID, deadFamily{bytes: dead})
}

// liveRooms are slices for the values that entries of a family refer to, up to keptLive of them.
var liveRooms = sync.Pool{New: func() any { return new([]index.Ref) }}

const keptLive = 4 << 10

// familyBytes is how much a segment holds of a family, and how much of that is dead.
type familyBytes struct {
	values, dead     int64 // how many
	bytes, deadBytes int64 // as they are in blocks
}

// deadOf estimates the dead bytes of a family in a segment: for blocks by the share of dead bytes of
// values, for the directory by the share of dead values. For a chat, whose older versions are small
// patches, the directory is the larger part. As everywhere here, the result is scaled to the segment's
// raw bytes.
func (g *garbageEstimate) deadOf(family uint64, n base.FileNum, h familyBytes) int64 {
	f, ok := g.inSegment(family, n)
	if !ok || f.size == 0 {
		return 0
	}
	blocks := float64(f.Stored-int64(f.DirStored)) * float64(h.deadBytes) / float64(max(h.bytes, 1))
	directory := float64(f.DirStored) * float64(h.dead) / float64(h.values)
	return int64((blocks + directory) * float64(f.raw) / float64(f.size))
}

// familyIn has the sizes of a family in a segment, and of the segment.
type familyIn struct {
	segment.FamilyInfo
	size, raw int64
}

// inSegment returns the sizes of a family in a segment; false if the segment is gone, or does not hold
// the family.
func (g *garbageEstimate) inSegment(family uint64, n base.FileNum) (familyIn, bool) {
	h, err := g.Files.Acquire(n)
	if err != nil {
		return familyIn{}, false
	}
	defer g.Files.Release(h)
	if h.Segment == nil {
		return familyIn{}, false
	}
	f, ok, err := h.Segment.Find(family)
	p := h.Segment.Props()
	return familyIn{f, p.Size, p.RawBytes}, ok && err == nil
}

// countDropped counts the dead bytes of families that have no partition in the view, but had one at the
// last flush.
func (g *garbageEstimate) countDropped(v *View) error {
	dropped := g.takeDropped(v.LSN())
	if len(dropped) == 0 {
		return nil
	}
	alive, err := Families(v, func(id uint64) bool { return dropped[id] })
	if err != nil {
		return err
	}
	for i := range alive {
		delete(dropped, alive[i].id)
	}
	for id := range dropped {
		dead := map[base.FileNum]int64{}
		parts, err := g.Index.Parts(id)
		if err != nil {
			continue // it is an estimate
		}
		for _, p := range parts {
			if f, ok := g.inSegment(id, p.File); ok {
				dead[p.File] += f.RawBytes
			}
		}
		g.set(id, deadFamily{bytes: dead, dropped: true})
	}
	return nil
}

// recordDropped counts the families dropped since the last flush and writes the sums to the manifest:
// the next flush may be by another process, which does not know of them. The lock of the stack of
// images is held.
func (g *garbageEstimate) recordDropped() (err error) {
	if !g.anyDropped() {
		return nil
	}
	v := g.workView(g.ViewWithin)
	defer v.Release()
	defer func() { g.settle(err == nil) }()
	if err := g.countDropped(v); err != nil {
		return err
	}
	dead := g.news(g.manifest.State().Segments)
	if len(dead) == 0 {
		return nil
	}
	_, err = g.manifest.Apply(snapshot.Edit{SetDead: dead})
	return err
}
