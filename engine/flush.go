package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// flusher moves the log into segments, so that its files can be removed.
//
// A flush takes the log up to the end of one of its files: the cut. It writes what is live there into
// segments, and publishes them with one edit of the manifest. Commits go on meanwhile, in the next log
// file. Who flushes holds imageStack.mu, so that no other flush, no other image and no end of a
// compaction comes between.
//
// # The steps
//
//  1. Allow no bases. The patch floor is raised above all records, so that a record that
//     is prepared from now on holds no patch (mayBeBase).
//  2. Arm. From now on the log tells the flush of each file that it begins (logBegun),
//     before the first record of the file.
//  3. Rotate. The log serves wal.Log.Rotate when every batch before it is applied: it syncs
//     the current file and ends it with a mark. The next commit begins a new file.
//  4. Take a view at the cut. If a file that may lie behind the cut has been begun since
//     step 2, logBegun has taken a view of the index at that moment, and wal.Options.OnCreate
//     promises that the index then held what the earlier files hold, no more and no less. If
//     there is no such file, nothing was committed since step 3, and the view is taken now.
//     The cut is behind the last record of the view. The patch floor becomes the first
//     record behind it.
//  5. Gather the families that have anything in the log: those of all commits and replayed
//     records, and, at the first flush after Open, those with pages in images. Open leaves
//     the latter out, so that it need not look at every family.
//  6. Write the segments, family by family: what is left of the entries that records from the
//     floor to the cut put, their deletions and tombstones, and the values that live entries
//     refer to and that lie in the finished files. Where nothing of that has to be kept, no
//     segment is written, and the log goes all the same. Commits go on, so images come due
//     meanwhile, and are written between families (imageStack.writeBeside).
//  7. Publish, with imageStack.publish. It syncs the log, writes an image of the index as
//     it is by now, and makes one edit of the manifest: the segments and the image are
//     named, the finished log files are not any more, and the floor is the first record
//     behind the cut.
//  8. Install. The families in memory are told where their values lie now. "The life of a
//     place" at Store explains this step.
//  9. Retire the finished log files, and the images that the new one replaces. They are
//     removed when no view needs them any more.
//
// # Where the cut lies
//
// A segment must not know more than the log files that it replaces. If the images are lost, the index
// is made from the segments, and the log from the floor on is replayed on top: each record has to find
// what was there before it. So the cut is the end of a file, and the view shows exactly what lies
// before it.
//
// No patch behind the cut may be against a value before it. So a flush finds the whole chain of each
// patch in the files that it takes, and reads no value of a segment; and what it leaves behind in them,
// because it is dead, is needed by no later record. A record that is committed behind the rotation is
// prepared after step 1, and holds no patch until the cut is known. But the log may begin a file
// between step 2 and the rotation, because the file before it is full. If the first batch of that file
// holds patches, some of it was prepared before step 1, and the cut must not lie before it: logBegun
// takes no view. The rotation ends that file too, and the cut lies at its end or later. If it holds
// none, what comes after it is prepared after step 2, and therefore after step 1.
//
// # A crash, and an error
//
// Up to the edit of the manifest, the log is in charge. A crash leaves segments and an image, whole or
// not, that no manifest names. Their numbers were reserved in the manifest before, so Open knows them
// as leftovers, and removes them. It removes a new log file that the manifest does not name as well,
// which holds no record. It replays the finished files as it would any others.
//
// The edit is in the manifest whole or not at all. By then everything that it names is durable:
// segments and image with their names, and the log as far as the image knows it.
//
// After the edit, Open reads the image, and replays the log behind it. Sealed log files and old images
// that are still there are leftovers.
//
// After an error before the edit, or one that says that the edit was not made, what was written is
// removed. The finished files stay in the log, and the next flush takes them. If it is not known
// whether the edit was made, the manifest is poisoned. All files stay then, and the next Open goes by
// what it finds.
//
// All methods are safe for concurrent use.
type flusher struct {
	*Store
	images  *imageStack
	garbage *garbageEstimate

	unflushed  unflushed
	cut        cutView
	patchFloor atomic.Uint64  // the first record whose values may be bases
	onCut      func(base.LSN) // the log was cut behind a record
}

// newFlusher returns the flusher of a store that is not yet read.
func newFlusher(images *imageStack, g *garbageEstimate) *flusher {
	f := &flusher{Store: images.Store, images: images, garbage: g}
	f.reset()
	return f
}

// committed counts records that changed these partitions and take n bytes of the log. lsn is that of
// the last record.
func (f *flusher) committed(put []*index.Partition, lsn base.LSN, n int64) {
	f.unflushed.add(put, lsn)
	f.throttle.committed(n)
	f.images.committed(n)
}

// logBegun is called on the committer when a log file is begun, before its first record.
// patches is how many values of that record's batch are patches. It reports whether a flush cuts the log here.
func (f *flusher) logBegun(patches int) bool { return f.cut.begun(f.Index, patches) }

// mayBeBase reports whether a record prepared now may hold a patch against ref: whether ref is behind
// the last cut, and no flush is setting the next one.
func (f *flusher) mayBeBase(ref index.Ref) bool { return uint64(ref.LSN) >= f.patchFloor.Load() }

// loaded notes that images which Open read hold entries of families up to record last.
func (f *flusher) loaded(last base.LSN) { f.unflushed.imaged(last) }

// expect makes room for n families with records in the log.
func (f *flusher) expect(n int) { f.unflushed.expect(n) }

// reset forgets which families have records in the log: the log is read again.
func (f *flusher) reset() { f.unflushed.reset() }

// flush moves the log into segments, so that its files can be removed. Commits go on meanwhile. A
// failure leaves the store as it was.
func (f *flusher) flush(ctx context.Context) error {
	if err := f.enterToWrite(); err != nil {
		return err
	}
	defer f.Leave()
	return f.flushWithin(ctx)
}

// flushWithin does the work of Flush for a caller that has entered the store.
func (f *flusher) flushWithin(ctx context.Context) error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	return f.flushLocked(ctx)
}

// flushLocked does the work of Flush for a caller that has entered the store and holds the lock of the
// images. The comment of flusher has its steps.
func (f *flusher) flushLocked(ctx context.Context) error {
	if err := f.images.checkPages(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	start := time.Now()
	logged := f.throttle.loggedBytes()
	v, err := f.cutLog(ctx)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer v.Release()
	st, cut := f.manifest.State(), v.LSN()
	if cut < st.FloorLSN {
		return nil
	}
	if err := f.unflushed.gather(v, f.Files.isImage); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	logs, files := finishedLogs(st, cut)
	tombs := tombstones(v, st.FloorLSN, cut)
	floor := cut + 1
	mark, gone := f.images.keep(st, logs)
	edit := snapshot.Edit{RemoveLogs: gone, SetFloor: &floor, Replica: mark}
	y := f.throttle.yielder()
	out := newOutputs(f.Store, files, func(int) { y.yield() })
	out.quick = f.writtenAgain()
	published := false
	defer func() { f.garbage.settle(published) }()
	if err := f.buildFlush(ctx, v, st, files, tombs, out); err != nil {
		return fmt.Errorf("flush: %w", out.abandon(err))
	}
	info := metrics.FlushInfo{Floor: uint64(floor)}
	for _, seg := range out.Segments() {
		if info.Segment == 0 {
			info.Segment = uint64(seg.Num)
		}
		info.Families, info.Values, info.Bytes = info.Families+int(seg.Families), info.Values+int(seg.Values), info.Bytes+seg.Size
	}
	info.ValueBytes = out.valueBytes()
	edit.AddSegments = out.Segments()
	out.register()
	drop := func(_ uint64, p index.Part) bool { return p.MaxLSN <= cut && f.Files.isImage(p.File) }
	old, err := f.images.publish(edit, replacedSegments{placed: out.placed(), drop: drop, families: f.unflushed.all()}, floor)
	if err != nil {
		out.removeUnlessApplied(err)
		return fmt.Errorf("flush: %w", err)
	}
	published = true
	f.garbage.moved(out.placed(), nil, nil)
	out.install()
	f.unflushed.forgetThrough(cut)
	f.Index.DropTombstones(cut, f.oldestTombstone())
	f.Files.retire(append(gone, old...)...)
	info.Took = time.Since(start)
	f.throttle.flushed(logged, info.Took-y.gaveAway()) // when commits are slowed down, it does not yield
	f.noteFlush(info)
	return nil
}

// buildFlush writes the segments of a flush: usually one, and none if the finished log files hold
// nothing live.
func (f *flusher) buildFlush(ctx context.Context, v *View, st snapshot.State, files map[base.FileNum]bool, tombs []index.Tombstone, out *segmentOutputs) error {
	fams := f.unflushed.all()
	work, err := Families(v, func(id uint64) bool { return fams[id] })
	if err != nil {
		return err
	}
	if err := f.garbage.countDropped(v); err != nil {
		return err
	}
	first, cut := st.FloorLSN, v.LSN()
	imaging := true
	for _, names := range work {
		w, err := names.Open(v)
		if err == nil {
			err = w.Load(v)
		}
		if err != nil {
			return err
		}
		out.yield()
		f.garbage.countDead(&w, first)
		page, plan := w.page(first), newPlan(&w, &f.Opts, files, first, nil)
		if len(page.Partitions) == 0 && len(plan.hot)+len(plan.history) == 0 {
			continue
		}
		if err := out.add(ctx, w, plan, page, first, cut); err != nil {
			return err
		}
		if !imaging {
			continue
		}
		if err := f.images.writeBeside(cut); err != nil { // nothing is lost: the log has it
			f.Opts.Logger.Warn("image beside a flush", "error", err)
			imaging = false
		}
	}
	if out.empty() && len(st.Segments) == 0 {
		// Only deletions: they are needed if older segments hold what they delete, or if they are to be
		// remembered even without an image.
		if len(f.remembered(tombs)) == 0 {
			return nil
		}
	}
	_, err = out.Finish(tombs)
	return err
}

// tombstones returns the deletions of records first to last.
func tombstones(v *View, first, last base.LSN) []index.Tombstone {
	var out []index.Tombstone
	for _, m := range v.Index.Tombstones() {
		if m.LSN >= first && m.LSN <= last {
			out = append(out, m)
		}
	}
	return out
}

// workIfDue flushes or writes an image if the log has grown enough for it.
func (f *flusher) workIfDue(ctx context.Context) error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	if err := f.images.checkPages(); err != nil {
		return err
	}
	switch {
	case f.logDue():
		return f.flushLocked(ctx)
	case f.images.due():
		return f.images.Write(false)
	}
	return nil
}

// writtenAgain reports whether a compaction will rewrite the segments of a flush. If FlushBytes is so
// large that compaction leaves them alone, the flush compresses them well.
func (f *flusher) writtenAgain() bool { return f.Opts.FlushBytes < f.Opts.SegmentSize }

// logDue reports whether the log has grown enough for a flush. If space is low, less is enough: should
// the device fill up, there must be room to move the live part of the log, so that the deletions in it
// can free space.
func (f *flusher) logDue() bool {
	n := f.throttle.loggedBytes()
	if f.Opts.follows { // see flushAtCut
		return false
	}
	if n >= f.Opts.FlushBytes {
		return true
	}
	return n >= max(f.Opts.Reserve/2, lowSpaceFlush) && f.lowSpace.Load() && f.room() < f.Opts.LowSpace-max(f.Opts.Reserve, 0)
}

// lowSpaceFlush is the least number of log bytes that are flushed because space is low, if
// Options.Reserve is none or tiny.
const lowSpaceFlush = 1 << 20

// anyDue reports whether workIfDue has something to do.
func (f *flusher) anyDue() bool { return f.logDue() || f.images.due() }

// maxIdleLogs is how many log files a closed store may leave: each life writes
// its own, and many short lives should not make Open slow.
const maxIdleLogs = 8

// closeTimeout bounds the flush of a Close.
const closeTimeout = time.Minute

// saveAtClose writes an image, so that the next Open replays nothing.
func (f *flusher) saveAtClose() error {
	f.images.mu.Lock()
	defer f.images.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if f.badPages.Load() {
		return f.images.forget()
	}
	if f.images.unproven() {
		return nil
	}
	var err error
	if len(f.manifest.State().Logs) > maxIdleLogs && !f.Opts.follows {
		err = f.flushLocked(ctx)
	} else {
		err = f.images.Write(false)
	}
	if f.badPages.Load() { // the damage was found just now
		return f.images.forget()
	}
	return err
}

func (f *flusher) noteFlush(i metrics.FlushInfo) {
	f.flushes.Add(1)
	f.flushedValues.Add(i.ValueBytes)
	f.flushedBytes.Add(i.Bytes)
	f.Opts.Logger.Info("flushed", "file_num", i.Segment, "floor_lsn", i.Floor, "families", i.Families, "values", i.Values, "bytes", i.Bytes, "took", i.Took)
	if tell := f.Opts.Events.Flushed; tell != nil {
		tell(i)
	}
}
