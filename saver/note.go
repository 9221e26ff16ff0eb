package saver

import (
	"slices"
)

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

// Describe fills in Graph and Next, once the Status is known. It is for
// implementations of Saver.
func (t *ThreadInfo) Describe(n *Note) {
	if n == nil || t.Status == StatusDone || t.Status == StatusUnknown {
		return
	}
	n = n.Clone()
	t.Graph, t.Next = n.Graph, n.Next
}
