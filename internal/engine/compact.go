package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// CompactInfo tells about one compaction.
type CompactInfo struct {
	Inputs   []base.FileNum
	Output   base.FileNum // 0: nothing live was left
	Families int
	Values   int
	BytesIn  int64
	BytesOut int64
	Took     time.Duration
}

// Compact flushes, and merges all segments into one that holds only what is
// live. The space goes back when no view needs the old files any more.
func (e *Engine) Compact(ctx context.Context) error {
	if e.opts.ReadOnly {
		return base.ErrReadOnly
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if err := e.flush(ctx); err != nil {
		return err
	}
	return e.compact(ctx, e.manifest.State().Segments, nil)
}

// pickCompaction returns segments worth merging: as many as the fan-out asks for
// in one class of size. Each class is four times the last.
func pickCompaction(segs []snapshot.SegmentInfo, fanout int) []snapshot.SegmentInfo {
	classes := map[int][]snapshot.SegmentInfo{}
	for _, s := range segs {
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

// compact merges segments into one. flushMu is held, and everything below the
// floor is in segments. Inputs stay until the edit that replaces them is durable:
// a crash before it leaves a file nobody knows.
func (e *Engine) compact(ctx context.Context, inputs []snapshot.SegmentInfo, limit func(int)) error {
	if len(inputs) == 0 {
		return nil
	}
	start := time.Now()
	v, err := e.View()
	if err != nil {
		return err
	}
	defer v.Release()
	st := e.manifest.State()
	info := CompactInfo{}
	from := map[base.FileNum]bool{}
	for _, s := range inputs {
		from[s.Num] = true
		info.Inputs = append(info.Inputs, s.Num)
		info.BytesIn += s.Size
	}
	all := len(inputs) == len(st.Segments)
	tombs, err := e.mergedTombstones(from, all)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	job, err := e.buildCompaction(ctx, v, st, from, all, limit)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	edit := snapshot.Edit{RemoveSegments: info.Inputs}
	if job == nil && len(tombs) > 0 {
		if job, err = e.startSegment(from, limit); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	var done []placed
	if job != nil {
		seg, err := job.finish(tombs)
		if err != nil {
			job.abandon()
			return fmt.Errorf("compact: %w", err)
		}
		edit.AddSegments = []snapshot.SegmentInfo{seg}
		done = job.done
		info.Output, info.Families, info.Values, info.BytesOut = seg.Num, int(seg.Families), int(seg.Values), seg.Size
		e.files.add(kindSegment, seg.Num)
	}
	old, err := e.publish(edit, done, func(p index.Part) bool { return from[p.File] }, st.FloorLSN)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if job != nil {
		job.install()
	}
	e.files.retire(append(info.Inputs, old...)...)
	info.Took = time.Since(start)
	e.noteCompact(info)
	return nil
}

// buildCompaction writes the output, or returns no job if nothing live is in the
// inputs. A page keeps the items the inputs had that are still the thread's;
// marks of deletion are kept while older segments may hold what they delete.
func (e *Engine) buildCompaction(ctx context.Context, v *View, st snapshot.State, from map[base.FileNum]bool, all bool, limit func(int)) (*segmentJob, error) {
	touched, err := e.familiesIn(from)
	if err != nil {
		return nil, err
	}
	var job *segmentJob
	for _, w := range familiesOf(v, func(id uint64) bool { return touched[id] }) {
		if err := w.load(v); err != nil {
			return nil, abandon(job, err)
		}
		page, lo, hi, err := e.mergedPage(w, from, all, st.FloorLSN)
		if err != nil {
			return nil, abandon(job, err)
		}
		plan := w.plan(e.opts.Hot, from)
		if len(page.Threads) == 0 && len(plan.heads)+len(plan.history) == 0 {
			continue
		}
		if job == nil {
			if job, err = e.startSegment(from, limit); err != nil {
				return nil, err
			}
		}
		if err := job.add(ctx, w, plan, page, lo, hi); err != nil {
			return nil, abandon(job, err)
		}
	}
	return job, nil
}

// familiesIn names the families the segments hold.
func (e *Engine) familiesIn(from map[base.FileNum]bool) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	for num := range from {
		h, err := e.files.acquire(num)
		if err != nil {
			return nil, err
		}
		fams, err := h.seg.Families()
		e.files.release(h)
		if err != nil {
			return nil, err
		}
		for _, f := range fams {
			out[f.ID] = true
		}
	}
	return out, nil
}

// mergedPage merges a family's pages in the inputs.
func (e *Engine) mergedPage(w familyWork, from map[base.FileNum]bool, all bool, floor base.LSN) (page *index.Page, lo, hi base.LSN, err error) {
	type key struct {
		thread string
		item   string
	}
	newest := map[key]*index.Item{}
	listed := map[string]bool{}
	for _, part := range w.fam.Parts() {
		if !from[part.File] {
			continue
		}
		if lo == 0 || part.MinLSN < lo {
			lo = part.MinLSN
		}
		hi = max(hi, part.MaxLSN)
		p, _, err := e.readPart(w.fam.ID, part, false)
		if err != nil {
			return nil, 0, 0, err
		}
		for _, pt := range p.Threads {
			if !w.has(pt.ID, pt.Birth) {
				continue
			}
			listed[pt.ID] = true
			for _, it := range pt.Items {
				k := key{pt.ID, it.Key}
				if old := newest[k]; old == nil || old.LSN < it.LSN {
					newest[k] = it
				}
			}
		}
	}
	keep := func(t *index.Thread, it *index.Item) bool {
		in := newest[key{t.ID, it.Key}]
		return in != nil && in.LSN == it.LSN && !it.Deleted()
	}
	page = w.page(keep, func(t *index.Thread) bool { return listed[t.ID] })
	if !all {
		w.addDeletions(page, func(id string, visit func(*index.Item)) {
			for k, it := range newest {
				if k.thread == id && it.Deleted() {
					visit(it)
				}
			}
		})
	}
	return page, lo, min(hi, floor-1), nil
}

func (w *familyWork) has(id string, birth base.LSN) bool {
	for _, t := range w.threads {
		if t.ID == id && t.Birth == birth {
			return true
		}
	}
	return false
}

// addDeletions adds marks of deletion to the page, unless the key lives again.
func (w *familyWork) addDeletions(page *index.Page, marks func(id string, visit func(*index.Item))) {
	for i := range page.Threads {
		pt := &page.Threads[i]
		have := map[string]bool{}
		for _, it := range pt.Items {
			have[it.Key] = true
		}
		marks(pt.ID, func(it *index.Item) {
			if !have[it.Key] {
				pt.Items = append(pt.Items, it)
			}
		})
		index.SortItems(pt.Items)
	}
}

// mergedTombstones are the tombstones the output must carry: none if no segment
// is left that could hold what they delete.
func (e *Engine) mergedTombstones(from map[base.FileNum]bool, all bool) ([]index.Memo, error) {
	if all {
		return nil, nil
	}
	var out []index.Memo
	for num := range from {
		memos, err := e.segmentTombstones(num)
		if err != nil {
			return nil, err
		}
		out = append(out, memos...)
	}
	return out, nil
}

func (e *Engine) segmentTombstones(num base.FileNum) ([]index.Memo, error) {
	h, err := e.files.acquire(num)
	if err != nil {
		return nil, err
	}
	defer e.files.release(h)
	b, err := h.seg.Tombstones()
	if err != nil {
		return nil, err
	}
	memos, err := decodeTombstones(b)
	if err != nil {
		return nil, &base.CorruptionError{File: h.kind.name(num), Kind: "tombstones", Offset: -1, Err: err}
	}
	return memos, nil
}
