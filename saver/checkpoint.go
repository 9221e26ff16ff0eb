package saver

import (
	"maps"
	"slices"
)

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

// Source is the metadata's source: "input", "loop", "update" or "fork"; "" if
// absent.
func (md Metadata) Source() string {
	s, _ := md["source"].(string)
	return s
}

// Step is the metadata's step: −1 for the first input, 0 for the first
// superstep. ok is false if it is absent or not an integer.
func (md Metadata) Step() (step int, ok bool) {
	n, ok := asInt(md["step"])
	return int(n), ok
}

// RunID is the id of the run that stored the checkpoint; "" if unknown.
func (md Metadata) RunID() string {
	s, _ := md["run_id"].(string)
	return s
}

func asInt(v any) (int64, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case int32:
		return int64(x), true
	}
	return 0, false
}

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

// Note is what an engine tells a saver about a checkpoint beside LangGraph's data.
// It is stored with the checkpoint, in the same commit. It is never part of
// Checkpoint, Metadata or PendingWrites: those stay LangGraph's. It goes where its
// checkpoint goes, and another Put of the checkpoint's id replaces it.
type Note struct {
	// Graph is the name of the graph that made the checkpoint.
	Graph string
	// Next are the nodes whose tasks run next, each once, in the order of their first
	// tasks; empty if the run came to its end.
	Next []string
	// Stop says why the run stops here although Next is not empty.
	Stop Stop
	// Deltas are the channels of the graph that are delta channels, ascending. They
	// tell what removals must keep; see PruneMark.
	Deltas []string
}

// Stop is why a run ends at a checkpoint with tasks left to run.
type Stop string

// The reasons of a Stop.
const (
	StopNone       Stop = ""           // it goes on
	StopBreakpoint Stop = "breakpoint" // before or after a node it was told to stop at
	StopSteps      Stop = "steps"      // it is out of steps
)

// Clone is a copy of n that shares no memory with it; nil if n is nil. What is
// empty is nil in the copy.
func (n *Note) Clone() *Note {
	if n == nil {
		return nil
	}
	c := *n
	c.Next, c.Deltas = nil, nil
	if len(n.Next) > 0 {
		c.Next = slices.Clone(n.Next)
	}
	if len(n.Deltas) > 0 {
		c.Deltas = slices.Clone(n.Deltas)
	}
	return &c
}
