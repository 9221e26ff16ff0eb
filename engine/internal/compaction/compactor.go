package compaction

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
	"github.com/stele-go/stele/engine/internal/flush"
	"github.com/stele-go/stele/engine/internal/garbage"
	"github.com/stele-go/stele/engine/internal/image"
	"github.com/stele-go/stele/engine/internal/rewrite"
	"github.com/stele-go/stele/engine/storage"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// Compactor merges segments. All methods are safe for concurrent use, but those that say
// which lock is held.
type Compactor struct {
	*storage.Store
	flusher *flush.Flusher
	images  *image.Chain
	garbage *garbage.Estimate

	Mu         sync.Mutex  // one compaction at a time; taken before that of the images
	unfinished atomic.Bool // a compaction may have ended between its first output and its last
}

// New returns a compactor that looks first for what an earlier life of the store left.
func New(f *flush.Flusher, images *image.Chain, g *garbage.Estimate) *Compactor {
	c := &Compactor{Store: f.Store, flusher: f, images: images, garbage: g}
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
func (c *Compactor) Compact(ctx context.Context) error {
	if err := c.EnterToWrite(); err != nil {
		return err
	}
	defer c.Leave()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if err := c.flusher.FlushWithin(ctx); err != nil {
		return err
	}
	settled, err := c.settled(ctx)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := c.Run(ctx, Task{Inputs: c.segmentsBut(settled), settled: len(settled), Limit: c.Throttle.Limiter(ctx)}); err != nil {
		return err
	}
	if err := c.images.RenewKeys(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// CompactStep merges the segments of one size class, if Options.CompactFanout of
// them have gathered, or rewrites a segment that is mostly dead, and reports whether
// it did. The store does the same by
// itself until nothing is left to merge.
func (c *Compactor) CompactStep(ctx context.Context) (bool, error) {
	if err := c.EnterToWrite(); err != nil {
		return false, err
	}
	defer c.Leave()
	return c.step(ctx, nil)
}

// step does the work of CompactStep.
func (c *Compactor) step(ctx context.Context, limit func(int)) (bool, error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	segs := c.Manifest.State().Segments
	inputs, err := c.Interrupted(segs)
	if err != nil {
		return false, fmt.Errorf("compact: %w", err)
	}
	if inputs == nil {
		inputs = pickCompaction(segs, c.Opts.CompactFanout, c.Opts.SegmentSize)
	}
	if inputs == nil {
		inputs = mostlyDead(segs, c.garbage.InSegments(segs))
	}
	if inputs == nil {
		return false, nil
	}
	return true, c.Run(ctx, Task{Inputs: inputs, Limit: limit})
}

// Task says what to merge.
type Task struct {
	Inputs  []snapshot.SegmentInfo
	settled int       // segments left out because they hold nothing that is dead
	Limit   func(int) // may be nil
	Whole   bool      // nothing becomes part of the store before all is done

	Tell func(metrics.CompactProgress) // besides Options.Events.Compacting; may be nil
}

// Run merges segments into one, or a few large ones. Mu is held, so the inputs stay, and
// everything below the floor is in segments. The lock of the images is taken for the edits alone: a flush beside the work adds a segment that is newer than all inputs, and
// moves nothing of theirs. An output that is large enough is published at once; the
// inputs stay until the edit that adds the last one.
func (c *Compactor) Run(ctx context.Context, t Task) error {
	if len(t.Inputs) == 0 {
		return nil
	}
	if err := c.images.CheckPagesNow(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	start := time.Now()
	v := c.WorkView(c.ViewWithin)
	defer v.Release()
	st := c.Manifest.State()
	m := &merge{from: map[base.FileNum]bool{}, all: len(t.Inputs)+t.settled == len(st.Segments), floor: st.FloorLSN, whole: t.Whole, tell: t.Tell}
	for _, s := range t.Inputs {
		m.from[s.Num] = true
		m.info.Inputs = append(m.info.Inputs, uint64(s.Num))
		m.info.BytesIn += s.Size
	}
	m.progress = metrics.CompactProgress{Inputs: len(t.Inputs), BytesIn: m.info.BytesIn}
	known, err := c.TombstonesIn(st.Segments)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	m.dropped = storage.LastDrops(known)
	tombs := c.Remembered(known)
	if !m.all {
		if tombs, err = c.TombstonesIn(t.Inputs); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	out := rewrite.NewOutputs(c.Store, m.from, t.Limit)
	if err := c.buildCompaction(ctx, v, m, out); err != nil {
		return fmt.Errorf("compact: %w", out.Abandon(err))
	}
	segs, err := out.Finish(tombs)
	if err != nil {
		return fmt.Errorf("compact: %w", out.Abandon(err))
	}
	if err := c.replaceSegments(snapshot.Edit{RemoveSegments: slices.Collect(maps.Keys(m.from)), AddSegments: segs}, m.families, out); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	c.unfinished.Store(false)
	m.count(segs)
	m.info.Took = time.Since(start)
	c.noteCompact(m.info)
	return nil
}

// replaceSegments makes outputs of a compaction part of the store in place of its
// inputs: for these families, whose pages the inputs hold no longer.
func (c *Compactor) replaceSegments(edit snapshot.Edit, families map[uint64]bool, out *rewrite.Outputs) error {
	c.images.Mu.Lock()
	defer c.images.Mu.Unlock()
	if err := c.images.CheckPages(); err != nil {
		return out.Abandon(err)
	}
	out.Register()
	last := len(edit.RemoveSegments) > 0 // then no page of the inputs counts any more
	drop := func(id uint64, p index.Part) bool { return out.From[p.File] && (last || families[id]) }
	old, err := c.images.Publish(edit, image.Replaced{Placed: out.Placed(), Drop: drop, Families: families}, c.Manifest.State().FloorLSN)
	if err != nil {
		out.RemoveUnlessApplied(err)
		return err
	}
	out.Install()
	if last {
		c.garbage.Forget(out.From)
	}
	c.Files.Retire(append(edit.RemoveSegments, old...)...)
	return nil
}

// publishDone makes the output so far part of the store if it is large enough, beside
// the inputs.
func (c *Compactor) publishDone(m *merge, out *rewrite.Outputs) error {
	if m.whole || !out.Full() {
		return nil
	}
	if err := out.End(nil); err != nil {
		return err
	}
	c.unfinished.Store(true)
	segs := out.Segments()
	err := c.replaceSegments(snapshot.Edit{AddSegments: segs}, m.done, out)
	out.Taken()
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

func (c *Compactor) noteCompact(i metrics.CompactInfo) {
	c.Compactions.Add(1)
	c.CompactedIn.Add(i.BytesIn)
	c.CompactedOut.Add(i.BytesOut)
	c.Opts.Logger.Info("compacted", "inputs", len(i.Inputs), "file_num", i.Output, "bytes_in", i.BytesIn, "bytes_out", i.BytesOut, "took", i.Took)
	if f := c.Opts.Events.Compacted; f != nil {
		f(i)
	}
}

// CompactDue merges, at Options.CompactRate, until nothing is due.
func (c *Compactor) CompactDue(ctx context.Context) error {
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	for {
		if did, err := c.step(ctx, c.Throttle.Limiter(ctx)); err != nil || !did {
			return err
		}
	}
}
