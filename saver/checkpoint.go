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
	// Values holds the channels that have a value. Put stores only those that
	// newVersions names. For the others the saver keeps what it has stored.
	Values map[string]Value
	// Versions holds the version of every channel ever written.
	Versions map[string]Version
	// Seen holds, for each node, the versions of its trigger channels when it last
	// ran.
	Seen map[string]map[string]Version
	// Updated names the channels updated by the step that made this checkpoint,
	// sorted; nil if unknown.
	Updated []string
	// Immutable, in Put, is the caller's promise that nobody will ever change the maps
	// and slices of this checkpoint, or bytes that it gives as ValueTyped. The saver
	// then keeps them and makes no copies. A checkpoint that is read never has it set.
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

// Tuple is a checkpoint as a saver returns it. It belongs to the caller, who may change its maps and
// slices: no other call returns them.
type Tuple struct {
	// Config is the fresh triple that names this checkpoint.
	Config Config
	// Checkpoint has lazy values; see Value. Its maps and Metadata are never nil.
	Checkpoint Checkpoint
	Metadata   Metadata
	// Parent names the parent checkpoint; nil if there is none.
	Parent *Config
	// PendingWrites are in the order of (task path, task id, index). Never nil.
	PendingWrites []PendingWrite
	// Note is the note that was stored with the checkpoint; nil if there is none.
	Note *Note
}

// Note is what an engine tells a saver about a checkpoint in addition to LangGraph's data.
// It is stored with the checkpoint, in the same commit. It is never part of Checkpoint,
// Metadata or PendingWrites, which are LangGraph's. A copy of the thread has it too.
// Another Put of the checkpoint's id replaces it.
//
// A field that is added here goes through every encoding of a checkpoint: docs/format/README.md
// lists them, and test/encodings fails for one that drops it.
type Note struct {
	// Graph is the name of the graph that made the checkpoint.
	Graph string
	// Next are the nodes whose tasks run next, each once, in the order of their first
	// tasks. It is empty if the run has ended.
	Next []string
	// Stop says why the run stops here although Next is not empty.
	Stop Stop
	// Deltas are the delta channels of the graph, ascending. A removal keeps the
	// checkpoints that are needed to read them.
	Deltas []string
	// Version is that of the graph that made the checkpoint: a name that its author gave, or a
	// fingerprint. "" is unknown.
	Version string
}

// Stop is why a run ends at a checkpoint with tasks left to run.
type Stop string

// The reasons of a Stop.
const (
	StopNone       Stop = ""           // the run goes on
	StopBreakpoint Stop = "breakpoint" // at a breakpoint before or after a node
	StopSteps      Stop = "steps"      // at the limit of supersteps
)

// Clone is a copy of n that shares no memory with it; nil if n is nil. An empty list is nil
// in the copy.
func (n *Note) Clone() *Note {
	if n == nil {
		return nil
	}
	c := *n
	c.Next, c.Deltas = append([]string(nil), n.Next...), append([]string(nil), n.Deltas...)
	return &c
}
