package saver

import (
	"math"
	"time"
)

// NoResults as Query.Limit asks for nothing at all: LangGraph's limit=0.
const NoResults = math.MinInt

// Query selects checkpoints for List. The zero Query lists everything.
type Query struct {
	// ThreadID limits the listing to one thread; "" lists all threads, which
	// costs as much as the store holds.
	ThreadID string
	// Namespace limits it to one namespace; nil lists all. See InNamespace.
	Namespace *string
	// CheckpointID limits it to the checkpoints with exactly this id.
	CheckpointID string
	// Before limits it to ids strictly smaller than this one; "" does not.
	Before string
	// Filter must match the metadata: every key equal. See MatchFilter.
	Filter map[string]any
	// Limit is the largest number of results, 0 means no limit. Negative is an
	// InvalidError, except NoResults.
	Limit int
}

// InNamespace is a namespace for Query.Namespace; "" is the root namespace.
func InNamespace(ns string) *string { return &ns }

// DeltaHistory is what rebuilds one delta channel: the stored value of the
// nearest ancestor that has one, and the writes since.
type DeltaHistory struct {
	// Writes are oldest first; within one checkpoint by (task path, task id,
	// index).
	Writes []PendingWrite
	// Seed is the stored value the writes fold onto; zero if there is none and
	// the channel starts empty.
	Seed Value
}

// ThreadQuery selects threads for Threads. The zero ThreadQuery selects all.
type ThreadQuery struct {
	Prefix       string    // thread ids that begin with it
	UpdatedSince time.Time // threads written at or after it
	Status       Status    // threads of this status; "" does not limit; an unknown one is an InvalidError
	Limit        int       // 0: no limit; negative is an InvalidError

	// Metadata selects threads of which a checkpoint, of any namespace, has metadata
	// that matches it as MatchFilter says; one checkpoint must have all of it. To answer,
	// a saver reads the metadata of the checkpoints of every thread that the other
	// fields select, up to the first that matches; without it none is read.
	Metadata map[string]any
}

// ThreadInfo describes a thread without reading the values of its checkpoints.
type ThreadInfo struct {
	ThreadID  string
	Head      string    // newest checkpoint id of the root namespace; "" if none
	UpdatedAt time.Time // last write by the saver's clock; UTC, whole microseconds
	Status    Status    // how far the thread has come; see StatusOf
	// Graph and Next are those of the Note of Head: Next are all nodes of the superstep
	// that follows it, also those that have ended since. They are told of threads that
	// wait, failed or are unfinished, as telling them may cost the read of a small
	// record each; for other threads they are empty.
	Graph string
	Next  []string
}

// Describe fills in Graph and Next from n. Set Status first: threads that are done or of
// unknown status have neither. It is for implementations of Saver.
func (t *ThreadInfo) Describe(n *Note) {
	if n == nil || t.Status == StatusDone || t.Status == StatusUnknown {
		return
	}
	n = n.Clone()
	t.Graph, t.Next = n.Graph, n.Next
}

// TaskWrites are the writes of one task, for PutRequest.
type TaskWrites struct {
	CheckpointID string // the checkpoint they hang on; "" means the one being put
	TaskID       string
	TaskPath     string
	Writes       []Write
}

// PutRequest is a Put with everything a saver can do in one step.
type PutRequest struct {
	Config      Config
	Checkpoint  Checkpoint
	Metadata    Metadata
	NewVersions map[string]Version
	// ValuesFrom names the checkpoint whose stored values unchanged channels
	// take, instead of the parent's. It is how a copy of another checkpoint
	// shares its values. It is in the same thread and namespace; ErrNotFound if
	// it is not there.
	ValuesFrom *Config
	// Writes become durable together with the checkpoint, or not at all.
	Writes []TaskWrites
	// Note is stored with the checkpoint, beside LangGraph's data; nil for none.
	Note *Note
	// Changes of other parts of the same store do so too.
	Changes []Change
}

// Change is a change of another part of the store that a saver keeps its checkpoints
// in, made ready by that part, such as items of package store: see store.Local.Prepare.
// With PutRequest it becomes durable and visible together with a checkpoint, or not at
// all. It is used once. A saver refuses a Change that it cannot store in one
// transaction with a checkpoint, of another store or of a type it does not know, with
// an InvalidError.
type Change interface {
	// StoreChange marks the types that are changes. It does nothing.
	StoreChange()
}
