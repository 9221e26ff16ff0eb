package saver

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Config says where a call applies: LangGraph's "configurable". The zero
// Namespace is the root namespace.
type Config struct {
	// ThreadID names the thread. Required.
	ThreadID string
	// Namespace is the checkpoint namespace: "" for the root graph,
	// "node:taskid|…" for subgraphs.
	Namespace string
	// CheckpointID names one checkpoint. In Put it is the parent's id, and ""
	// means that there is no parent.
	CheckpointID string
	// ExpectHead, if set, makes Put conditional: it succeeds only if the newest
	// checkpoint of the thread and namespace has this id ("" for none), and
	// fails with a ConflictError otherwise. Of two writers from one head exactly
	// one wins. See Head.
	ExpectHead *string
	// Metadata and Configurable are the scalars of the run's config that Put
	// adds to the checkpoint's metadata; see MergeMetadata.
	Metadata     map[string]any
	Configurable map[string]any
}

// Head is an expectation for Config.ExpectHead; "" expects an empty thread.
func Head(id string) *string { return &id }

// Checkpoint is the state of a graph between two supersteps.
type Checkpoint struct {
	// V is the format of the checkpoint: 4 in current LangGraph. Stored as given.
	V int
	// ID orders the checkpoints of a namespace by its bytes. LangGraph's ids are
	// UUIDv6, which grow with time. Required; stored as given.
	ID string
	// TS is the time of creation in ISO 8601. Stored as given.
	TS string
	// Values holds the channels that have a value. In Put only those named by
	// newVersions are stored; the others are taken from where they were stored
	// first.
	Values map[string]Value
	// Versions holds the version of every channel ever written.
	Versions map[string]Version
	// Seen holds, for each node, the versions of its trigger channels it last ran
	// with.
	Seen map[string]map[string]Version
	// Updated names the channels updated by the step that made this checkpoint,
	// sorted; nil if unknown.
	Updated []string
	// Immutable, in Put, is the caller's word that nobody will ever change the
	// maps and slices of this checkpoint, nor bytes it gives as ValueTyped, so
	// that a saver may keep them where it would make copies. A checkpoint that is
	// read never has it set.
	Immutable bool
}

// Clone is a copy of cp that shares no map or slice with it, and may be changed.
// The values themselves are immutable and shared.
func (cp Checkpoint) Clone() Checkpoint {
	cp.Immutable = false
	cp.Values = maps.Clone(cp.Values)
	cp.Versions = maps.Clone(cp.Versions)
	cp.Updated = slices.Clone(cp.Updated)
	if cp.Seen != nil {
		seen := make(map[string]map[string]Version, len(cp.Seen))
		for node, versions := range cp.Seen {
			seen[node] = maps.Clone(versions)
		}
		cp.Seen = seen
	}
	return cp
}

// Metadata describes a checkpoint: LangGraph's source ("input", "loop",
// "update", "fork"), step, parents, run_id, and whatever scalars the run's
// config carries. Values are plain data as serde decodes it.
type Metadata map[string]any

// PendingWrite is one write of a task against a checkpoint.
type PendingWrite struct {
	TaskID   string
	Channel  string
	Value    Value
	TaskPath string // where in the superstep the task stood; "" if not given
	Index    int    // position in the task's writes; negative on special channels
}

// Write is a value for a channel, in the order a task wrote it.
type Write struct {
	Channel string
	Value   Value
}

// Tuple is a checkpoint as a saver returns it.
type Tuple struct {
	// Config is the fresh triple that names this checkpoint.
	Config Config
	// Checkpoint has its values lazy; see Value. Its maps are never nil, nor is
	// Metadata.
	Checkpoint Checkpoint
	Metadata   Metadata
	// Parent names the checkpoint this one was put upon, or is nil.
	Parent *Config
	// PendingWrites are in the order of (task path, task id, index). Never nil.
	PendingWrites []PendingWrite
	// Note is what the engine that made the checkpoint told of it; nil if nothing.
	Note *Note
}

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

// PruneStrategy says what Prune keeps.
type PruneStrategy string

// The strategies of LangGraph's contract.
const (
	// KeepLatest keeps the newest checkpoint of each namespace, with its pending
	// writes, and what its delta channels need to be read.
	KeepLatest PruneStrategy = "keep_latest"
	// PruneAll removes everything of the thread.
	PruneAll PruneStrategy = "delete"
)

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
