package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
)

// Scrub replaces every file of the store by one that holds only what is live; see
// scrubber. Files that a view needs, or a reader in another process where that forbids removal,
// are waited for, until ctx ends. Commits go on beside it. tell may be nil; see scrub. A replicated store waits for the
// bucket, and removes there, too, what is not live; see replication.scrub.
func (e *Engine) Scrub(ctx context.Context, tell func(metrics.EraseProgress)) error {
	if err := e.enterToWrite(); err != nil {
		return err
	}
	defer e.Leave()
	if err := scrub(ctx, e.compactor, e.flusher, e.images, e.replica, tell); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return e.replica.scrub(ctx)
}

// scrub replaces every file of a store, which its caller has entered. scrubber has
// what it promises. tell, unless it is nil, is called before each family is written and each
// time that files are gone, on the goroutine of the call.
func scrub(ctx context.Context, c *compactor, f *flusher, images *imageStack, r *replication, tell func(metrics.EraseProgress)) error {
	s := scrubber{Store: c.Store, compactor: c, flusher: f, images: images, replica: r, tell: tell}
	return s.run(ctx)
}

// scrubber replaces every file of a store by one that holds only what is live, so that
// nothing deleted is left in any of them.
//
// # The promise
//
// When it returns nil, nothing that was deleted before the call is in any file of the
// directory: not in a block, a page, a record, the name of a partition, or behind the end of
// what is used. Files that a view needs, or a reader in another process where that forbids
// removal, are waited for, until the context ends.
//
// The store must hold something: if it does not, there may be nothing to flush or compact, and
// so no reason for a new image.
//
// # How it is done
//
// It lists the files that there are, flushes, compacts all segments, and writes a full image.
// Then it waits until the files that were listed, and those that a view still keeps, are
// removed, and makes the removal durable. Commits go on beside it: a log file that is begun
// after the list was made holds later records alone.
//
// After an error, or a crash, the store is whole, and some files may be the old ones still:
// flush, compaction and image each leave it so. Another call begins anew.
type scrubber struct {
	*Store
	compactor *compactor
	flusher   *flusher
	images    *imageStack
	replica   *replication // nil if there is no bucket

	tell     func(metrics.EraseProgress) // may be nil
	progress metrics.EraseProgress
}

func (s *scrubber) run(ctx context.Context) error {
	old, err := s.rewriteAll(ctx)
	if err != nil {
		return err
	}
	if err := s.dropKept(ctx); err != nil {
		return err
	}
	s.progress.Files = len(old)
	if err := s.awaitRemoval(ctx, old); err != nil {
		return err
	}
	// A name that is not yet gone for good could come back with a power cut.
	return s.Opts.FS.SyncDir(s.Dir)
}

// rewriting reports the progress of the compaction.
func (s *scrubber) rewriting(c metrics.CompactProgress) {
	s.progress.BytesIn, s.progress.BytesOut = c.BytesIn, c.BytesOut
	s.told()
}

// left reports how many of the old files are still there.
func (s *scrubber) left(n int) {
	if gone := s.progress.Files - n; gone > s.progress.FilesGone {
		s.progress.FilesGone = gone
		s.told()
	}
}

func (s *scrubber) told() {
	if s.tell != nil {
		s.tell(s.progress)
	}
}

// rewriteAll flushes and compacts everything, and returns the files that hold data from before.
func (s *scrubber) rewriteAll(ctx context.Context) (old []string, err error) {
	s.compactor.mu.Lock()
	defer s.compactor.mu.Unlock()
	// With both locks held, nothing but the log is written while the files are listed.
	if old, err = s.flushListed(ctx); err != nil {
		return nil, err
	}
	c := compactionTask{inputs: s.manifest.State().Segments, limit: s.throttle.limiter(ctx), whole: true, tell: s.rewriting}
	if err := s.compactor.run(ctx, c); err != nil {
		return nil, err
	}
	// Flush and compaction add images to the stack; what the older ones name goes
	// with the chain alone.
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	if err := s.images.Write(true); err != nil {
		return nil, err
	}
	return append(old, s.Files.retiredNames()...), nil
}

// flushListed lists the files of the store, and then flushes. It leaves out the log files that hold
// nothing older than the flush.
func (s *scrubber) flushListed(ctx context.Context) ([]string, error) {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	begun := s.log.Position().File
	names, err := s.Opts.FS.List(s.Dir)
	if err != nil {
		return nil, err
	}
	old := s.Files.unremovedNames()
	for _, n := range names {
		num, own := FileNumber(n)
		_, temp := base.LogTempFile.Parse(n)
		_, log := base.LogFile.Parse(n)
		// room for the log, written with zeros: under its own name it has a number
		// after the file that the last record is in, and is begun at any moment.
		room := temp || log && num > begun
		if own && !room && !slices.Contains(old, n) {
			old = append(old, n)
		}
	}
	if err := s.flusher.flushLocked(ctx); err != nil {
		return nil, err
	}
	// A log file that begins at the floor or later holds nothing older: either the
	// flush began it, or there was nothing to flush.
	st := s.manifest.State()
	for _, l := range st.Logs {
		if l.BaseLSN >= st.FloorLSN {
			old = slices.DeleteFunc(old, func(n string) bool { return n == base.LogFile.Name(l.Num) })
		}
	}
	return old, nil
}

const (
	// removalPoll is the pause between two checks whether the old files are gone.
	removalPoll = 5 * time.Millisecond
	// removalTries is how often removing a file may fail: the log closes its last
	// file a moment after the flush, and some systems remove no file that is open.
	removalTries = 400
)

// awaitRemoval returns when none of the files is there any more. One that the store
// has forgotten, because it could not be removed before, is removed here.
func (s *scrubber) awaitRemoval(ctx context.Context, names []string) error {
	for try := 0; ; try++ {
		left, err := s.removeForgotten(names)
		s.left(len(left))
		if len(left) == 0 {
			return nil
		}
		if err != nil && try >= removalTries {
			return err
		}
		if s.inManifest(left) {
			return fmt.Errorf("file %s is still part of the store", left[0])
		}
		names = left
		sleep(ctx, removalPoll)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d files are still open to readers, %s among them: %w", len(left), left[0], err)
		}
	}
}

// removeForgotten removes the files that the store does not know. It returns those that are left, and
// the last error of a removal.
func (s *scrubber) removeForgotten(names []string) (left []string, failed error) {
	for _, n := range names {
		num, _ := FileNumber(n)
		if s.Files.knows(num) {
			left = append(left, n)
			continue
		}
		if err := s.Files.unlink(n); err != nil {
			left, failed = append(left, n), err
		}
	}
	return left, failed
}

// inManifest reports whether the store still names one of the files: then waiting
// would not help.
func (s *scrubber) inManifest(names []string) bool {
	live := map[base.FileNum]bool{}
	st := s.manifest.State()
	for _, seg := range st.Segments {
		live[seg.Num] = true
	}
	for _, l := range st.Logs {
		live[l.Num] = true
	}
	for _, n := range st.ImageNums() {
		live[n] = true
	}
	for _, n := range names {
		if num, _ := FileNumber(n); live[num] {
			return true
		}
	}
	return false
}
