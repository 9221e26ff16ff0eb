package flush

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine/internal/garbage"
	"github.com/stele-go/stele/engine/internal/image"
	"github.com/stele-go/stele/engine/internal/rewrite"
	"github.com/stele-go/stele/engine/storage"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// Flusher moves the log into segments. All methods are safe for concurrent use.
type Flusher struct {
	*storage.Store
	images  *image.Chain
	garbage *garbage.Estimate

	unflushed  unflushed
	sealed     sealView
	patchFloor atomic.Uint64 // the first record whose values may be bases
}

// New returns the flusher of a store that holds nothing yet.
func New(images *image.Chain, g *garbage.Estimate) *Flusher {
	f := &Flusher{Store: images.Store, images: images, garbage: g}
	f.Reset()
	return f
}

// Committed says that records, in n bytes of the log, put these partitions. lsn is that of
// the last of them.
func (f *Flusher) Committed(put []*index.Partition, lsn base.LSN, n int64) {
	f.unflushed.add(put, lsn)
	f.Throttle.Committed(n)
	f.images.Committed(n)
}

// LogBegun is called on the committer when a log file is begun, before its first record.
// patches is how many values of that record's batch are patches.
func (f *Flusher) LogBegun(patches int) { f.sealed.begun(f.Index, patches) }

// MayBeBase reports whether a record prepared now may hold a patch against ref: whether ref
// is behind the last seal, and no flush is just setting the next.
func (f *Flusher) MayBeBase(ref index.Ref) bool { return uint64(ref.LSN) >= f.patchFloor.Load() }

// Loaded says that images which Open read hold items of families up to record last.
func (f *Flusher) Loaded(last base.LSN) { f.unflushed.imaged(last) }

// Expect makes room for n families with records in the log.
func (f *Flusher) Expect(n int) { f.unflushed.expect(n) }

// Reset forgets which families have records in the log: they are read again.
func (f *Flusher) Reset() { f.unflushed.reset() }

// Flush moves what is in the log into a segment, so that the log can be removed.
// It goes beside commits. A failure leaves the store as it was.
func (f *Flusher) Flush(ctx context.Context) error {
	if err := f.EnterToWrite(); err != nil {
		return err
	}
	defer f.Leave()
	return f.FlushWithin(ctx)
}

// FlushWithin does the work of Flush for who has entered the store.
func (f *Flusher) FlushWithin(ctx context.Context) error {
	f.images.Mu.Lock()
	defer f.images.Mu.Unlock()
	return f.FlushLocked(ctx)
}

// FlushLocked does the work of Flush for who has entered the store and holds the lock of the
// images. The package comment has its steps.
func (f *Flusher) FlushLocked(ctx context.Context) error {
	if err := f.images.CheckPages(); err != nil {
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
	out := rewrite.NewOutputs(f.Store, files, func(int) { y.Yield() })
	out.Quick = f.writtenAgain()
	if err := f.buildFlush(ctx, v, st, files, tombs, out); err != nil {
		return fmt.Errorf("flush: %w", out.Abandon(err))
	}
	info := metrics.FlushInfo{Floor: uint64(floor)}
	for _, seg := range out.Segments() {
		if info.Segment == 0 {
			info.Segment = uint64(seg.Num)
		}
		info.Families, info.Values, info.Bytes = info.Families+int(seg.Families), info.Values+int(seg.Values), info.Bytes+seg.Size
	}
	info.ValueBytes = out.ValueBytes()
	edit.AddSegments, edit.SetDead = out.Segments(), f.garbage.News(st.Segments)
	out.Register()
	drop := func(_ uint64, p index.Part) bool { return p.MaxLSN <= sealed && f.Files.IsImage(p.File) }
	old, err := f.images.Publish(edit, image.Replaced{Placed: out.Placed(), Drop: drop, Families: f.unflushed.all()}, floor)
	if err != nil {
		out.RemoveUnlessApplied(err)
		return fmt.Errorf("flush: %w", err)
	}
	out.Install()
	f.unflushed.settle(sealed)
	f.Index.DropTombstones(sealed, f.OldestTombstone())
	f.Files.Retire(append(logs, old...)...)
	info.Took = time.Since(start)
	f.Throttle.Flushed(logged, info.Took-y.Gave()) // when commits are slowed down, it does not yield
	f.noteFlush(info)
	return nil
}

// buildFlush writes the segments of a flush: none if nothing live is in the sealed
// logs, as a rule one.
func (f *Flusher) buildFlush(ctx context.Context, v *storage.View, st snapshot.State, files map[base.FileNum]bool, tombs []index.Tombstone, out *rewrite.Outputs) error {
	fams := f.unflushed.all()
	work, err := storage.Families(v, func(id uint64) bool { return fams[id] })
	if err != nil {
		return err
	}
	if err := f.garbage.CountDropped(v); err != nil {
		return err
	}
	first, sealed := st.FloorLSN, v.LSN()
	imaging := true
	for _, names := range work {
		w, err := names.Open(v)
		if err == nil {
			err = w.Load(v)
		}
		if err != nil {
			return err
		}
		out.Yield()
		f.garbage.CountDead(&w, first)
		page, plan := w.Page(first), rewrite.NewPlan(&w, &f.Opts, files, first, nil)
		if len(page.Partitions) == 0 && len(plan.Hot)+len(plan.History) == 0 {
			continue
		}
		if err := out.Add(ctx, w, plan, page, first, sealed); err != nil {
			return err
		}
		if !imaging {
			continue
		}
		if err := f.images.WriteBeside(sealed); err != nil { // nothing is lost: the log has it
			f.Opts.Logger.Warn("image beside a flush", "error", err)
			imaging = false
		}
	}
	if out.Empty() && len(st.Segments) == 0 {
		// Only deletions: they need be known if older segments hold what they
		// delete, or if they are to be remembered even without an image.
		if len(f.Remembered(tombs)) == 0 {
			return nil
		}
	}
	_, err = out.Finish(tombs)
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

// WorkIfDue flushes or writes an image if the log has grown enough for it.
func (f *Flusher) WorkIfDue(ctx context.Context) error {
	f.images.Mu.Lock()
	defer f.images.Mu.Unlock()
	if err := f.images.CheckPages(); err != nil {
		return err
	}
	switch {
	case f.due():
		return f.FlushLocked(ctx)
	case f.images.Due():
		return f.images.Write(false)
	}
	return nil
}

// writtenAgain reports whether a compaction will write again what a flush writes. One that
// flushes so much at once that compaction leaves its segments alone compresses them well.
func (f *Flusher) writtenAgain() bool { return f.Opts.FlushBytes < f.Opts.SegmentSize }

func (f *Flusher) due() bool { return f.Throttle.LogBytes() >= f.Opts.FlushBytes }

// Due reports whether WorkIfDue has something to do.
func (f *Flusher) Due() bool { return f.due() || f.images.Due() }

// maxIdleLogs is how many log files a closed store may leave: each life writes
// its own, and many short lives should not make Open slow.
const maxIdleLogs = 8

// closeTimeout bounds the flush of a Close.
const closeTimeout = time.Minute

// SaveAtClose leaves an image, so that the next Open replays nothing.
func (f *Flusher) SaveAtClose() error {
	f.images.Mu.Lock()
	defer f.images.Mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if f.BadPages.Load() {
		return f.images.Forget()
	}
	write := func() error { return errors.Join(f.images.Write(false), f.garbage.RecordDropped()) }
	if len(f.Manifest.State().Logs) > maxIdleLogs {
		write = func() error { return f.FlushLocked(ctx) }
	}
	err := write()
	if f.BadPages.Load() { // found just now
		return f.images.Forget()
	}
	return err
}

func (f *Flusher) noteFlush(i metrics.FlushInfo) {
	f.Flushes.Add(1)
	f.FlushedValues.Add(i.ValueBytes)
	f.FlushedBytes.Add(i.Bytes)
	f.Opts.Logger.Info("flushed", "file_num", i.Segment, "floor_lsn", i.Floor, "families", i.Families, "values", i.Values, "bytes", i.Bytes, "took", i.Took)
	if tell := f.Opts.Events.Flushed; tell != nil {
		tell(i)
	}
}
