package engine

import (
	"errors"
	"syscall"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
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

// refusal is an error of the system for a commit. Health tells of it as long as last, the last record when the call
// began, is the last one still: whatever is made later, or was made beside it, shows that commits are not all refused.
type refusal struct {
	err  error
	last base.LSN
}

// noteRefusal is noteWriteError for a commit. What the system refused for another reason than a full device, which
// Health sees itself, is kept for Health.
func (e *Engine) noteRefusal(err error, last base.LSN) {
	limited := errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) // these match ENOSPC too
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, fault.ErrDiskFull)
	if vfs.Refused(err) && (limited || !full) && !errors.Is(err, fault.ErrPoisoned) {
		e.refusal.Store(&refusal{err, last})
	}
	e.noteWriteError(err)
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
