package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// compactor merges segments: of the entries and values that its inputs hold, the output has those that
// are live, the versions of a series side by side.
//
// What is merged: segments of about one size when Options.CompactFanout of them have gathered, a
// segment that is mostly dead, or everything when Compact is called. If less than Options.Reserve is
// free, the segment whose rewriting frees most comes first, of those whose live part fits.
//
// # What the output holds
//
// Segments hold the store as it was at the floor, whatever the log did since, and so does the output: a
// partition or an entry that only the log deletes stays. A deletion that older segments may need is
// kept as long as they do.
//
// # An output that is published early
//
// A compaction publishes each output of Options.SegmentSize as it is done, beside its inputs, and
// removes the inputs with the last one. If it ends in between, the index has the new pages of the
// families that were moved, and their old pages in the inputs are unused: stale. It follows:
//
//   - Stale pages are never merged: they may hold entries whose deletion the output has
//     dropped.
//   - All segments with stale pages leave in one edit, before another compaction chooses
//     among them: one may hold the deletions that hide entries of another, should the index be
//     made anew. An index made anew counts all pages, and nothing is stale.
//   - What was moved is not moved again.
//
// All methods are safe for concurrent use, but those that say which lock is held.
type compactor struct {
	*Store
	flusher *flusher
	images  *imageStack
	garbage *garbageEstimate

	mu         sync.Mutex  // one compaction at a time; taken before that of the images
	unfinished atomic.Bool // a compaction may have ended between its first output and its last
}

// newCompactor returns a compactor that first completes a compaction that was interrupted before the
// store was opened.
func newCompactor(f *flusher, images *imageStack, g *garbageEstimate) *compactor {
	c := &compactor{Store: f.Store, flusher: f, images: images, garbage: g}
	c.unfinished.Store(true)
	return c
}

// compact flushes, and merges all segments into one, or a few large ones, that hold
// only what is live. The space goes back when no view needs the old files any more. Commits,
// flushes and images go on meanwhile, at Options.CompactRate; another compaction is
// waited for. Segments of Options.SegmentSize become part of the store as they are done:
// when ctx ends, or the process, at most one of them is lost, and the next Compact leaves
// out those in which nothing has changed since. In an encrypted store every file is under
// the current key afterwards.
func (c *compactor) compact(ctx context.Context) error {
	if err := c.enterToWrite(); err != nil {
		return err
	}
	defer c.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flusher.flushWithin(ctx); err != nil {
		return err
	}
	clean, err := c.clean(ctx)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := c.run(ctx, compactionTask{inputs: c.segmentsBut(clean), clean: len(clean), limit: c.throttle.limiter(ctx)}); err != nil {
		return err
	}
	if err := c.images.renewKeys(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// compactStep merges the segments of one size class, if Options.CompactFanout of
// them have gathered, or rewrites a segment that is mostly dead, and reports whether
// it did. The store does the same by
// itself until nothing is left to merge.
func (c *compactor) compactStep(ctx context.Context) (bool, error) {
	if err := c.enterToWrite(); err != nil {
		return false, err
	}
	defer c.Leave()
	return c.step(ctx, nil)
}

// step is one step of compactStep, for whoever has entered the engine.
func (c *compactor) step(ctx context.Context, limit func(int)) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	segs := c.manifest.State().Segments
	inputs, err := c.interrupted(segs)
	if err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	if inputs == nil {
		inputs = nextCompaction(segs, c.garbage.inSegments(segs), &c.Opts, c.room())
	}
	if inputs == nil {
		return false, nil
	}
	return true, c.run(ctx, compactionTask{inputs: inputs, limit: limit})
}

// compactionTask says what to merge.
type compactionTask struct {
	inputs []snapshot.SegmentInfo
	clean  int       // segments left out because they hold nothing that is dead
	limit  func(int) // may be nil
	whole  bool      // nothing becomes part of the store before all is done

	tell func(metrics.CompactProgress) // besides Options.Events.Compacting; may be nil
}

// run merges segments into one, or a few large ones. mu is held, so the inputs stay, and everything
// below the floor is in segments. The lock of the images is held only for the edits: a flush that runs
// meanwhile adds a segment that is newer than all inputs, and moves none of their values. An output
// that is large enough is published immediately; the inputs stay until the edit that adds the last one.
func (c *compactor) run(ctx context.Context, t compactionTask) error {
	if len(t.inputs) == 0 {
		return nil
	}
	if err := c.images.checkPagesNow(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	start := time.Now()
	v := c.workView(c.ViewWithin)
	defer v.Release()
	st := c.manifest.State()
	m := &merge{from: map[base.FileNum]bool{}, all: len(t.inputs)+t.clean == len(st.Segments), floor: st.FloorLSN, whole: t.whole, tell: t.tell}
	for _, s := range t.inputs {
		m.from[s.Num] = true
		m.info.Inputs = append(m.info.Inputs, uint64(s.Num))
		m.info.BytesIn += s.Size
	}
	m.dead = c.garbage.deadIn(m.from)
	m.progress = metrics.CompactProgress{Inputs: len(t.inputs), BytesIn: m.info.BytesIn}
	known, err := c.tombstonesIn(st.Segments)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	m.dropped = lastDrops(known)
	tombs := c.remembered(known)
	if !m.all {
		if tombs, err = c.tombstonesIn(t.inputs); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	out := newOutputs(c.Store, m.from, t.limit)
	if err := c.buildCompaction(ctx, v, m, out); err != nil {
		return fmt.Errorf("compact: %w", out.abandon(err))
	}
	segs, err := out.Finish(tombs)
	if err != nil {
		return fmt.Errorf("compact: %w", out.abandon(err))
	}
	if err := c.replaceSegments(snapshot.Edit{RemoveSegments: slices.Collect(maps.Keys(m.from)), AddSegments: segs}, m.families, m.dead, out); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	c.unfinished.Store(false)
	m.count(segs)
	m.info.Took = time.Since(start)
	c.noteCompact(m.info)
	return nil
}

// replaceSegments makes outputs of a compaction part of the store in place of its
// inputs: for these families, whose pages the inputs hold no longer. dead is what was dead in the inputs when it began.
func (c *compactor) replaceSegments(edit snapshot.Edit, families map[uint64]bool, dead map[uint64]int64, out *segmentOutputs) (err error) {
	c.images.mu.Lock()
	defer c.images.mu.Unlock()
	if err := c.images.checkPages(); err != nil {
		return out.abandon(err)
	}
	out.register()
	last := len(edit.RemoveSegments) > 0 // then the pages of the inputs are no longer used
	drop := func(id uint64, p index.Part) bool { return out.from[p.File] && (last || families[id]) }
	defer func() { c.garbage.settle(err == nil) }()
	c.garbage.moved(out.placed(), out.from, dead)
	old, err := c.images.publish(edit, replacedSegments{placed: out.placed(), drop: drop, families: families}, c.manifest.State().FloorLSN)
	if err != nil {
		out.removeUnlessApplied(err)
		return err
	}
	out.install()
	if last {
		c.garbage.forget(out.from)
	}
	c.Files.retire(append(edit.RemoveSegments, old...)...)
	return nil
}

// publishDone makes the output written so far part of the store, beside the inputs, if it is large
// enough.
func (c *compactor) publishDone(m *merge, out *segmentOutputs) error {
	if m.whole || !out.full() {
		return nil
	}
	if err := out.end(nil); err != nil {
		return err
	}
	c.unfinished.Store(true)
	segs := out.Segments()
	err := c.replaceSegments(snapshot.Edit{AddSegments: segs}, m.done, m.dead, out)
	out.taken()
	if err != nil {
		return err
	}
	m.count(segs)
	for id := range m.done {
		delete(m.families, id)
	}
	m.done = map[uint64]bool{}
	return nil
}

func (c *compactor) noteCompact(i metrics.CompactInfo) {
	c.compactions.Add(1)
	c.compactedIn.Add(i.BytesIn)
	c.compactedOut.Add(i.BytesOut)
	c.Opts.Logger.Info("compacted", "inputs", len(i.Inputs), "file_num", i.Output, "bytes_in", i.BytesIn, "bytes_out", i.BytesOut, "took", i.Took)
	if f := c.Opts.Events.Compacted; f != nil {
		f(i)
	}
}

// compactDue merges, at Options.CompactRate, until nothing is due, and calls merged after each step.
func (c *compactor) compactDue(ctx context.Context, merged func()) error {
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	for {
		if did, err := c.step(ctx, c.throttle.limiter(ctx)); err != nil || !did {
			return err
		}
		merged()
	}
}
