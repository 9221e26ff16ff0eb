package pregel

import (
	"context"
	"slices"
	"sync"
)

// Mode is a kind of stream event.
//
// A mode that is added here goes through all that name modes: runs/attempt.go, message/pregeljson (event.go),
// server/runrequest.go, server/internal/streamv2 (translator.go), server/client (runs.go) and
// server/client/remote (graph.go), and docs/server.md. TestModesAreKnown lists what each makes of it.
type Mode string

// The modes. Debug wraps checkpoints and tasks in one kind.
const (
	ModeValues      Mode = "values"
	ModeUpdates     Mode = "updates"
	ModeCustom      Mode = "custom"
	ModeMessages    Mode = "messages"
	ModeCheckpoints Mode = "checkpoints"
	ModeTasks       Mode = "tasks"
	ModeTools       Mode = "tools"
	ModeDebug       Mode = "debug"
)

var allModes = []Mode{ModeValues, ModeUpdates, ModeCustom, ModeMessages, ModeCheckpoints, ModeTasks, ModeTools, ModeDebug}

// Event is one event of a stream.
type Event struct {
	// NS is the namespace of the graph that the event is about, in parts; empty at the
	// root.
	NS   []string
	Mode Mode
	// Data is, by mode: the values; an Update; what Emit was given; a
	// MessageEvent; a CheckpointEvent; a TaskEvent or TaskResult; a ToolEvent; a DebugEvent.
	Data any
	// Interrupts are those that an event of mode values or updates reports.
	Interrupts []Interrupt
}

// Update has the writes of one task.
type Update struct {
	Node string // KeyInterrupt if the event reports interrupts
	// Value is a map of the channels written, a list of such maps if one was
	// written more than once, the value of a single output channel, or what a
	// called function returned; nil if nothing was written.
	Value  any
	Cached bool // the task did not run: it had ended before, or was in the cache
}

// MessageEvent is a message or a part of one, with where it comes from.
type MessageEvent struct {
	Message  any
	Metadata map[string]any
}

// ToolEvent is a step of a tool call: it starts, has a part of its output, finishes or fails. A call
// that waits for a person has neither end; it starts again once there is an answer.
type ToolEvent struct {
	Step   ToolStep
	CallID string         // of the model's call
	Name   string         // of the tool; with ToolStarted
	Input  map[string]any // the arguments; with ToolStarted
	Output any            // a part of it with ToolOutput, the answer with ToolFinished
	Err    string         // with ToolFailed
}

// ToolStep is what a ToolEvent says, as LangGraph names it.
type ToolStep string

// The steps of a tool call.
const (
	ToolStarted  ToolStep = "tool-started"
	ToolOutput   ToolStep = "tool-output-delta"
	ToolFinished ToolStep = "tool-finished"
	ToolFailed   ToolStep = "tool-error"
)

// stream takes the events of one loop, and those of streams whose parent it is.
type stream struct {
	modes  []Mode
	parent *stream // nil unless the events of graphs inside are shown
	put    func(Event)
	// interruptsOnly: of the updates only those that report interrupts are
	// looked at, so the others need not be made.
	interruptsOnly bool
}

func (s *stream) wants(m Mode) bool {
	return s != nil && (slices.Contains(s.modes, m) || s.parent.wants(m))
}

// wantsWrites reports whether a mode shows the writes of tasks.
func (s *stream) wantsWrites() bool {
	return s.wantsUpdates() || s.wants(ModeTasks) || s.wants(ModeDebug)
}

// wantsUpdates reports whether the writes of tasks are needed for events.
func (s *stream) wantsUpdates() bool {
	for ; s != nil; s = s.parent {
		if !s.interruptsOnly && slices.Contains(s.modes, ModeUpdates) {
			return true
		}
	}
	return false
}

func (s *stream) emit(e Event) {
	for ; s != nil; s = s.parent {
		if slices.Contains(s.modes, e.Mode) {
			s.put(e)
		}
	}
}

// eventQueue is a queue between the loop and the consumer. The loop must not wait for a slow
// consumer while tasks end.
type eventQueue struct {
	limit int

	// mu guards the fields below. ready is signalled when items come or the
	// queue ends, room when items go or the queue is abandoned.
	mu        sync.Mutex
	ready     *sync.Cond
	room      *sync.Cond
	items     []Event
	ended     bool // no more events will come
	abandoned bool // events are no longer taken
}

// queueLimit is how many events may wait before the loop waits at the end of a superstep.
const queueLimit = 256

func newEventQueue() *eventQueue {
	q := &eventQueue{limit: queueLimit}
	q.ready, q.room = sync.NewCond(&q.mu), sync.NewCond(&q.mu)
	return q
}

// push adds an event without waiting. The number of events is bounded by what the tasks of a
// superstep emit, because the loop waits for room between supersteps.
func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.abandoned {
		q.items = append(q.items, e)
		q.ready.Signal()
	}
}

// waitRoom waits until the consumer has caught up, is gone, or ctx ends. A nil queue has room.
func (q *eventQueue) waitRoom(ctx context.Context) {
	if q == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.room.Broadcast()
	})
	defer stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) >= q.limit && !q.abandoned && ctx.Err() == nil {
		q.room.Wait()
	}
}

// take returns the events that wait; none only when the queue has ended.
func (q *eventQueue) take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.ended {
		q.ready.Wait()
	}
	items := q.items
	q.items = nil
	q.room.Broadcast()
	return items
}

func (q *eventQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.ready.Broadcast()
}

func (q *eventQueue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.abandoned, q.items = true, nil
	q.room.Broadcast()
}
