package streamv2

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Event is an event of a thread.
type Event struct {
	Seq       int64  // from 1 on, in the thread
	ID        string // RUN-EVENT.N: the N-th of those that a stored event makes
	Method    string
	Namespace []string // of the graph that it is about, NODE:TASK for each level; none is the graph of the run
	At        time.Time
	Data      any
}

// MarshalJSON writes the event as clients see it.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"type": "event", "event_id": e.ID, "seq": e.Seq, "method": e.Method,
		"params": map[string]any{"namespace": append([]string{}, e.Namespace...), "timestamp": e.At.UnixMilli(), "data": e.Data},
	})
}

// Methods of events, which are also the names of their channels, but for methodInput.
const (
	methodValues      = "values"
	methodUpdates     = "updates"
	methodMessages    = "messages"
	methodTools       = "tools"
	methodLifecycle   = "lifecycle"
	methodInput       = "input.requested"
	methodCheckpoints = "checkpoints"
	methodTasks       = "tasks"
	methodCustom      = "custom"
)

// channelInput is the channel of methodInput.
const channelInput = "input"

var channels = []string{methodValues, methodUpdates, methodMessages, methodTools, methodCustom, methodLifecycle, channelInput, methodTasks, methodCheckpoints}

// IsChannel reports whether there is a channel of a name.
func IsChannel(name string) bool {
	return slices.Contains(channels, name) || strings.HasPrefix(name, methodCustom+":") && len(name) > len(methodCustom)+1
}

// Subscription selects events.
type Subscription struct {
	Channels []string
	// Namespaces are those of which, and below which, events are wanted; none is all. With
	// Depth, only so many levels below.
	Namespaces [][]string
	Depth      int // < 0 is any
}

// Wants reports whether an event is one of those that are selected.
func (s Subscription) Wants(e Event) bool {
	return slices.ContainsFunc(s.Channels, e.in) && (len(s.Namespaces) == 0 || slices.ContainsFunc(s.Namespaces, func(ns []string) bool {
		return len(e.Namespace) >= len(ns) && slices.EqualFunc(ns, e.Namespace[:len(ns)], isPart) && (s.Depth < 0 || len(e.Namespace)-len(ns) <= s.Depth)
	}))
}

// isPart reports whether a part of a namespace is wanted. A part is NODE:TASK; NODE alone is
// each of its tasks.
func isPart(wanted, part string) bool {
	return wanted == part || !strings.Contains(wanted, ":") && strings.HasPrefix(part, wanted+":")
}

// in reports whether the event is in a channel.
func (e Event) in(channel string) bool {
	switch {
	case e.Method == methodInput:
		return channel == channelInput
	case e.Method == channel:
		return true
	case e.Method == methodCustom:
		data, _ := e.Data.(map[string]any)
		name, ok := data["name"].(string)
		return ok && channel == methodCustom+":"+name
	}
	return false
}
