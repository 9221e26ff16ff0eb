package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/wal"
)

// addProblem adds a problem to h. The worst problem decides h.Status.
func addProblem(h *metrics.Health, kind metrics.Trouble, s metrics.Status, err error, format string, args ...any) {
	h.Problems = append(h.Problems, metrics.Problem{Kind: kind, Status: s, Detail: fmt.Sprintf(format, args...), Err: err})
	h.Status = max(h.Status, s)
}

// Limits of Health. They are far beyond what a store that keeps up reaches.
const (
	// lagGrace is how much later than promised a sync may be.
	lagGrace = 5 * time.Second
	// backlogFlushes is how many times Options.FlushBytes the log may hold.
	backlogFlushes = 4
	// debtTime is how long compaction at Options.CompactRate may need for the segments that wait.
	debtTime = time.Minute
)

// Space asks the system for the room on the device that the store lies on. With an
// error Free and Total are not known. After Close, which lets the directory go, the error
// matches fault.ErrClosed: at its path there may be another store by now, or none.
func (e *Engine) Space() (metrics.Space, error) {
	s := metrics.Space{Free: math.MaxInt64, LowSpace: max(e.Opts.LowSpace, 0), Reserve: max(e.Opts.Reserve, 0)}
	if e.closed() {
		return s, fault.ErrClosed
	}
	free, err := e.Opts.FS.FreeSpace(e.Dir)
	if errors.Is(err, fs.ErrClosed) { // meanwhile
		return s, fault.ErrClosed
	}
	if err != nil {
		return s, err
	}
	s.Free = free
	if sizer, ok := e.Held.(vfs.Sizer); ok {
		s.Total, err = sizer.TotalSpace(e.Dir)
	}
	return s, err
}

// Health judges the store. It looks only at memory, the free space of the device, and what the store's
// path leads to, so it may be called every second. After Close it reports only that the store is
// closed.
func (e *Engine) Health() metrics.Health {
	h := metrics.Health{Problems: []metrics.Problem{}, LogBytes: e.throttle.loggedBytes()}
	var err error
	if h.Space, err = e.Space(); errors.Is(err, fault.ErrClosed) {
		addProblem(&h, metrics.TroubleClosed, metrics.StatusFailed, err, "the store is closed")
		return h
	}
	if e.log != nil {
		err := e.log.Poison()
		if lost := e.lockLost.Load(); err == nil && lost != nil {
			err = *lost // the next commit is refused
		}
		if err == nil {
			err = e.manifest.Poison() // a commit that needs a new log file is refused
		}
		if err != nil {
			addProblem(&h, metrics.TroublePoisoned, metrics.StatusFailed, err, "%v", err)
		}
	}
	e.replica.judge(&h)
	e.follower.judge(&h)
	e.judgeSpace(&h, err)
	if r := e.refusal.Load(); r != nil && r.last == e.log.LastLSN() && h.Status != metrics.StatusFailed { // else the reason stands there already
		addProblem(&h, metrics.TroubleRefused, metrics.StatusDegraded, r.err, "the last commit was refused: %v", r.err)
	}
	if e.log != nil {
		e.judgeWork(&h)
	}
	for _, p := range []func() error{e.workError, e.compactError} {
		if err := p(); err != nil {
			addProblem(&h, metrics.TroubleBackground, metrics.StatusDegraded, err, "%v", err)
		}
	}
	if n := e.corruptions.Load(); n > 0 {
		addProblem(&h, metrics.TroubleCorruption, metrics.StatusDegraded, fault.ErrCorrupt, "damage was met %d times", n)
	}
	if e.Held != nil {
		if err := e.Held.InPlace(); err != nil && !errors.Is(err, fs.ErrClosed) {
			addProblem(&h, metrics.TroubleMoved, metrics.StatusDegraded, err, "the store is no longer at %s: %v", e.Dir, err)
		}
	}
	return h
}

func (e *Engine) judgeSpace(h *metrics.Health, err error) {
	switch s := h.Space; {
	case err != nil:
		addProblem(h, metrics.TroubleDisk, metrics.StatusDegraded, err, "%v", err)
	case e.log != nil && s.Free < s.Reserve:
		detail := fmt.Sprintf("%d bytes are free, %d are reserved", s.Free, s.Reserve)
		segs := e.state().Segments
		if dead, least := outOfReach(segs, e.garbage.inSegments(segs), s.Free); dead > 0 {
			detail += fmt.Sprintf("; %d bytes are deleted, but returning the first of them takes %d free bytes", dead, least)
		}
		addProblem(h, metrics.TroubleDiskFull, metrics.StatusFailed, fault.ErrDiskFull, "%s", detail)
	case e.log != nil && s.Free < s.LowSpace:
		addProblem(h, metrics.TroubleDiskLow, metrics.StatusDegraded, nil, "%d bytes are free, the watermark is %d", s.Free, s.LowSpace)
	}
}

// judgeWork judges the background work of a writer.
func (e *Engine) judgeWork(h *metrics.Health) {
	h.Lag = e.log.Lag()
	late := lagGrace
	if e.Opts.Sync == wal.SyncInterval {
		late += e.Opts.SyncInterval
	}
	if e.Opts.Sync != wal.SyncNever && h.Lag.Age > late {
		addProblem(h, metrics.TroubleLag, metrics.StatusDegraded, nil, "%d records are not durable after %v", h.Lag.Records, h.Lag.Age.Round(time.Millisecond))
	}
	if most := backlogFlushes * e.Opts.FlushBytes; h.LogBytes > most && !e.Opts.ManualWork {
		addProblem(h, metrics.TroubleBacklog, metrics.StatusDegraded, nil, "%d bytes of log wait for a flush, which comes at %d", h.LogBytes, e.Opts.FlushBytes)
	}
	h.CompactionDebt = e.compactor.debt()
	rate := e.Opts.CompactRate
	if rate < 0 {
		rate = defaultCompactRate
	}
	if h.CompactionDebt > rate*int64(debtTime/time.Second) && !e.Opts.ManualWork {
		addProblem(h, metrics.TroubleDebt, metrics.StatusDegraded, nil, "%d bytes of segments wait for compaction", h.CompactionDebt)
	}
}
