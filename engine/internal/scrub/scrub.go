package scrub

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine/files"
	"github.com/stele-go/stele/engine/internal/compaction"
	"github.com/stele-go/stele/engine/internal/flush"
	"github.com/stele-go/stele/engine/internal/image"
	"github.com/stele-go/stele/engine/internal/throttle"
	"github.com/stele-go/stele/engine/storage"
	"github.com/stele-go/stele/wal"
)

// Run replaces every file of a store, which its caller has entered. The package comment has
// what it promises. tell, unless it is nil, is called before each family is written and each
// time that files are gone, on the goroutine of the call.
func Run(ctx context.Context, c *compaction.Compactor, f *flush.Flusher, images *image.Chain, tell func(metrics.EraseProgress)) error {
	s := scrubber{Store: c.Store, compactor: c, flusher: f, images: images, tell: tell}
	return s.run(ctx)
}

// scrubber is one call of Run.
type scrubber struct {
	*storage.Store
	compactor *compaction.Compactor
	flusher   *flush.Flusher
	images    *image.Chain

	tell     func(metrics.EraseProgress) // may be nil
	progress metrics.EraseProgress
}

func (s *scrubber) run(ctx context.Context) error {
	old, err := s.rewriteAll(ctx)
	if err != nil {
		return err
	}
	s.progress.Files = len(old)
	if err := s.awaitRemoval(ctx, old); err != nil {
		return err
	}
	// A name that is not yet gone for good could come back with a power cut.
	return s.Opts.FS.SyncDir(s.Dir)
}

// rewriting tells how far the compaction is.
func (s *scrubber) rewriting(c metrics.CompactProgress) {
	s.progress.BytesIn, s.progress.BytesOut = c.BytesIn, c.BytesOut
	s.told()
}

// left tells how many of the old files are still there.
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

// rewriteAll flushes and compacts everything, and returns the files that hold what
// was there before.
func (s *scrubber) rewriteAll(ctx context.Context) (old []string, err error) {
	s.compactor.Mu.Lock()
	defer s.compactor.Mu.Unlock()
	// With both locks held, nothing but the log is written while the files are listed.
	if old, err = s.flushListed(ctx); err != nil {
		return nil, err
	}
	c := compaction.Task{Inputs: s.Manifest.State().Segments, Limit: s.Throttle.Limiter(ctx), Whole: true, Tell: s.rewriting}
	if err := s.compactor.Run(ctx, c); err != nil {
		return nil, err
	}
	// Flush and compaction add images to the chain; what the older ones name goes
	// with the chain alone.
	s.images.Mu.Lock()
	defer s.images.Mu.Unlock()
	if err := s.images.Write(true); err != nil {
		return nil, err
	}
	return append(old, s.Files.RetiredNames()...), nil
}

// flushListed is a flush that lists the files there were before.
func (s *scrubber) flushListed(ctx context.Context) ([]string, error) {
	s.images.Mu.Lock()
	defer s.images.Mu.Unlock()
	begun := s.Log.Position().File
	names, err := s.Opts.FS.List(s.Dir)
	if err != nil {
		return nil, err
	}
	old := s.Files.UnremovedNames()
	for _, n := range names {
		num, own := files.Number(n)
		_, temp := wal.ParseTempName(n)
		_, log := wal.ParseFileName(n)
		// Room for the log, written with zeros: under its own name it has a number
		// after the file that the last record is in, and is begun at any moment.
		room := temp || log && num > begun
		if own && !room && !slices.Contains(old, n) {
			old = append(old, n)
		}
	}
	if err := s.flusher.FlushLocked(ctx); err != nil {
		return nil, err
	}
	// A log file that begins at the floor or later holds nothing older: either the
	// flush began it, or there was nothing to flush.
	st := s.Manifest.State()
	for _, l := range st.Logs {
		if l.BaseLSN >= st.FloorLSN {
			old = slices.DeleteFunc(old, func(n string) bool { return n == wal.FileName(l.Num) })
		}
	}
	return old, nil
}

const (
	// removalPoll is how often files that views keep are looked for.
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
		throttle.Sleep(ctx, removalPoll)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d files are still open to readers, %s among them: %w", len(left), left[0], err)
		}
	}
}

// removeForgotten removes the files that the store does not know, and returns those
// that are left, with why the last of them could not be removed.
func (s *scrubber) removeForgotten(names []string) (left []string, failed error) {
	for _, n := range names {
		num, _ := files.Number(n)
		if s.Files.Knows(num) {
			left = append(left, n)
			continue
		}
		if err := s.Files.Unlink(n); err != nil {
			left, failed = append(left, n), err
		}
	}
	return left, failed
}

// inManifest reports whether the store still names one of the files: then waiting
// would not help.
func (s *scrubber) inManifest(names []string) bool {
	live := map[base.FileNum]bool{}
	st := s.Manifest.State()
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
		if num, _ := files.Number(n); live[num] {
			return true
		}
	}
	return false
}
