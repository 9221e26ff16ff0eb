package metrics

import "time"

// Queue is what a queue of runs holds that has not ended.
type Queue struct {
	// Runs are by graph and status, in that order.
	Runs []QueueRuns
	// Versions are by graph and version, in that order.
	Versions []QueueVersion
}

// QueueRuns are the runs of a graph with a status.
type QueueRuns struct {
	Graph, Status string
	Count         int64
	// Oldest is how long the oldest has been under way since it was begun first, if it is running,
	// and else for how long it has been due, also where another run of its thread is ahead of it; 0 if
	// none is due.
	Oldest time.Duration
}

// QueueVersion is what a queue holds of a version of a graph, and who works on it.
type QueueVersion struct {
	Graph   string `json:"graph"`
	Version string `json:"version"` // "" is that of runs that nobody has begun, or that an earlier release began
	// Runs are those that have not ended, and Pinned those among them that wait for a worker of the version.
	// With Pinned and no Workers, nobody goes on with them.
	Runs   int64 `json:"runs"`
	Pinned int64 `json:"pinned"`
	// Workers are those alive that have the version.
	Workers int64 `json:"workers"`
}

// Database is a program's pool of connections to a database server, and the failures of what it sent. The
// counters begin with the pool.
type Database struct {
	// Used, Idle and Connecting are the connections now, of at most Max.
	Used, Idle, Connecting, Max int64
	// Acquired is how often a call was given a connection, Waited how often none was idle, GivenUp how
	// often the caller's context ended first, and Wait how long the calls waited together.
	Acquired, Waited, GivenUp int64
	Wait                      time.Duration
	// Failures counts what was sent and failed, each try on its own. What a caller cancelled, and what the
	// rules of stele refuse, is not counted.
	Failures [len(FailureNames)]int64
}

// Failure is why what was sent to a database failed.
type Failure int

// The failures.
const (
	FailureConflict   Failure = iota // a deadlock, or a transaction that could not be put in an order; it is tried again
	FailureTimeout                   // the server took too long, or gave no answer
	FailureConnection                // there was no connection, or it was lost
	FailureServer                    // any other error of the server: full, read-only, no rights, …
)

// FailureNames are their names.
var FailureNames = [...]string{"conflict", "timeout", "connection", "server"}
