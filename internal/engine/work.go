package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stele-go/stele/internal/base"
)

// enter counts a call in, so that Close waits for it; ErrClosed after Close.
func (e *Engine) enter() error {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.closed {
		return base.ErrClosed
	}
	e.calls.Add(1)
	return nil
}

func (e *Engine) leave() { e.calls.Done() }

// nudge wakes the worker if the log has grown enough to do something about it.
func (e *Engine) nudge() {
	if e.opts.ManualWork || e.imageBytes.Load() < e.opts.ImageBytes && e.logBytes.Load() < e.opts.FlushBytes {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// work is the worker: it flushes, writes images and compacts until Close.
func (e *Engine) work(ctx context.Context) {
	defer close(e.workDone)
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		err := e.workOnce(ctx)
		if err == nil {
			e.workErr.Store(nil)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, base.ErrClosed) {
			// The log still has everything. The next nudge tries again, not sooner
			// than this, so that a full disk is not hammered.
			e.opts.Logger.Error("background work", "error", err)
			e.workErr.Store(&err)
			sleep(ctx, time.Second)
			continue
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
	switch {
	case e.logBytes.Load() >= e.opts.FlushBytes:
		if err := e.flush(ctx); err != nil {
			return err
		}
	case e.imageBytes.Load() >= e.opts.ImageBytes:
		if err := e.writeImage(false); err != nil {
			return err
		}
	}
	for {
		if did, err := e.compactStep(ctx, e.limiter(ctx)); err != nil || !did {
			return err
		}
	}
}

// limiter slows compaction to Options.CompactRate.
func (e *Engine) limiter(ctx context.Context) func(int) {
	rate := e.opts.CompactRate
	if rate < 0 {
		return nil
	}
	start, written := time.Now(), int64(0)
	return func(n int) {
		written += int64(n)
		due := time.Duration(float64(written) / float64(rate) * float64(time.Second))
		if ahead := due - time.Since(start); ahead > 5*time.Millisecond {
			sleep(ctx, ahead)
		}
	}
}

// newFileNum hands out a file number below what the manifest has reserved: a
// file nobody names is then known to be a leftover, not a stranger.
func (e *Engine) newFileNum() (base.FileNum, error) {
	e.numMu.Lock()
	defer e.numMu.Unlock()
	if e.nextNum >= e.reserved {
		next := e.nextNum + reserveNums
		if err := e.reserve(next); err != nil {
			return 0, err
		}
		e.reserved = next
	}
	n := e.nextNum
	e.nextNum++
	return n, nil
}

// reserveNums is how many file numbers one manifest edit reserves.
const reserveNums = 64

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
