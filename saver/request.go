package saver

import (
	"math"
	"time"
)

// NoResults, as Query.Limit, asks for no results: LangGraph's limit=0.
const NoResults = math.MinInt

// Query selects checkpoints for List. The zero Query lists everything.
type Query struct {
	// ThreadID limits the listing to one thread. "" lists all threads, which reads the
	// whole store.
	ThreadID string
	// Namespace limits it to one namespace; nil lists all. See InNamespace.
	Namespace *string
	// CheckpointID limits it to the checkpoints with exactly this id.
	CheckpointID string
	// Before limits it to ids strictly smaller than this one; "" does not.
	Before string
	// Filter must match the metadata: every key must have an equal value. Numbers are
	// equal by value, whatever their Go type. A nil value also matches a missing key. A
	// key with dots that is not itself a key of the metadata descends into nested maps.
	Filter map[string]any
	// Limit is the largest number of results; 0 means no limit. A negative limit is an
	// InvalidError, except NoResults.
	Limit int
}

// InNamespace is a namespace for Query.Namespace; "" is the root namespace.
func InNamespace(ns string) *string { return &ns }

// DeltaHistory is what is needed to rebuild one delta channel: the value of the nearest
// ancestor that has one, and the writes since then.
type DeltaHistory struct {
	// Writes are oldest first; within one checkpoint by (task path, task id,
	// index).
	Writes []PendingWrite
	// Seed is the stored value that the writes are folded into; zero if the channel
	// starts empty.
	Seed Value
}

// ThreadQuery selects threads for Threads. The zero ThreadQuery selects all.
type ThreadQuery struct {
	ThreadID     string    // this thread alone, found without a look at others; "" does not limit
	Prefix       string    // thread ids that begin with it
	UpdatedSince time.Time // threads written at or after it
	Status       Status    // threads of this status; "" does not limit; an unknown one is an InvalidError

	// Metadata selects threads with a checkpoint, in any namespace, whose metadata
	// matches all of it, as Query.Filter does. For every thread that the other fields
	// select, the saver reads the metadata of its checkpoints, up to the first match.
	// Without Metadata it reads none.
	Metadata map[string]any

	Limit int // 0: no limit; negative is an InvalidError

	// WithoutNotes allows the saver to leave out Graph, Next and Version of the threads, and so to
	// read nothing for each.
	WithoutNotes bool
}

// ThreadInfo describes a thread without reading the values of its checkpoints.
type ThreadInfo struct {
	ThreadID  string
	Head      string    // newest checkpoint id of the root namespace; "" if none
	UpdatedAt time.Time // last write by the saver's clock; UTC, whole microseconds
	Status    Status
	// Graph, Next and Version come from the Note of Head. Next are all nodes of the superstep that
	// follows it, including those that have ended since. They are set only for threads
	// that wait, failed or are unfinished, because reading them may cost a small read for
	// each thread.
	Graph   string
	Next    []string
	Version string // of the graph; "" is unknown
	// Held: the store was restored since Head was stored, and was not released. Nothing on the thread is to go on by
	// itself. It is set where Graph may be.
	Held bool
}

// Describe fills in Graph, Next and Version from n. Set Status first: threads that are done or
// of unknown status have none of them. It is for implementations of Saver.
func (t *ThreadInfo) Describe(n *Note) {
	if n == nil || t.Status == StatusDone || t.Status == StatusUnknown {
		return
	}
	n = n.Clone()
	t.Graph, t.Next, t.Version = n.Graph, n.Next, n.Version
}

// TaskWrites are the writes of one task, for PutRequest.
type TaskWrites struct {
	CheckpointID string // the checkpoint they belong to; "" means the one being put
	TaskID       string
	TaskPath     string
	Writes       []Write
}

// PutRequest is a Put with everything that a saver can store in one transaction.
type PutRequest struct {
	Config      Config
	Checkpoint  Checkpoint
	Metadata    Metadata
	NewVersions map[string]Version
	// ValuesFrom names the checkpoint from which unchanged channels take their values,
	// instead of the parent. So a copy of a checkpoint shares its values. It must be in
	// the same thread and namespace. If it does not exist, the error is ErrNotFound.
	ValuesFrom *Config
	// Writes are stored in one transaction with the checkpoint.
	Writes []TaskWrites
	// Note is stored with the checkpoint; nil for none.
	Note *Note
	// Changes of other parts of the store are stored in the same transaction.
	Changes []Change
}

// Change is a prepared change of another part of the saver's store, such as items of package
// store; see store.Local.Prepare. PutRequest stores it in one transaction with a checkpoint.
// It is used once. A Change of another store, or of a type that the saver does not know, is
// an InvalidError.
type Change interface {
	// StoreChange marks the types that are changes. It does nothing.
	StoreChange()
}
