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
//
// An image may forget a family whose last partition is deleted before a flush counts it, and a compaction may move it
// meanwhile. So who deletes the partition notes in which files the family lies, and who publishes a segment adds that
// file. What flushes count while a compaction runs is in its output as well: see moved.
type garbageEstimate struct {
	*Store

	mu      sync.Mutex
	fams    map[uint64]deadFamily
	dropped map[uint64]*droppedFamily             // families of deleted partitions that no flush has counted
	before  map[base.FileNum]snapshot.SegmentDead // as Open found it

	// counted is what the flush, or the end of a compaction, under way has counted, and taken are the families that
	// it took from dropped. They are settled when it is published.
	counted map[uint64]deadFamily
	taken   map[uint64]*droppedFamily
}

// droppedFamily is a family of which a partition was deleted.
type droppedFamily struct {
	lsn   base.LSN               // of the last record that deleted one
	files []base.FileNum         // in which the family may lie
	raw   map[base.FileNum]int64 // its bytes in those that were looked at, under the lock of the images
}

// add notes that a record up to lsn dropped the family as well, and that it may lie in these files as well.
func (d *droppedFamily) add(lsn base.LSN, files []base.FileNum) {
	d.lsn = max(d.lsn, lsn)
	for _, n := range files {
		if !slices.Contains(d.files, n) {
			d.files = append(d.files, n)
		}
	}
}

// deadFamily is how many bytes of a family in segments are dead.
type deadFamily struct {
	bytes   map[base.FileNum]int64 // in the measure of SegmentInfo.Raw
	dropped bool                   // it has no partition left
}

// in is how many of them lie in these files.
func (f deadFamily) in(files map[base.FileNum]bool) (sum int64) {
	for n, b := range f.bytes {
		if files[n] {
			sum += b
		}
	}
	return sum
}

// newGarbage returns the estimate of a store without segments.
func newGarbage(s *Store) *garbageEstimate {
	return &garbageEstimate{Store: s, fams: map[uint64]deadFamily{}, dropped: map[uint64]*droppedFamily{}, before: map[base.FileNum]snapshot.SegmentDead{},
		counted: map[uint64]deadFamily{}, taken: map[uint64]*droppedFamily{}}
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

// news returns the sums that differ from those in the manifest, for these segments, of an image at lsn: with what was just
// counted, and with families that the image forgets before a flush counts them. The next flush may be by another process, which
// does not know of them. The lock of the images is held.
func (g *garbageEstimate) news(segs []snapshot.SegmentInfo, lsn base.LSN) []snapshot.SegmentDead {
	fams := map[uint64]deadFamily{}
	for id, d := range g.droppedThrough(lsn) {
		if f := g.dead(id, d); len(f.bytes) > 0 {
			fams[id] = f
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(fams) == 0 && len(g.counted) == 0 {
		return nil // the manifest has it all
	}
	for id, f := range g.fams {
		if !fams[id].dropped {
			fams[id] = f
		}
	}
	maps.Copy(fams, g.counted)
	var out []snapshot.SegmentDead
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
	files := g.filesOf(t.Family.ID)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(t.Family.ID, lsn, files)
}

// drop notes a dropped family. mu is held.
func (g *garbageEstimate) drop(family uint64, lsn base.LSN, files []base.FileNum) {
	if g.dropped[family] == nil {
		g.dropped[family] = &droppedFamily{raw: map[base.FileNum]int64{}}
	}
	g.dropped[family].add(lsn, files)
}

// filesOf returns the files in which the index knows a family. It is an estimate: none if it cannot say.
func (g *garbageEstimate) filesOf(family uint64) []base.FileNum {
	parts, err := g.Index.Parts(family)
	if err != nil {
		return nil
	}
	files := make([]base.FileNum, len(parts))
	for i, p := range parts {
		files[i] = p.File
	}
	return files
}

// droppedThrough returns the families whose last deletion was by a record up to lsn. A view there shows the
// partitions of the others.
func (g *garbageEstimate) droppedThrough(lsn base.LSN) map[uint64]droppedFamily {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[uint64]droppedFamily{}
	for family, d := range g.dropped {
		if d.lsn <= lsn {
			out[family] = *d
		}
	}
	return out
}

// takeDropped takes those families out of g.dropped. If the flush is not published, settle puts them back.
func (g *garbageEstimate) takeDropped(cut base.LSN) map[uint64]droppedFamily {
	out := g.droppedThrough(cut)
	g.mu.Lock()
	defer g.mu.Unlock()
	for family := range out {
		g.taken[family] = g.dropped[family]
		delete(g.dropped, family)
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
		for family, d := range g.taken {
			g.drop(family, d.lsn, d.files)
		}
	}
	clear(g.counted)
	clear(g.taken)
}

// deadIn returns how many bytes of each family are dead in these files.
func (g *garbageEstimate) deadIn(files map[base.FileNum]bool) map[uint64]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[uint64]int64{}
	for id, f := range g.fams {
		if n := f.in(files); n > 0 {
			out[id] = n
		}
	}
	return out
}

// moved notes families that are placed in new segments; settle adopts what it counts. They were merged as they were when
// deadIn returned before: what flushes have found dead in the files they come from since then is dead in the new ones.
func (g *garbageEstimate) moved(list []placed, from map[base.FileNum]bool, before map[uint64]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range list {
		if d := g.dropped[p.fam]; d != nil {
			d.add(0, []base.FileNum{p.part.File})
		}
		f := g.fams[p.fam]
		if more := f.in(from) - before[p.fam]; more > 0 && g.counted[p.fam].bytes == nil {
			f.bytes = maps.Clone(f.bytes)
			maps.DeleteFunc(f.bytes, func(n base.FileNum, _ int64) bool { return from[n] })
			f.bytes[p.part.File] = more
			g.counted[p.fam] = f
		}
	}
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
	alive, err := Families(v, func(id uint64) bool { _, is := dropped[id]; return is })
	if err != nil {
		return err
	}
	for i := range alive {
		delete(dropped, alive[i].id)
	}
	for id, d := range dropped {
		d.add(0, g.filesOf(id))
		g.set(id, g.dead(id, d))
	}
	return nil
}

// dead is what is dead of a dropped family: all that its files have of it. The lock of the images is held.
func (g *garbageEstimate) dead(family uint64, d droppedFamily) deadFamily {
	dead := deadFamily{bytes: map[base.FileNum]int64{}, dropped: true}
	for _, n := range d.files {
		if _, known := d.raw[n]; !known {
			if f, ok := g.inSegment(family, n); ok {
				d.raw[n] = f.RawBytes
			}
		}
		if d.raw[n] > 0 {
			dead.bytes[n] = d.raw[n]
		}
	}
	return dead
}
