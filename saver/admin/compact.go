package admin

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wal"
)

// CompactReport says what Compact did.
type CompactReport struct {
	Dir            string        `json:"dir"`
	BytesBefore    int64         `json:"bytes_before"` // of all files
	BytesAfter     int64         `json:"bytes_after"`
	SegmentsBefore int           `json:"segments_before"`
	SegmentsAfter  int           `json:"segments_after"`
	Took           time.Duration `json:"took_ns"`
}

// progressEvery is the interval of progress reports.
const progressEvery = 200 * time.Millisecond

// Compact opens a store for writing, moves its log into a segment, merges all segments into
// one that holds only live data, and closes the store. If progress is not nil, it gets the
// number of bytes written so far, with the size of the store as their upper bound. It is
// called from another goroutine, but not after Compact has returned.
//
// Errors are those of disk.Open, including fault.LockedError, and of disk.Saver.Compact. If
// the compaction is interrupted, the store has the same content as before.
func Compact(ctx context.Context, dir string, a Access, progress func(Progress)) (*CompactReport, error) {
	start := time.Now()
	a, done, err := a.in(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	a.sim().Opening = ctx
	d, err := a.openToRewrite(dir)
	if err != nil {
		return nil, err
	}
	rep := &CompactReport{Dir: dir, SegmentsBefore: d.Stats().Segments}
	if rep.BytesBefore, err = dirBytes(a.fs(), dir); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	stop := watch(a.fs(), dir, rep.BytesBefore, progress)
	err = d.Compact(ctx)
	stop()
	rep.SegmentsAfter = d.Stats().Segments
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	if rep.BytesAfter, err = dirBytes(a.fs(), dir); err != nil {
		return nil, err
	}
	rep.Took = time.Since(start)
	return rep, nil
}

// openToRewrite opens a store that exists for writing. It does no background work, and
// compacts at full speed.
func (a Access) openToRewrite(dir string) (*disk.Saver, error) {
	if _, err := Describe(dir, a); err != nil { // disk.Open would make a store
		return nil, err
	}
	o := a.Options
	o.ReadOnly, o.AllowDamage, o.ManualWork, o.CompactRate = false, false, true, -1
	return disk.Open(dir, o)
}

// watch reports to progress how much the directory has grown, until stop is called.
func watch(fsys vfs.FS, dir string, before int64, progress func(Progress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				if n, err := dirBytes(fsys, dir); err == nil && n >= before {
					progress(Progress{Step: "compact", Done: n - before, Total: before})
				}
			}
		}
	})
	return func() { close(quit); done.Wait() }
}

// dirBytes is the size of the files of a store, except its lock and the mark of its log.
func dirBytes(fsys vfs.FS, dir string) (int64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, n := range names {
		if n == "LOCK" || n == wal.MarkName || strings.HasSuffix(n, ".tmp") {
			continue
		}
		f, err := fsys.Open(filepath.Join(dir, n))
		if err != nil {
			continue // removed meanwhile
		}
		size, err := f.Size()
		_ = f.Close() // only read from
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}
