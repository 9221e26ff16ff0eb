package pregel

import (
	"slices"
	"sync"
	"sync/atomic"
)

// resumeToken is an answer that belongs to no task. The first task to ask takes it.
type resumeToken struct {
	mu    sync.Mutex
	value any
	used  bool
	// takenBelow reports whether a task of a graph inside has taken the answer
	// already, in a run before this one; nil if this run gave the answer.
	takenBelow func(value any) bool
}

// take takes the answer, if it is not taken. inside: a graph inside asks.
func (t *resumeToken) take(inside bool) (any, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used || t.value == nil {
		return nil, false
	}
	if inside && t.takenBelow != nil && t.takenBelow(t.value) {
		t.used = true
		return nil, false
	}
	t.used = true
	return t.value, true
}

func (t *resumeToken) spent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// scratchpad counts what one task did, so that the next attempt of it finds the
// same answers, calls and nested graphs.
type scratchpad struct {
	step, stop int
	parent     *scratchpad  // of the task that runs the graph; nil at the root
	token      *resumeToken // nil if the superstep has none of its own
	shown      []string     // the interrupts the task was stored to wait for
	failed     bool         // the task was stored to have failed
	// langGraph and passing are the preparer's.
	langGraph, passing bool

	calls, subgraphs, asked atomic.Int64

	// mu guards resume, the answers this task has, in the order of its
	// questions.
	mu     sync.Mutex
	resume []any
}

// nullResume takes the answer that belongs to no task, from this graph or a graph around it,
// for question id of the task in namespace ns. The caller holds mu.
func (s *scratchpad) nullResume(ns, id string) (any, bool) {
	if !s.awaits(ns, id) {
		return nil, false
	}
	for inside := false; s != nil; s, inside = s.parent, true {
		if s.token != nil {
			return s.token.take(inside)
		}
	}
	return nil, false
}

// awaits reports whether question id was stored as waiting when the run began. Only such
// questions get an answer. If ids are valid in this run only, it reports whether any question
// of the task around was waiting.
func (s *scratchpad) awaits(ns, id string) bool {
	if s.langGraph || slices.Contains(s.shown, id) {
		return true
	}
	if s.passing {
		around := s.parent
		for around != nil && around.passing {
			around = around.parent
		}
		return around != nil && len(around.shown) > 0
	}
	// Threads written before questions had ids of their own know only the first id.
	return len(s.resume) > 0 && !s.failed && slices.Contains(s.shown, interruptID(ns, 0))
}

// reset begins a new attempt. The answers stay.
func (s *scratchpad) reset() {
	s.calls.Store(0)
	s.subgraphs.Store(0)
	s.asked.Store(0)
}
