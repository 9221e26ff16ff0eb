package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/snapshot"
)

// flusher moves the log into segments.
type flusher struct {
	*storage.Store
	images     *images
	garbage    *garbage
	unflushed  *unflushed
	sealed     sealView
	patchFloor atomic.Uint64 // the oldest record whose values may be bases; see mayBeBase
}

// Flush moves what is in the log into a segment, so that the log can be removed.
// It goes beside commits. A failure leaves the store as it was.
func (f *flusher) Flush(ctx context.Context) error {
	if f.Opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := f.Enter(); err != nil {
		return err
	}
	defer f.Leave()
	return f.flushNow(ctx)
}

func (f *flusher) flushNow(ctx context.Context) error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	return f.flush(ctx)
}

// flush does the work of Flush. images.mu is held.
//
// A crash before the manifest edit leaves the log in charge and the new files
// unknown; a crash after it finds segment and image complete and durable.
func (f *flusher) flush(ctx context.Context) error {
	if err := f.images.checkPages(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	start := time.Now()
	logged := f.Throttle.LogBytes()
	v, err := f.sealLog(ctx)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer v.Release()
	st, sealed := f.Manifest.State(), v.LSN()
	if sealed < st.FloorLSN {
		return nil
	}
	if err := f.unflushed.gather(v, f.Files.IsImage); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	logs, files := sealedLogs(st, sealed)
	tombs := tombstones(v, st.FloorLSN, sealed)
	floor := sealed + 1
	edit := snapshot.Edit{RemoveLogs: logs, SetFloor: &floor}
	y := f.Throttle.Yielder()
	out := newOutputs(f.Store, files, func(int) { y.Yield() })
	if err := f.buildFlush(ctx, v, st, files, tombs, out); err != nil {
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
	edit.AddSegments, edit.SetDead = out.infos, f.garbage.news(st.Segments)
	out.enter()
	drop := func(_ uint64, p index.Part) bool { return p.MaxLSN <= sealed && f.Files.IsImage(p.File) }
	old, err := f.images.publish(edit, replaced{placed: out.placed(), drop: drop, families: f.unflushed.all()}, floor)
	if err != nil {
		out.withdraw(err)
		return fmt.Errorf("flush: %w", err)
	}
	out.install()
	f.unflushed.settle(sealed)
	f.Index.DropTombstones(sealed, f.OldestTombstone())
	f.Files.Retire(append(logs, old...)...)
	info.Took = time.Since(start)
	f.Throttle.Flushed(logged, info.Took-y.Gave()) // when commits are slowed down, it does not yield
	f.noteFlush(info)
	return nil
}

// sealLog ends the current log file, and returns a view of the store exactly as
// its sealed files left it. A segment must not know more than that: should the
// index ever be rebuilt from segments, the rest of the log is replayed on top.
func (f *flusher) sealLog(ctx context.Context) (*storage.View, error) {
	f.sealed.arm()
	defer f.sealed.disarm()
	// No patch behind the seal may be against a value before it: see mayBeBase.
	// Records prepared until the seal is set hold none at all.
	f.patchFloor.Store(noBase)
	if err := f.Log.Rotate(ctx); err != nil {
		f.patchFloor.Store(uint64(f.Index.LSN()) + 1)
		return nil, err
	}
	v := f.WorkView(f.ViewTombstones)
	// A file begun since has told what was before it, before its first record.
	if before, ok := f.sealed.take(); ok {
		v.Index = before
	}
	f.patchFloor.Store(uint64(v.LSN()) + 1)
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
func (f *flusher) buildFlush(ctx context.Context, v *storage.View, st snapshot.State, files map[base.FileNum]bool, tombs []index.Tombstone, out *outputs) error {
	fams := f.unflushed.all()
	work, err := familiesOf(v, func(id uint64) bool { return fams[id] })
	if err != nil {
		return err
	}
	dropped, err := familiesOf(v, f.garbage.isDropped)
	if err != nil {
		return err
	}
	first, sealed := st.FloorLSN, v.LSN()
	f.garbage.countDropped(dropped)
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
		f.garbage.countDead(&w)
		page, plan := w.page(keep, isNew), w.plan(&f.Opts, files)
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
		if len(f.Remembered(tombs)) == 0 {
			return nil
		}
	}
	_, err = out.finish(tombs)
	return err
}

// tombstones are the deletions of records first to last.
func tombstones(v *storage.View, first, last base.LSN) []index.Tombstone {
	var out []index.Tombstone
	for _, m := range v.Index.Tombstones() {
		if m.LSN >= first && m.LSN <= last {
			out = append(out, m)
		}
	}
	return out
}

// flushIfDue flushes or writes an image if the log has grown enough for it.
func (f *flusher) flushIfDue(ctx context.Context) error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	if err := f.images.checkPages(); err != nil {
		return err
	}
	switch {
	case f.Throttle.LogBytes() >= f.Opts.FlushBytes:
		return f.flush(ctx)
	case f.images.bytes.Load() >= f.Opts.ImageBytes:
		return f.images.writeImage(false)
	}
	return nil
}

// maxIdleLogs is how many log files a closed store may leave: each life writes
// its own, and many short lives should not make Open slow.
const maxIdleLogs = 8

// closeTimeout bounds the flush of a Close.
const closeTimeout = time.Minute

// flushAtClose leaves an image, so that the next Open replays nothing.
func (f *flusher) flushAtClose() error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if f.BadPages.Load() {
		return f.images.forgetImages()
	}
	write := func() error { return errors.Join(f.images.writeImage(false), f.garbage.recordDropped()) }
	if len(f.Manifest.State().Logs) > maxIdleLogs {
		write = func() error { return f.flush(ctx) }
	}
	err := write()
	if f.BadPages.Load() { // found just now
		return f.images.forgetImages()
	}
	return err
}

func (f *flusher) noteFlush(i monitor.FlushInfo) {
	f.Flushes.Add(1)
	f.FlushedValues.Add(i.ValueBytes)
	f.FlushedBytes.Add(i.Bytes)
	f.Opts.Logger.Info("flushed", "file_num", i.Segment, "floor_lsn", i.Floor, "families", i.Families, "values", i.Values, "bytes", i.Bytes, "took", i.Took)
	if tell := f.Opts.Events.Flushed; tell != nil {
		tell(i)
	}
}
