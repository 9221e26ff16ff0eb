package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/throttle"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/wal"
)

// Engine is the store that the commit is made in.
func (tx *Tx) Engine() *Engine { return tx.e }

// ForgetTombstone forgets, in this commit, what is remembered of a deleted partition. The
// partition from lends its name for it, and must exist; id must not.
func (tx *Tx) ForgetTombstone(from, id string) error {
	if m, ok := tx.anyTombstone(id); !ok || len(m.Data) == 0 {
		return nil
	}
	// A copy forgets, and a drop without data remembers nothing; older versions
	// replay both.
	if err := tx.Copy(from, id); err != nil {
		return err
	}
	return tx.Drop(id, nil)
}

// Remembers reports whether something is remembered of a deleted partition whose id
// begins with prefix.
func (e *Engine) Remembers(prefix string) bool {
	v := e.viewWithTombstones()
	defer v.Release()
	for _, m := range v.v.Tombstones() {
		if strings.HasPrefix(m.ID, prefix) && len(m.Data) > 0 {
			return true
		}
	}
	return false
}

// Scrub replaces every file of the store by one that holds only what is live. When
// it returns nil, nothing that was deleted before the call is in any file of the
// directory: not in a block, a page, a record, the name of a partition, or behind the
// end of what is used. Files that a view needs, or a reader in another process
// where that forbids removal, are waited for, until ctx ends.
//
// The store must hold something: if it does not, there may be nothing to flush or
// compact, and so no reason for a new image.
//
// After an error, or a crash, the store is whole, some files may be the old ones
// still, and calling again begins anew. Commits go on beside it.
//
// tell, unless it is nil, is called before each family is written and each time that
// files are gone, on the goroutine of the call.
func (e *Engine) Scrub(ctx context.Context, tell func(monitor.EraseProgress)) error {
	if e.opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	s := scrub{tell: tell}
	old, err := e.rewriteAll(ctx, &s)
	if err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	s.progress.Files = len(old)
	if err := e.awaitRemoval(ctx, old, &s); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	// A name that is not yet gone for good could come back with a power cut.
	if err := e.opts.FS.SyncDir(e.dir); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return nil
}

// scrub is what one call of Scrub tells.
type scrub struct {
	tell     func(monitor.EraseProgress) // may be nil
	progress monitor.EraseProgress
}

// rewriting tells how far the compaction is.
func (s *scrub) rewriting(c monitor.CompactProgress) {
	s.progress.BytesIn, s.progress.BytesOut = c.BytesIn, c.BytesOut
	s.told()
}

// left tells how many of the old files are still there.
func (s *scrub) left(n int) {
	if gone := s.progress.Files - n; gone > s.progress.FilesGone {
		s.progress.FilesGone = gone
		s.told()
	}
}

func (s *scrub) told() {
	if s.tell != nil {
		s.tell(s.progress)
	}
}

// rewriteAll flushes and compacts everything, and returns the files that hold what
// was there before.
func (e *Engine) rewriteAll(ctx context.Context, s *scrub) (old []string, err error) {
	e.compactMu.Lock()
	defer e.compactMu.Unlock()
	// Nothing is being written while the files are listed, but for the log: a file
	// that is begun later knows of no earlier commit as live what is deleted.
	if old, err = e.flushListed(ctx); err != nil {
		return nil, err
	}
	c := compaction{inputs: e.manifest.State().Segments, limit: e.throttle.Limiter(ctx), whole: true, tell: s.rewriting}
	if err := e.compact(ctx, c); err != nil {
		return nil, err
	}
	// Flush and compaction add images to the chain; what the older ones name goes
	// with the chain alone.
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if err := e.writeImage(true); err != nil {
		return nil, err
	}
	return append(old, e.files.RetiredNames()...), nil
}

// flushListed is a flush that lists the files there were before.
func (e *Engine) flushListed(ctx context.Context) ([]string, error) {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	begun := e.log.Position().File
	names, err := e.opts.FS.List(e.dir)
	if err != nil {
		return nil, err
	}
	old := e.files.UnremovedNames()
	for _, n := range names {
		num, own := ownNumber(n)
		_, temp := wal.ParseTempName(n)
		_, log := wal.ParseFileName(n)
		// Room for the log, written with zeros: under its own name it has a number
		// after the file that the last record is in, and is begun at any moment.
		room := temp || log && num > begun
		if own && !room && !slices.Contains(old, n) {
			old = append(old, n)
		}
	}
	if err := e.flush(ctx); err != nil {
		return nil, err
	}
	// A log file that begins at the floor or later holds nothing older: either the
	// flush began it, or there was nothing to flush.
	st := e.manifest.State()
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
func (e *Engine) awaitRemoval(ctx context.Context, names []string, s *scrub) error {
	for try := 0; ; try++ {
		left, err := e.removeForgotten(names)
		s.left(len(left))
		if len(left) == 0 {
			return nil
		}
		if err != nil && try >= removalTries {
			return err
		}
		if e.inManifest(left) {
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
func (e *Engine) removeForgotten(names []string) (left []string, failed error) {
	for _, n := range names {
		num, _ := ownNumber(n)
		if e.files.Knows(num) {
			left = append(left, n)
			continue
		}
		if err := e.files.Unlink(n); err != nil {
			left, failed = append(left, n), err
		}
	}
	return left, failed
}

// inManifest reports whether the store still names one of the files: then waiting
// would not help.
func (e *Engine) inManifest(names []string) bool {
	live := map[base.FileNum]bool{}
	st := e.manifest.State()
	for _, s := range st.Segments {
		live[s.Num] = true
	}
	for _, l := range st.Logs {
		live[l.Num] = true
	}
	for _, n := range imageNums(st.Images) {
		live[n] = true
	}
	for _, n := range names {
		if num, _ := ownNumber(n); live[num] {
			return true
		}
	}
	return false
}
