package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/fault"
)

// nudge wakes the worker if the log has grown enough for a flush or an image.
func (e *Engine) nudge() {
	if e.Opts.ManualWork || !e.flusher.anyDue() {
		return
	}
	e.wakeWorker()
}

// wakeWorker gives the worker a turn. Without a worker it does nothing.
func (e *Engine) wakeWorker() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// work takes its turns, when woken, until Close. One goroutine flushes and writes
// images, another compacts: that may take long, and nothing should wait for it.
func (e *Engine) work(ctx context.Context, wake <-chan struct{}, last *atomic.Pointer[error], turn func(context.Context) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		err := turn(ctx)
		if err == nil {
			last.Store(nil)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrClosed) {
			// The log still has everything. The next nudge tries again, not sooner
			// than this, so that a full disk is not hammered.
			e.Opts.Logger.Error("background work", "error", err)
			last.Store(&err)
			sleep(ctx, time.Second)
		}
	}
}

// reclaimAfter starts a flush and a compaction after a commit that freed space, if space is so low that
// other commits are refused: a caller that deletes cannot be expected to compact, too.
func (e *Engine) reclaimAfter(urgent bool) {
	switch {
	case urgent && e.room() < 0:
		e.reclaimSoon()
	case !urgent && e.refusing.Load():
		e.refusing.Store(false)
	}
}

// reclaimRefused starts a flush and a compaction when the first commit is refused, as data deleted
// before may still take space. When further commits are refused it starts them again if they failed.
func (e *Engine) reclaimRefused() {
	switch {
	case e.room() >= 0: // the device itself refuses: a flush would make it worse
	case e.refusing.CompareAndSwap(false, true):
		e.reclaimSoon()
	case e.reclaim.Load():
		e.wakeWorker()
	}
}

// reclaimSoon makes the worker flush, and then compact.
func (e *Engine) reclaimSoon() {
	if !e.Opts.ManualWork && !e.Opts.follows {
		e.reclaim.Store(true)
		e.wakeWorker()
	}
}

// room returns how many bytes beyond Options.Reserve are free; below 0 if that many are missing. If the
// system does not say, it is 0, which counts as enough.
func (s *Store) room() int64 {
	free, err := s.Opts.FS.FreeSpace(s.Dir)
	if err != nil {
		return 0
	}
	return free - max(s.Opts.Reserve, 0)
}

// stall delays a commit of about n bytes if the work is behind. An error is ctx's; nothing was done
// then.
func (e *Engine) stall(ctx context.Context, n int64, urgent bool) error {
	if urgent || e.Opts.ManualWork || e.workErr.Load() != nil {
		return nil // it frees space, or the work is not there to wait for
	}
	return e.throttle.wait(ctx, n, e.nudge)
}

// workOnce does one turn of the worker.
func (e *Engine) workOnce(ctx context.Context) error {
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	work, reclaim := e.flusher.workIfDue, e.reclaim.Swap(false)
	if reclaim {
		work = e.flusher.flushWithin // the freed bytes may lie in the log, or are not counted yet
	}
	err := work(ctx)
	if err != nil && !reclaim {
		return err
	}
	if err != nil {
		e.reclaim.Store(true) // compactDue tries again
	}
	select {
	case e.wakeCompact <- struct{}{}: // it may make room where the flush had none
	default:
	}
	return err
}

// compactDue does one turn of the compactor. Each step may have freed the space that a flush lacked.
func (e *Engine) compactDue(ctx context.Context) error {
	return e.compactor.compactDue(ctx, func() {
		if e.reclaim.Load() {
			e.wakeWorker()
		}
	})
}
