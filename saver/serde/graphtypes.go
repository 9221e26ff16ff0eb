package serde

import (
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

// Modules and names of LangGraph's own types, as they stand in the bytes.
const (
	modTypes      = "langgraph.types"
	nameSend      = "Send"
	nameInterrupt = "Interrupt"
	nameCommand   = "Command"
	nameOverwrite = "Overwrite"
	nameTimeout   = "TimeoutPolicy"

	// overwriteMark identifies an Overwrite that lost its type in JSON.
	overwriteMark = "__overwrite__"
	// placeholderID is the id LangGraph gives an Interrupt built without one.
	placeholderID = "placeholder-id"
)

// Send is LangGraph's packet: run Node once more with Arg as its input.
type Send struct {
	Node string `json:"node"`
	Arg  any    `json:"arg"`
	// Timeout replaces the node's policy for this task; nil keeps it. A nil Timeout is
	// written in the two-element form that every LangGraph reads.
	Timeout *TimeoutPolicy `json:"timeout,omitempty"`
}

// TimeoutPolicy bounds one attempt of a node. Times are seconds, as LangGraph
// stores them; zero means no bound.
type TimeoutPolicy struct {
	RunTimeout  float64 `json:"run_timeout"`  // wall clock of the attempt
	IdleTimeout float64 `json:"idle_timeout"` // time without progress
	RefreshOn   string  `json:"refresh_on"`   // "auto" (also when empty) or "heartbeat"
}

// Run is RunTimeout as a duration; zero means no bound.
func (p TimeoutPolicy) Run() time.Duration { return seconds(p.RunTimeout) }

// Idle is IdleTimeout as a duration; zero means no bound.
func (p TimeoutPolicy) Idle() time.Duration { return seconds(p.IdleTimeout) }

func seconds(s float64) time.Duration {
	const most = float64(1<<63-1) / float64(time.Second)
	switch {
	case !(s > 0): // also NaN
		return 0
	case s >= most:
		return 1<<63 - 1
	}
	return time.Duration(s * float64(time.Second))
}

// Interrupt is what a paused task shows to the outside.
type Interrupt struct {
	Value any    `json:"value"`
	ID    string `json:"id"` // written as "placeholder-id" when empty, as LangGraph does
	// ResponseSchema is the JSON Schema of the expected answer, or nil.
	// LangGraph versions before it existed wrote no such field; Interrupts they
	// wrote are written back in today's form.
	ResponseSchema any `json:"response_schema"`
}

// WaitPrefix begins the id of an interrupt that is no question: a task waits for an instant or a signal, and no
// answer is for it. The id of a question is hexadecimal.
const WaitPrefix = "wait-"

// IsWait reports whether the interrupt is no question; see WaitPrefix.
func (i Interrupt) IsWait() bool { return strings.HasPrefix(i.ID, WaitPrefix) }

// LegacyInterruptID is the id LangGraph derives for an Interrupt that was
// stored, before ids existed, with the list ns of its namespace parts.
func LegacyInterruptID(ns []string) string {
	var h xxh3.Hasher
	for i, part := range ns {
		if i > 0 {
			_, _ = h.WriteString("|") // xxh3 never returns an error
		}
		_, _ = h.WriteString(part)
	}
	sum := h.Sum128().Bytes()
	return hexString(sum[:])
}

// Command updates state, resumes interrupts and steers the graph.
type Command struct {
	Graph  string `json:"graph"`  // empty: the current graph; "__parent__": the closest parent
	Update any    `json:"update"` // nil: none
	Resume any    `json:"resume"` // nil: none; else a value, or a map from interrupt id to value
	Goto   any    `json:"goto"`   // a node name, a Send, or []any of them; nil is written as an empty list
}

// Overwrite replaces the value of a reducing channel instead of being reduced
// into it.
type Overwrite struct {
	Value any `json:"value"`
}

// AsOverwrite recognises an Overwrite in each of the forms LangGraph does: the
// type itself, a map whose only key is "__overwrite__", and the map that is
// left when JSON strips the type, {"type": "__overwrite__", "value": …}.
func AsOverwrite(v any) (Overwrite, bool) {
	switch v := v.(type) {
	case Overwrite:
		return v, true
	case *Overwrite:
		if v != nil {
			return *v, true
		}
	case map[string]any:
		if inner, ok := v[overwriteMark]; ok && len(v) == 1 {
			return Overwrite{Value: inner}, true
		}
		if inner, ok := v["value"]; ok && v["type"] == overwriteMark {
			return Overwrite{Value: inner}, true
		}
	}
	return Overwrite{}, false
}

// DeltaSnapshot wraps the whole value of a delta channel. A walk along its ancestors ends at
// it.
type DeltaSnapshot struct {
	Value any `json:"value"`
}
