package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/snapshot"
)

// compactor merges segments.
type compactor struct {
	*storage.Store
	flusher *flusher
	images  *images
	garbage *garbage

	mu         sync.Mutex  // one compaction at a time; taken before images.mu
	unfinished atomic.Bool // a compaction may have ended between its first output and its last
}

// newCompactor returns one that looks first for what an earlier life of the store left.
func newCompactor(f *flusher) *compactor {
	c := &compactor{Store: f.Store, flusher: f, images: f.images, garbage: f.garbage}
	c.unfinished.Store(true)
	return c
}

// Compact flushes, and merges all segments into one, or a few large ones, that hold
// only what is live. The space goes back when no view needs the old files any more. Commits,
// flushes and images go on meanwhile, at Options.CompactRate; another compaction is
// waited for. Segments of Options.SegmentSize become part of the store as they are done:
// when ctx ends, or the process, at most one of them is lost, and the next Compact leaves
// out those in which nothing has changed since. In an encrypted store every file is under
// the current key afterwards.
func (c *compactor) Compact(ctx context.Context) error {
	if c.Opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flusher.flushNow(ctx); err != nil {
		return err
	}
	settled, err := c.settled(ctx)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := c.compact(ctx, compaction{inputs: c.segmentsBut(settled), settled: len(settled), limit: c.Throttle.Limiter(ctx)}); err != nil {
		return err
	}
	if err := c.images.renewKeys(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// CompactStep merges the segments of one size class, if Options.CompactFanout of
// them have gathered, or rewrites a segment that is mostly dead, and reports whether
// it did. The store does the same by
// itself until nothing is left to merge.
func (c *compactor) CompactStep(ctx context.Context) (bool, error) {
	if c.Opts.ReadOnly {
		return false, fault.ErrReadOnly
	}
	if err := c.Enter(); err != nil {
		return false, err
	}
	defer c.Leave()
	return c.compactStep(ctx, nil)
}

// compactStep does the work of CompactStep.
func (c *compactor) compactStep(ctx context.Context, limit func(int)) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	segs := c.Manifest.State().Segments
	inputs, err := c.interrupted(segs)
	if err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	if inputs == nil {
		inputs = pickCompaction(segs, c.Opts.CompactFanout, c.Opts.SegmentSize)
	}
	if inputs == nil {
		inputs = mostlyDead(segs, c.garbage.inSegments(segs))
	}
	if inputs == nil {
		return false, nil
	}
	return true, c.compact(ctx, compaction{inputs: inputs, limit: limit})
}

// pickCompaction returns segments worth merging: as many as the fan-out asks for
// in one class of size, those of the size limit and more left out. Each class is four
// times the last.
func pickCompaction(segs []snapshot.SegmentInfo, fanout int, limit int64) []snapshot.SegmentInfo {
	classes := map[int][]snapshot.SegmentInfo{}
	for _, s := range segs {
		if s.Size >= limit {
			continue
		}
		c := max(0, bits.Len64(uint64(s.Size))-17) / 2
		classes[c] = append(classes[c], s)
	}
	for c := range 32 {
		if len(classes[c]) >= fanout {
			return classes[c]
		}
	}
	return nil
}

const (
	// deadShare of a segment, in tenths, makes it worth rewriting alone, if that
	// frees at least minDead bytes.
	deadShare = 4
	minDead   = 1 << 20
)

// mostlyDead returns the segment of which the largest part is dead, if that is
// worth rewriting it.
func mostlyDead(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64) []snapshot.SegmentInfo {
	var worst []snapshot.SegmentInfo
	most := 0.0
	for _, s := range segs {
		share := float64(dead[s.Num]) / float64(s.Size)
		if dead[s.Num] >= minDead && share*10 >= deadShare && share > most {
			worst, most = []snapshot.SegmentInfo{s}, share
		}
	}
	return worst
}

// compaction says what to compact.
type compaction struct {
	inputs  []snapshot.SegmentInfo
	settled int       // segments left out because they hold nothing that is dead
	limit   func(int) // may be nil
	whole   bool      // nothing becomes part of the store before all is done

	tell func(monitor.CompactProgress) // besides Options.Events.Compacting; may be nil
}

// compact merges segments into one, or a few large ones. compactMu is held, so the
// inputs stay, and everything below the floor is in segments. flushMu is taken for the
// edits alone: a flush beside the work adds a segment that is newer than all inputs, and
// moves nothing of theirs. An output that is large enough is published at once; the
// inputs stay until the edit that adds the last one, see resume.go.
func (e *compactor) compact(ctx context.Context, c compaction) error {
	if len(c.inputs) == 0 {
		return nil
	}
	if err := e.images.checkPagesNow(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	start := time.Now()
	v := e.WorkView(e.ViewWithin)
	defer v.Release()
	st := e.Manifest.State()
	m := &merge{from: map[base.FileNum]bool{}, all: len(c.inputs)+c.settled == len(st.Segments), floor: st.FloorLSN, whole: c.whole, tell: c.tell}
	for _, s := range c.inputs {
		m.from[s.Num] = true
		m.info.Inputs = append(m.info.Inputs, uint64(s.Num))
		m.info.BytesIn += s.Size
	}
	m.progress = monitor.CompactProgress{Inputs: len(c.inputs), BytesIn: m.info.BytesIn}
	known, err := e.TombstonesIn(st.Segments)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	m.dropped = storage.LastDrops(known)
	tombs := e.Remembered(known)
	if !m.all {
		if tombs, err = e.TombstonesIn(c.inputs); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	out := newOutputs(e.Store, m.from, c.limit)
	if err := e.buildCompaction(ctx, v, m, out); err != nil {
		return fmt.Errorf("compact: %w", out.abandon(err))
	}
	segs, err := out.finish(tombs)
	if err != nil {
		return fmt.Errorf("compact: %w", out.abandon(err))
	}
	if err := e.replaceSegments(snapshot.Edit{RemoveSegments: slices.Collect(maps.Keys(m.from)), AddSegments: segs}, m.families, out); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	e.unfinished.Store(false)
	m.count(segs)
	m.info.Took = time.Since(start)
	e.noteCompact(m.info)
	return nil
}

// replaceSegments makes outputs of a compaction part of the store in place of its
// inputs: for these families, whose pages the inputs hold no longer.
func (c *compactor) replaceSegments(edit snapshot.Edit, families map[uint64]bool, out *outputs) error {
	c.images.mu.Lock()
	defer c.images.mu.Unlock()
	if err := c.images.checkPages(); err != nil {
		return out.abandon(err)
	}
	out.enter()
	last := len(edit.RemoveSegments) > 0 // then no page of the inputs counts any more
	drop := func(id uint64, p index.Part) bool { return out.from[p.File] && (last || families[id]) }
	old, err := c.images.publish(edit, replaced{placed: out.placed(), drop: drop, families: families}, c.Manifest.State().FloorLSN)
	if err != nil {
		out.withdraw(err)
		return err
	}
	out.install()
	if last {
		c.garbage.forget(out.from)
	}
	c.Files.Retire(append(edit.RemoveSegments, old...)...)
	return nil
}

// publishDone makes the output so far part of the store if it is large enough, beside
// the inputs: see resume.go.
func (c *compactor) publishDone(m *merge, out *outputs) error {
	if m.whole || !out.full() {
		return nil
	}
	if err := out.end(nil); err != nil {
		return err
	}
	c.unfinished.Store(true)
	segs, jobs := out.infos, out.jobs
	err := c.replaceSegments(snapshot.Edit{AddSegments: segs}, m.done, out)
	out.jobs, out.infos = nil, nil // of the store now, or seen to
	if err != nil {
		return err
	}
	m.count(segs)
	for _, j := range jobs {
		out.earlier += j.b.Size()
	}
	for id := range m.done {
		delete(m.families, id)
	}
	m.done = map[uint64]bool{}
	return nil
}

// buildCompaction writes the families of the output.
//
// Segments hold the store as it was at the floor, whatever the log did since, and
// so does the output: a partition or an item that only the log deletes stays. What
// the log stored since may share values of the inputs, so these stay too.
func (c *compactor) buildCompaction(ctx context.Context, v *storage.View, m *merge, out *outputs) error {
	inputs, err := c.familiesIn(m.from)
	if err != nil {
		return err
	}
	m.families, m.done = maps.Clone(inputs), map[uint64]bool{}
	live := map[uint64]familyNames{}
	work, err := familiesOf(v, func(id uint64) bool { return inputs[id] })
	if err != nil {
		return err
	}
	for _, names := range work {
		live[names.id] = names
	}
	for n, id := range slices.Sorted(maps.Keys(inputs)) {
		c.noteCompacting(m, out, n, len(inputs)-n)
		if err := ctx.Err(); err != nil {
			return err
		}
		if parts, err := c.segmentParts(id); err != nil {
			return err
		} else if parts.elsewhere(m.from) {
			continue // moved before the compaction was interrupted
		}
		m.done[id] = true
		w := familyWork{fam: index.NewFamily(id)}
		if names, ok := live[id]; ok {
			if w, err = names.open(v); err != nil {
				return err
			}
		}
		if err := w.load(v); err != nil {
			return err
		}
		out.rest()
		mf, err := c.mergeFamily(w, m)
		if err != nil {
			return err
		}
		out.rest()
		if len(mf.page.Partitions) == 0 && len(mf.plan.heads)+len(mf.plan.history) == 0 {
			continue
		}
		if err := out.add(ctx, mf.w, mf.plan, mf.page, mf.lo, mf.hi); err != nil {
			return err
		}
		if err := c.publishDone(m, out); err != nil {
			return err
		}
	}
	return nil
}

// merge is what one compaction goes by.
type merge struct {
	from     map[base.FileNum]bool
	all      bool // no segment is left out that holds anything dead
	whole    bool // as compaction has it
	floor    base.LSN
	families map[uint64]bool     // of the inputs, without those already published
	done     map[uint64]bool     // of these, those that are in the output
	dropped  map[string]base.LSN // last deletion of a partition that segments know of

	progress monitor.CompactProgress
	tell     func(monitor.CompactProgress) // as compaction has it
	info     monitor.CompactInfo
}

// count adds published outputs.
func (m *merge) count(segs []snapshot.SegmentInfo) {
	for _, seg := range segs {
		if m.info.Output == 0 {
			m.info.Output = uint64(seg.Num)
		}
		m.info.Families, m.info.Values, m.info.BytesOut = m.info.Families+int(seg.Families), m.info.Values+int(seg.Values), m.info.BytesOut+seg.Size
	}
}

// noteCompacting tells how far a compaction is.
func (c *compactor) noteCompacting(m *merge, out *outputs, done, left int) {
	m.progress.Families, m.progress.FamiliesLeft, m.progress.BytesOut = done, left, out.written()
	for _, tell := range []func(monitor.CompactProgress){c.Opts.Events.Compacting, m.tell} {
		if tell != nil {
			tell(m.progress)
		}
	}
}

// familiesIn names the families the segments hold.
func (c *compactor) familiesIn(from map[base.FileNum]bool) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	for num := range from {
		h, err := c.Files.Acquire(num)
		if err != nil {
			return nil, err
		}
		fams, err := h.Segment.Families()
		c.Files.Release(h)
		if err != nil {
			return nil, err
		}
		for _, f := range fams {
			out[f.ID] = true
		}
	}
	return out, nil
}

// mergedFamily is one family of the output.
type mergedFamily struct {
	w      familyWork
	page   *index.Page
	plan   valuePlan
	lo, hi base.LSN
}

// mergeFamily merges the pages the inputs have of a family.
func (c *compactor) mergeFamily(w familyWork, m *merge) (*mergedFamily, error) {
	mf := &mergedFamily{w: w, page: &index.Page{}}
	sections := map[sectionKey]*section{}
	parts, err := c.segmentParts(w.fam.ID)
	if err != nil {
		return nil, err
	}
	for num := range m.from {
		if parts.stale(num) {
			continue
		}
		part, page, err := c.inputPage(w.fam.ID, num)
		if err != nil {
			return nil, err
		}
		if page == nil {
			continue
		}
		if mf.lo == 0 || part.MinLSN < mf.lo {
			mf.lo = part.MinLSN
		}
		mf.hi = max(mf.hi, part.MaxLSN)
		w.fam.AddMissing(page.Values, c.Files.Lasting(files.Latest))
		for i := range page.Partitions {
			addSection(sections, &page.Partitions[i])
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(sections), sectionKey.compare) {
		if m.dropped[key.id] > key.birth {
			continue
		}
		pt := sections[key].merged(w.partition(key), m)
		mf.page.Partitions = append(mf.page.Partitions, pt)
	}
	mf.plan = w.plan(&c.Opts, m.from)
	mf.plan.add(w.fam, mf.page, m.from)
	return mf, nil
}

// inputPage reads the page a segment has of a family, if it has one.
func (c *compactor) inputPage(family uint64, num base.FileNum) (index.Part, *index.Page, error) {
	h, err := c.Files.Acquire(num)
	if err != nil {
		return index.Part{}, nil, err
	}
	defer c.Files.Release(h)
	f, ok, err := h.Segment.Find(family)
	if err != nil || !ok {
		return index.Part{}, nil, err
	}
	part := index.Part{File: num, Off: f.DirOff, Len: f.DirStored, MinLSN: f.MinLSN, MaxLSN: f.MaxLSN}
	p, err := storage.ReadSegmentPage(h, family, part)
	return part, p, err
}

// sectionKey is one life of a partition.
type sectionKey struct {
	id    string
	birth base.LSN
}

func (k sectionKey) compare(o sectionKey) int {
	return cmp.Or(cmp.Compare(k.id, o.id), cmp.Compare(k.birth, o.birth))
}

// section gathers what the inputs say of one life of a partition.
type section struct {
	index.PagePartition
	lsn    base.LSN // newest record of the page that Updated and Flags come from
	newest map[string]*index.Item
}

func addSection(sections map[sectionKey]*section, pt *index.PagePartition) {
	key := sectionKey{pt.ID, pt.Birth}
	s := sections[key]
	if s == nil {
		s = &section{PagePartition: *pt, newest: map[string]*index.Item{}}
		sections[key] = s
	}
	if lsn := newestRecord(pt); lsn >= s.lsn {
		s.lsn, s.Updated, s.Flags = lsn, pt.Updated, pt.Flags
	}
	for _, it := range pt.Items {
		if old := s.newest[it.Key]; old == nil || old.LSN < it.LSN {
			s.newest[it.Key] = it
		}
	}
}

// merged is the section of the output. t is the partition as it is now, or nil if
// the log deleted it.
func (s *section) merged(t *index.Partition, m *merge) index.PagePartition {
	now := map[string]base.LSN{}
	if t != nil {
		t.Items(func(it *index.Item) { now[it.Key] = it.LSN })
	}
	pt := s.PagePartition
	pt.Items = nil
	for key, it := range s.newest {
		switch cur, known := now[key], t != nil; {
		case it.Deleted():
			if m.all {
				continue // nothing older is left that it could hide
			}
		case known && cur == 0, known && cur > it.LSN && cur < m.floor:
			continue // deleted or replaced, and a segment knows
		}
		pt.Items = append(pt.Items, it)
	}
	index.SortItems(pt.Items)
	return pt
}

// partition is the family's partition of this life, or nil.
func (w *familyWork) partition(key sectionKey) *index.Partition {
	for _, t := range w.partitions {
		if t.ID == key.id && t.Birth == key.birth {
			return t
		}
	}
	return nil
}

func (c *compactor) noteCompact(i monitor.CompactInfo) {
	c.Compactions.Add(1)
	c.CompactedIn.Add(i.BytesIn)
	c.CompactedOut.Add(i.BytesOut)
	c.Opts.Logger.Info("compacted", "inputs", len(i.Inputs), "file_num", i.Output, "bytes_in", i.BytesIn, "bytes_out", i.BytesOut, "took", i.Took)
	if f := c.Opts.Events.Compacted; f != nil {
		f(i)
	}
}

// noteSegments counts the segments that are yet to be merged. Where those of one size
// are twice as many as make a compaction, the one that is under way has taken so long
// that another waits: it hurries then, since what is dead stays on the disk until it is
// merged, and reads look into every segment.
func (c *compactor) noteSegments() {
	n, segs := int64(0), c.State().Segments
	for _, s := range segs {
		if s.Size < c.Opts.SegmentSize {
			n++
		}
	}
	c.Throttle.SetSegments(n, pickCompaction(segs, 2*c.Opts.CompactFanout, c.Opts.SegmentSize) != nil)
}

// compactAll is a turn of the compactor.
func (c *compactor) compactAll(ctx context.Context) error {
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	for {
		if did, err := c.compactStep(ctx, c.Throttle.Limiter(ctx)); err != nil || !did {
			return err
		}
	}
}

// debt is the size of the segments that CompactStep would take now, and
// the times after.
func (c *compactor) debt() int64 {
	left := c.State().Segments
	dead := c.garbage.inSegments(left)
	var debt int64
	for {
		next := pickCompaction(left, c.Opts.CompactFanout, c.Opts.SegmentSize)
		if next == nil {
			next = mostlyDead(left, dead)
		}
		if next == nil {
			return debt
		}
		for _, s := range next {
			debt += s.Size
		}
		left = slices.DeleteFunc(slices.Clone(left), func(s snapshot.SegmentInfo) bool { return slices.Contains(next, s) })
	}
}
