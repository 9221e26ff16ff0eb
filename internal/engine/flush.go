package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/snapshot"
)

// Flush moves what is in the log into a segment, so that the log can be removed.
// It goes beside commits. A failure leaves the store as it was.
func (e *Engine) Flush(ctx context.Context) error {
	if e.opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	return e.flushNow(ctx)
}

func (e *Engine) flushNow(ctx context.Context) error {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	return e.flush(ctx)
}

// flush does the work of Flush. flushMu is held.
//
// A crash before the manifest edit leaves the log in charge and the new files
// unknown; a crash after it finds segment and image complete and durable.
func (e *Engine) flush(ctx context.Context) error {
	if err := e.checkPages(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	start := time.Now()
	logged := e.throttle.LogBytes()
	v, err := e.sealLog(ctx)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer v.Release()
	st, sealed := e.manifest.State(), v.LSN()
	if sealed < st.FloorLSN {
		return nil
	}
	if err := e.unflushed.gather(v); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	logs, files := sealedLogs(st, sealed)
	tombs := tombstones(v, st.FloorLSN, sealed)
	floor := sealed + 1
	edit := snapshot.Edit{RemoveLogs: logs, SetFloor: &floor}
	y := e.throttle.Yielder()
	out := e.newOutputs(files, func(int) { y.Yield() })
	if err := e.buildFlush(ctx, v, st, files, tombs, out); err != nil {
		return fmt.Errorf("flush: %w", out.abandon(err))
	}
	info := monitor.FlushInfo{Floor: uint64(floor)}
	for _, seg := range out.infos {
		if info.Segment == 0 {
			info.Segment = uint64(seg.Num)
		}
		info.Families, info.Values, info.Bytes = info.Families+int(seg.Families), info.Values+int(seg.Values), info.Bytes+seg.Size
	}
	info.ValueBytes = out.valueBytes()
	edit.AddSegments, edit.SetDead = out.infos, e.garbage.news(st.Segments)
	out.enter()
	drop := func(_ uint64, p index.Part) bool { return p.MaxLSN <= sealed && e.files.IsImage(p.File) }
	old, err := e.publish(edit, replaced{placed: out.placed(), drop: drop, families: e.unflushed.all()}, floor)
	if err != nil {
		out.withdraw(err)
		return fmt.Errorf("flush: %w", err)
	}
	out.install()
	e.unflushed.settle(sealed)
	e.ix.DropTombstones(sealed, e.oldestTombstone())
	e.files.Retire(append(logs, old...)...)
	info.Took = time.Since(start)
	e.throttle.Flushed(logged, info.Took-y.Gave()) // when commits are slowed down, it does not yield
	e.noteFlush(info)
	return nil
}

// sealLog ends the current log file, and returns a view of the store exactly as
// its sealed files left it. A segment must not know more than that: should the
// index ever be rebuilt from segments, the rest of the log is replayed on top.
func (e *Engine) sealLog(ctx context.Context) (*View, error) {
	e.sealed.arm()
	defer e.sealed.disarm()
	// No patch behind the seal may be against a value before it: see mayBeBase.
	// Records prepared until the seal is set hold none at all.
	e.patchFloor.Store(noBase)
	if err := e.log.Rotate(ctx); err != nil {
		e.patchFloor.Store(uint64(e.ix.LSN()) + 1)
		return nil, err
	}
	v := e.workView(e.viewWithTombstones)
	// A file begun since has told what was before it, before its first record.
	if before, ok := e.sealed.take(); ok {
		v.v = before
	}
	e.patchFloor.Store(uint64(v.LSN()) + 1)
	return v, nil
}

// sealView catches the index between the last record of a sealed log file and the
// first of the next.
type sealView struct {
	mu    sync.Mutex
	armed bool
	v     *index.View
}

func (s *sealView) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.v = true, nil
}

func (s *sealView) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.v = false, nil
}

// begun is called on the committer when a file is begun. A file whose first batch
// holds patches, which were made before the seal was armed, is not where it can lie:
// it then ends behind that file.
func (s *sealView) begun(ix *index.Index, patches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed && s.v == nil && patches == 0 {
		v := ix.ViewTombstones()
		s.v = &v
	}
}

func (s *sealView) take() (index.View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.v == nil {
		return index.View{}, false
	}
	return *s.v, true
}

// sealedLogs are the log files that hold only records up to last.
func sealedLogs(st snapshot.State, last base.LSN) ([]base.FileNum, map[base.FileNum]bool) {
	var nums []base.FileNum
	set := map[base.FileNum]bool{}
	for _, l := range st.Logs {
		if l.BaseLSN <= last {
			nums = append(nums, l.Num)
			set[l.Num] = true
		}
	}
	return nums, set
}

// buildFlush writes the segments of a flush: none if nothing live is in the sealed
// logs, as a rule one.
func (e *Engine) buildFlush(ctx context.Context, v *View, st snapshot.State, files map[base.FileNum]bool, tombs []index.Tombstone, out *outputs) error {
	fams := e.unflushed.all()
	work, err := familiesOf(v, func(id uint64) bool { return fams[id] })
	if err != nil {
		return err
	}
	dropped, err := familiesOf(v, e.garbage.isDropped)
	if err != nil {
		return err
	}
	first, sealed := st.FloorLSN, v.LSN()
	e.countDropped(dropped)
	isNew := func(t *index.Partition) bool { return t.Birth >= first }
	keep := func(t *index.Partition, it *index.Item) bool { return it.LSN >= first || isNew(t) }
	for _, names := range work {
		w, err := names.open(v)
		if err == nil {
			err = w.load(v)
		}
		if err != nil {
			return err
		}
		out.rest()
		e.countDead(&w)
		page, plan := w.page(keep, isNew), w.plan(&e.opts, files)
		if len(page.Partitions) == 0 && len(plan.heads)+len(plan.history) == 0 {
			continue
		}
		if err := out.add(ctx, w, plan, page, first, sealed); err != nil {
			return err
		}
	}
	if out.empty() && len(st.Segments) == 0 {
		// Only deletions: they need be known if older segments hold what they
		// delete, or if they are to be remembered even without an image.
		if len(e.remembered(tombs)) == 0 {
			return nil
		}
	}
	_, err = out.finish(tombs)
	return err
}

// tombstones are the deletions of records first to last.
func tombstones(v *View, first, last base.LSN) []index.Tombstone {
	var out []index.Tombstone
	for _, m := range v.v.Tombstones() {
		if m.LSN >= first && m.LSN <= last {
			out = append(out, m)
		}
	}
	return out
}
