package server

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Version 2 of streaming is LangChain's agent protocol. A client opens a stream of a
// thread's events, by POST /threads/{id}/stream/events for server-sent events or by a
// WebSocket at the same path, and sends commands, by POST /threads/{id}/commands or on the
// WebSocket. Where the protocol leaves things open, the answers are those of LangGraph's
// server.
//
// # Events
//
// The events of a thread are those of its runs, one run after the other, in the order in
// which the runs were begun: also of runs that were submitted by version 1, as far as their
// stream modes kept events. They are numbered from 1 on, without gaps until a run is removed.
// Nothing of this is stored: runs.Queue has the events of each run, a translator makes from
// them what clients see, always the same, and so the numbers are the same in every process
// and after every restart. Only when a run is removed, a record says how many events it had,
// so that the numbers of others stay; see Server.forgetEvents.
//
// An event is stored before anybody sees it. A client that was cut off asks for the events
// since the last number that it saw, from any server of the fleet, and misses none.
//
// # Channels
//
//	values       the state after each superstep
//	updates      {node, values}: what a node wrote
//	messages     a message as it is written: message-start, content-block-start, -delta and
//	             -finish, message-finish
//	lifecycle    {event: running, completed, failed or interrupted} of the run; {event:
//	             started, …} and how it ended of a graph inside
//	input        input.requested {interrupt_id, payload}: a question
//	tasks        the beginning and the end of each task
//	checkpoints  {id, parent_id, source}, before the values that the checkpoint has
//	custom       {payload}: what a node emitted. An emitted object {"name": …, "payload": …}
//	             has a name, and is also in the channel custom:NAME
//	tools        nothing yet
//
// When a run is tried again after its worker died, its lifecycle says running once more,
// with the number of the attempt. What the earlier attempt emitted stays.

// protocolEvent is an event of a thread.
type protocolEvent struct {
	seq       int64
	id        string
	method    string
	namespace []string
	at        time.Time
	data      any
	// terminal: the run has ended.
	terminal bool
}

// MarshalJSON writes the event as clients see it.
func (e protocolEvent) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"type": "event", "event_id": e.id, "seq": e.seq, "method": e.method,
		"params": map[string]any{"namespace": append([]string{}, e.namespace...), "timestamp": e.at.UnixMilli(), "data": e.data},
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

var protocolChannels = []string{methodValues, methodUpdates, methodMessages, methodTools, methodCustom, methodLifecycle, channelInput, methodTasks, methodCheckpoints}

func isProtocolChannel(name string) bool {
	return slices.Contains(protocolChannels, name) || strings.HasPrefix(name, methodCustom+":") && len(name) > len(methodCustom)+1
}

// subscription selects events.
type subscription struct {
	channels []string
	// namespaces are those of which, and below which, events are wanted; none is all. With
	// depth, only so many levels below.
	namespaces [][]string
	depth      int // < 0 is any
}

func (s subscription) wants(e protocolEvent) bool {
	return slices.ContainsFunc(s.channels, e.in) && (len(s.namespaces) == 0 || slices.ContainsFunc(s.namespaces, func(ns []string) bool {
		return len(e.namespace) >= len(ns) && slices.EqualFunc(ns, e.namespace[:len(ns)], isPart) && (s.depth < 0 || len(e.namespace)-len(ns) <= s.depth)
	}))
}

// isPart reports whether a part of a namespace is wanted. A part is NODE:TASK; NODE alone is
// each of its tasks.
func isPart(wanted, part string) bool {
	return wanted == part || !strings.Contains(wanted, ":") && strings.HasPrefix(part, wanted+":")
}

// in reports whether the event is in a channel.
func (e protocolEvent) in(channel string) bool {
	switch {
	case e.method == methodInput:
		return channel == channelInput
	case e.method == channel:
		return true
	case e.method == methodCustom:
		data, _ := e.data.(map[string]any)
		name, ok := data["name"].(string)
		return ok && channel == methodCustom+":"+name
	}
	return false
}
