package metrics

import (
	"fmt"
	"time"
)

// Status is a verdict on a store, the worst of its problems.
type Status int

// The verdicts, from good to bad.
const (
	// StatusOK: nothing needs attention.
	StatusOK Status = iota
	// StatusDegraded: calls succeed, but may fail soon if nobody acts.
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
	TroubleRefused    Trouble = "refused"         // degraded: the system refused the last write, though there is room, such as by a quota
	TroubleLag        Trouble = "lag"             // degraded: syncs are overdue
	TroubleBacklog    Trouble = "log_backlog"     // degraded: flushes do not keep up
	TroubleDebt       Trouble = "compaction_debt" // degraded: compaction does not keep up
	TroubleBackground Trouble = "background"      // degraded: the last flush, image or compaction failed
	TroubleCorruption Trouble = "corruption"      // degraded: damage was found since the store was opened
	TroubleReplica    Trouble = "replica"         // failed: another leader has taken over, or reads are refused as too old; degraded: the bucket is in trouble, away, or far behind
	TroubleMoved      Trouble = "moved"           // degraded: the path of the store leads to another directory, or to none
	TroubleHeld       Trouble = "held"            // degraded: the store was restored, and holds what waited then until it is released
)

// Troubles returns every kind of problem that a store may have.
func Troubles() []Trouble {
	return []Trouble{
		TroubleClosed, TroublePoisoned, TroubleDiskFull, TroubleDiskLow, TroubleDisk, TroubleRefused, TroubleLag, TroubleBacklog,
		TroubleDebt, TroubleBackground, TroubleCorruption, TroubleReplica, TroubleMoved, TroubleHeld,
	}
}

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
	// Free is what an ordinary user can still write; math.MaxInt64 if it is not known.
	Free int64 `json:"free"`
	// Total is the size of the device, 0 if unknown.
	Total int64 `json:"total"`
	// LowSpace and Reserve are the options of that name; 0 for none.
	LowSpace int64 `json:"low_space"`
	Reserve  int64 `json:"reserve"`
}

// Health is the state of a store.
type Health struct {
	// Status is the worst of Problems.
	Status Status `json:"status"`
	// Problems are in the order of the constants above; empty if there are none.
	Problems []Problem `json:"problems"`
	Space    Space     `json:"space"`
	// Lag is what a loss of power would lose now.
	Lag Lag `json:"lag"`
	// LogBytes were committed since the last flush. CompactionDebt is the size of
	// the segments that wait to be compacted.
	LogBytes       int64 `json:"log_bytes"`
	CompactionDebt int64 `json:"compaction_debt"`
	// Replica is how the copy in a bucket does; nil without one.
	Replica *Replica `json:"replica,omitempty"`
}

// Replica is how the copy of a log in a bucket does.
type Replica struct {
	Mode  string `json:"mode"`  // async, bounded or sync
	Epoch uint64 `json:"epoch"` // the number of the leader's reign
	// Lag is what the log has and the bucket has not, without Bytes.
	Lag Lag `json:"lag"`
	// Seeded: the bucket has a point from which it can be restored.
	Seeded bool `json:"seeded"`
	// Trouble is the error of the last upload or the last work in the background; empty if it succeeded.
	Trouble string `json:"trouble,omitempty"`
	// Follower is how far a store is that follows a leader; nil for one that leads. Then Mode and Epoch are the leader's.
	Follower *Follower `json:"follower,omitempty"`
}

// Follower is how far a store is that follows a leader.
type Follower struct {
	LSN   uint64    `json:"lsn"`   // of the last record that it shows
	Stamp time.Time `json:"stamp"` // of that, by the clock of the leader that wrote it
	// Behind is how much newer the newest record is that the bucket is known to have; 0 if it has none.
	Behind time.Duration `json:"behind_ns"`
	// Beat is how long ago it last saw that the leader was well, or had given up its place in good order.
	Beat time.Duration `json:"beat_ns"`
	// Away is for how long the bucket has not answered; 0 if it has.
	Away time.Duration `json:"away_ns,omitempty"`
}

// Lag is what was acknowledged but is not durable yet. In SyncAlways that is only Deferred
// records.
type Lag struct {
	Records uint64        `json:"records"` // committed and not known to be durable
	Bytes   int64         `json:"bytes"`   // of their frames, about
	Age     time.Duration `json:"age_ns"`  // of the oldest of them, about; 0 if there are none
}
