package engine

import (
	"errors"
	"time"

	"github.com/stele-go/stele/base/fault"
)

func (e *Engine) noteSlowSync(took time.Duration) {
	e.Opts.Logger.Warn("slow sync", "took", took)
	if f := e.Opts.Events.SlowSync; f != nil {
		f(took)
	}
}

func (e *Engine) noteLowSpace(free int64) {
	e.lowSpace.Store(true)
	e.Opts.Logger.Warn("low space", "free", free, "watermark", e.Opts.LowSpace)
	if f := e.Opts.Events.LowSpace; f != nil {
		f(free)
	}
}

func (e *Engine) noteWriteError(err error) {
	switch {
	case errors.Is(err, fault.ErrPoisoned):
		if e.poisonNoted.CompareAndSwap(false, true) {
			e.Opts.Logger.Error("poisoned", "error", err)
			if f := e.Opts.Events.Poisoned; f != nil {
				f(err)
			}
		}
	case errors.Is(err, fault.ErrDiskFull):
		e.reclaimRefused()
		e.Opts.Logger.Error("disk full", "error", err)
		if f := e.Opts.Events.DiskFull; f != nil {
			f(err)
		}
	}
}
