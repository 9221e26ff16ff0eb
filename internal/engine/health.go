package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Status is a verdict on a store, the worst of its problems.
type Status int

// The verdicts, from good to bad.
const (
	// StatusOK: nothing needs attention.
	StatusOK Status = iota
	// StatusDegraded: calls succeed; somebody should look before they do not.
	StatusDegraded
	// StatusFailed: writes are refused.
	StatusFailed
)

// String is "ok", "degraded" or "failed".
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusDegraded:
		return "degraded"
	case StatusFailed:
		return "failed"
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// MarshalText is String, for JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Trouble names a kind of problem. Names do not change between releases.
type Trouble string

// The kinds of problems; docs/operations.md says what to do about each.
const (
	TroubleClosed     Trouble = "closed"          // failed: the store was closed
	TroublePoisoned   Trouble = "poisoned"        // failed: a write or sync failed; open the store again
	TroubleDiskFull   Trouble = "disk_full"       // failed: less than Options.Reserve is free
	TroubleDiskLow    Trouble = "disk_low"        // degraded: less than Options.LowSpace is free
	TroubleDisk       Trouble = "disk_unknown"    // degraded: the device does not say what is free
	TroubleLag        Trouble = "lag"             // degraded: syncs are overdue
	TroubleBacklog    Trouble = "log_backlog"     // degraded: flushes do not keep up
	TroubleDebt       Trouble = "compaction_debt" // degraded: compaction does not keep up
	TroubleBackground Trouble = "background"      // degraded: the last flush, image or compaction failed
	TroubleCorruption Trouble = "corruption"      // degraded: damage was found since the store was opened
	TroubleMoved      Trouble = "moved"           // degraded: the path of the store leads to another directory, or to none
)

// Problem is one reason for a Status that is not StatusOK.
type Problem struct {
	Kind   Trouble `json:"kind"`
	Status Status  `json:"status"`
	Detail string  `json:"detail"`
	// Err is the cause, where there is one; match it with errors.Is.
	Err error `json:"-"`
}

// Space is the room on the device of a store, in bytes.
type Space struct {
	// Free is what an ordinary user can still write; math.MaxInt64 if the system
	// does not say.
	Free int64 `json:"free"`
	// Total is the size of the device, 0 if unknown.
	Total int64 `json:"total"`
	// LowSpace and Reserve are the options of that name; 0 for none.
	LowSpace int64 `json:"low_space"`
	Reserve  int64 `json:"reserve"`
}

// Health is what Engine.Health found.
type Health struct {
	// Status is the worst of Problems.
	Status Status `json:"status"`
	// Problems are in the order of the constants above; empty if there are none.
	Problems []Problem `json:"problems"`
	Space    Space     `json:"space"`
	// Lag is what power loss would take now: in sync mode nothing but deferred
	// writes, see wal.Lag.
	Lag wal.Lag `json:"lag"`
	// LogBytes were committed since the last flush. CompactionDebt is the size of
	// the segments that wait to be compacted.
	LogBytes       int64 `json:"log_bytes"`
	CompactionDebt int64 `json:"compaction_debt"`
}

func (h *Health) add(kind Trouble, s Status, err error, format string, args ...any) {
	h.Problems = append(h.Problems, Problem{Kind: kind, Status: s, Detail: fmt.Sprintf(format, args...), Err: err})
	h.Status = max(h.Status, s)
}

// Limits of Health. They are far beyond what a store that keeps up reaches.
const (
	// lagGrace is how much later than promised a sync may be.
	lagGrace = 5 * time.Second
	// backlogFlushes is how many times Options.FlushBytes the log may hold.
	backlogFlushes = 4
	// debtTime is how long compaction at Options.CompactRate would take for what
	// waits.
	debtTime = time.Minute
)

// Space asks the system for the room on the device that the store lies on. With an
// error Free and Total are not known. After Close, which lets the directory go, the error
// matches base.ErrClosed: at its path there may be another store by now, or none.
func (e *Engine) Space() (Space, error) {
	s := Space{Free: math.MaxInt64, LowSpace: max(e.opts.LowSpace, 0), Reserve: max(e.opts.Reserve, 0)}
	e.life.RLock()
	closed := e.closed
	e.life.RUnlock()
	if closed {
		return s, base.ErrClosed
	}
	free, err := e.opts.FS.FreeSpace(e.dir)
	if errors.Is(err, fs.ErrClosed) { // meanwhile
		return s, base.ErrClosed
	}
	if err != nil {
		return s, err
	}
	s.Free = free
	if sizer, ok := e.held.(vfs.Sizer); ok {
		s.Total, err = sizer.TotalSpace(e.dir)
	}
	return s, err
}

// Health judges the store: nothing but what is in memory, the free space of the
// device, and what the store's path leads to, so that it may be asked every second. After
// Close it says that, and nothing else.
func (e *Engine) Health() Health {
	h := Health{Problems: []Problem{}, LogBytes: e.logBytes.Load()}
	var err error
	if h.Space, err = e.Space(); errors.Is(err, base.ErrClosed) {
		h.add(TroubleClosed, StatusFailed, err, "the store is closed")
		return h
	}
	if e.log != nil {
		err := e.log.Poison()
		if lost := e.lockLost.Load(); err == nil && lost != nil {
			err = *lost // the next commit is refused
		}
		if err != nil {
			h.add(TroublePoisoned, StatusFailed, err, "%v", err)
		}
	}
	e.judgeSpace(&h, err)
	if e.log != nil {
		e.judgeWork(&h)
	}
	for _, p := range []func() error{e.workError, e.compactError} {
		if err := p(); err != nil {
			h.add(TroubleBackground, StatusDegraded, err, "%v", err)
		}
	}
	if n := e.corruptions.Load(); n > 0 {
		h.add(TroubleCorruption, StatusDegraded, base.ErrCorrupt, "damage was met %d times", n)
	}
	if e.held != nil {
		if err := e.held.InPlace(); err != nil && !errors.Is(err, fs.ErrClosed) {
			h.add(TroubleMoved, StatusDegraded, err, "the store is no longer at %s: %v", e.dir, err)
		}
	}
	return h
}

func (e *Engine) judgeSpace(h *Health, err error) {
	switch s := h.Space; {
	case err != nil:
		h.add(TroubleDisk, StatusDegraded, err, "%v", err)
	case e.log != nil && s.Free < s.Reserve:
		h.add(TroubleDiskFull, StatusFailed, base.ErrDiskFull, "%d bytes are free, %d are reserved", s.Free, s.Reserve)
	case e.log != nil && s.Free < s.LowSpace:
		h.add(TroubleDiskLow, StatusDegraded, nil, "%d bytes are free, the watermark is %d", s.Free, s.LowSpace)
	}
}

// judgeWork looks at what goes on behind the calls of a writer.
func (e *Engine) judgeWork(h *Health) {
	h.Lag = e.log.Lag()
	late := lagGrace
	if e.opts.Sync == wal.SyncInterval {
		late += e.opts.SyncInterval
	}
	if e.opts.Sync != wal.SyncNever && h.Lag.Age > late {
		h.add(TroubleLag, StatusDegraded, nil, "%d records are not durable after %v", h.Lag.Records, h.Lag.Age.Round(time.Millisecond))
	}
	if most := backlogFlushes * e.opts.FlushBytes; h.LogBytes > most && !e.opts.ManualWork {
		h.add(TroubleBacklog, StatusDegraded, nil, "%d bytes of log wait for a flush, which comes at %d", h.LogBytes, e.opts.FlushBytes)
	}
	h.CompactionDebt = e.compactionDebt()
	rate := e.opts.CompactRate
	if rate < 0 {
		rate = defaultCompactRate
	}
	if h.CompactionDebt > rate*int64(debtTime/time.Second) && !e.opts.ManualWork {
		h.add(TroubleDebt, StatusDegraded, nil, "%d bytes of segments wait for compaction", h.CompactionDebt)
	}
}

// compactionDebt is the size of the segments that CompactStep would take now, and
// the times after.
func (e *Engine) compactionDebt() int64 {
	left := e.state().Segments
	dead := e.garbage.inSegments(left)
	var debt int64
	for {
		next := pickCompaction(left, e.opts.CompactFanout, e.opts.SegmentSize)
		if next == nil {
			next = mostlyDead(left, dead)
		}
		if next == nil {
			return debt
		}
		for _, s := range next {
			debt += s.Size
		}
		left = slices.DeleteFunc(slices.Clone(left), func(s snapshot.SegmentInfo) bool { return slices.Contains(next, s) })
	}
}
