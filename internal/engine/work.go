package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
)

// nudge wakes the worker if the log has grown enough to do something about it.
func (e *Engine) nudge() {
	if e.opts.ManualWork || e.imageBytes.Load() < e.opts.ImageBytes && e.logBytes.Load() < e.opts.FlushBytes {
		return
	}
	e.wakeWorker()
}

// wakeWorker gives the worker a turn; where there is none, nothing happens.
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
			e.opts.Logger.Error("background work", "error", err)
			last.Store(&err)
			sleep(ctx, time.Second)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// workOnce is a turn of the worker.
func (e *Engine) workOnce(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if err := e.checkPages(); err != nil {
		return err
	}
	var err error
	switch {
	case e.logBytes.Load() >= e.opts.FlushBytes:
		err = e.flush(ctx)
	case e.imageBytes.Load() >= e.opts.ImageBytes:
		err = e.writeImage(false)
	}
	if err != nil {
		return err
	}
	select {
	case e.wakeCompact <- struct{}{}:
	default:
	}
	return nil
}

// compactAll is a turn of the compactor.
func (e *Engine) compactAll(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	for {
		if did, err := e.compactStep(ctx, e.limiter(ctx)); err != nil || !did {
			return err
		}
	}
}

// limiter slows compaction to Options.CompactRate, unless it is behind, and lets others
// have the processor.
func (e *Engine) limiter(ctx context.Context) func(int) {
	y := yielder{e: e}
	rate := e.opts.CompactRate
	if rate < 0 {
		return func(int) { y.yield() }
	}
	due := time.Now() // when what was moved would have been, at that rate
	return func(n int) {
		y.yield()
		now := time.Now()
		if e.throttle.hurry.Load() {
			due = now
			return
		}
		if least := now.Add(-maxCredit); due.Before(least) {
			due = least
		}
		due = due.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		if ahead := due.Sub(now); ahead > 5*time.Millisecond {
			sleep(ctx, ahead)
		}
	}
}

// maxCredit bounds what compaction makes up for after it was slower than
// Options.CompactRate, so that no burst of writes follows a pause.
const maxCredit = 20 * time.Millisecond

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
