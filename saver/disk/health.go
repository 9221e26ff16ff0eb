package disk

import (
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/wal"
)

// Health judges a store; see Disk.Health.
type Health = engine.Health

// Problem is one reason for a Health that is not HealthOK.
type Problem = engine.Problem

// HealthStatus is a verdict: HealthOK, HealthDegraded or HealthFailed.
type HealthStatus = engine.Status

// The verdicts of Health.
const (
	// HealthOK: nothing needs attention.
	HealthOK = engine.StatusOK
	// HealthDegraded: calls succeed; somebody should look before they do not.
	HealthDegraded = engine.StatusDegraded
	// HealthFailed: writes are refused.
	HealthFailed = engine.StatusFailed
)

// Trouble names a kind of problem. Names do not change between releases.
type Trouble = engine.Trouble

// The kinds of problems; docs/operations.md says what to do about each.
const (
	TroubleClosed     = engine.TroubleClosed     // failed: the store was closed
	TroublePoisoned   = engine.TroublePoisoned   // failed: a write or sync failed; open the store again
	TroubleDiskFull   = engine.TroubleDiskFull   // failed: less than Options.DiskReserve is free
	TroubleDiskLow    = engine.TroubleDiskLow    // degraded: less than Options.LowSpace is free
	TroubleDisk       = engine.TroubleDisk       // degraded: the device does not say what is free
	TroubleLag        = engine.TroubleLag        // degraded: syncs are overdue
	TroubleBacklog    = engine.TroubleBacklog    // degraded: flushes do not keep up
	TroubleDebt       = engine.TroubleDebt       // degraded: compaction does not keep up
	TroubleBackground = engine.TroubleBackground // degraded: the last flush, image or compaction failed
	TroubleCorruption = engine.TroubleCorruption // degraded: damage was found since the store was opened
	TroubleMoved      = engine.TroubleMoved      // degraded: the path of the store leads to another directory, or to none
)

// Space is the room on the device of a store, in bytes.
type Space = engine.Space

// Lag is how far durability is behind what was acknowledged.
type Lag = wal.Lag

// Events are called when something happens; see Options.Events.
type Events = engine.Events

// FlushInfo tells about one flush.
type FlushInfo = engine.FlushInfo

// CompactInfo tells about one compaction.
type CompactInfo = engine.CompactInfo

// Health judges the store by what is in memory and the free space of the device. It
// reads no file, takes microseconds, and may be called from any goroutine. After Close it
// has TroubleClosed alone.
func (s *Saver) Health() Health { return s.e.Health() }

// Space asks the system for the room on the device. With an error, Free and Total
// are not known. After Close the error matches saver.ErrClosed.
func (s *Saver) Space() (Space, error) { return s.e.Space() }
