package pregel

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// view shows a run to its audience. It only reads pos.
type view struct {
	audience
	run     *runConfig
	pos     *position
	output  Keys
	reports []func() // events about interrupts that wait until they are stored
	// waiting are the interrupts the outermost graph ended with, in the order of
	// their tasks.
	waiting []Interrupt
}

// audience has the streams of those who watch a run. It does not change while the run goes on.
type audience struct {
	stream   *stream
	inner    *stream     // graphs inside report to it; nil if they do not
	tasks    *stream     // they report their tasks to it, and it passes those on to inner; nil if they report to inner alone
	custom   *stream     // takes the values that tasks emit; nil if they are not shown
	queue    *eventQueue // nil if nobody streams, or who does is called with each event
	messages *messageLog // nil if nobody streams messages
}

// setStream sets the stream and the queue for the events of the run.
func (v *view) setStream(s *stream, q *eventQueue) {
	own := &stream{modes: s.modes, put: s.put, interruptsOnly: s.interruptsOnly}
	v.audience = audience{stream: own, custom: own, queue: q}
	var outer audience
	if v.run.nested() {
		outer = v.run.parent.step.Get().audience
		own.parent, v.inner, v.tasks = cmp.Or(outer.tasks, outer.inner), outer.inner, outer.tasks
		if v.queue == nil {
			v.queue = outer.queue
		}
		if outer.inner != nil && !own.wants(ModeCustom) && !own.wants(ModeMessages) && !own.wants(ModeTools) {
			v.custom = outer.custom
		}
	}
	switch {
	case v.run.opts.Subgraphs:
		v.inner, v.tasks = own, nil
	case v.run.opts.SubgraphTasks && own.wants(ModeTasks):
		v.tasks = &stream{modes: []Mode{ModeTasks}, put: s.put, parent: own.parent}
	}
	if v.custom.wants(ModeMessages) {
		v.messages = cmp.Or(outer.messages, &messageLog{seen: map[string]bool{}})
	}
}

// reportOnceStored keeps a report about a question until it is stored.
func (v *view) reportOnceStored(report func()) { v.reports = append(v.reports, report) }

// waitFor notes the questions that the outermost graph ends with.
func (v *view) waitFor(asked []Interrupt) { v.waiting = asked }

// TaskEvent is the start of a task, in mode tasks.
type TaskEvent struct {
	ID       string
	Name     string
	Input    any
	Triggers []string
	Metadata map[string]any // without the engine's own; nil if empty
	// Kept: an earlier attempt or run has come to the end of the task. What it wrote is kept, and its
	// node is not called.
	Kept bool
}

// TaskResult is the end of a task, in mode tasks.
type TaskResult struct {
	ID         string
	Name       string
	Err        any            // nil, an error, or a stored error's text
	Result     map[string]any // its writes to the channels shown
	Interrupts []Interrupt
	// Attempts is how often the node was called: more than once if its RetryPolicy tried again.
	Attempts int
	// Took is the time from the first call to the end of the last.
	Took time.Duration
}

// CheckpointEvent is the checkpoint a superstep starts from, in mode
// checkpoints. It is shown when the superstep begins.
type CheckpointEvent struct {
	Address  Address
	Parent   *Address
	Values   any
	Metadata saver.Metadata
	Next     []string
	Tasks    []TaskState
}

// DebugEvent wraps the events of checkpoints and tasks, in mode debug.
type DebugEvent struct {
	Step      int
	Timestamp string
	Type      string // "checkpoint", "task" or "task_result"
	Payload   any
}

// RepeatedWrites is the result of a channel that one task wrote more than once.
type RepeatedWrites struct {
	Writes []any `json:"$writes"`
}

func (v *view) emit(e Event) {
	e.NS = splitNS(v.run.ns)
	v.stream.emit(e)
}

// emitDebuggable emits an event of mode checkpoints or tasks, and its debug
// form. build is called only if somebody wants it.
func (v *view) emitDebuggable(mode Mode, kind string, build func() any) {
	plain, debug := v.stream.wants(mode), v.stream.wants(ModeDebug)
	if !plain && !debug {
		return
	}
	data := build()
	if plain {
		v.emit(Event{Mode: mode, Data: data})
	}
	if debug {
		step := v.pos.step
		if mode == ModeCheckpoints {
			step--
		}
		v.emit(Event{Mode: ModeDebug, Data: DebugEvent{Step: step, Timestamp: timestamp(v.run.env().Now()), Type: kind, Payload: data}})
	}
}

// emitValues shows the state if tasks wrote to a channel that is shown. If tasks is nil, it
// always shows the state.
func (v *view) emitValues(tasks *taskSet) {
	if !v.stream.wants(ModeValues) {
		return
	}
	shown := func(w write) bool { return v.output.has(w.channel) }
	if tasks != nil && !slices.ContainsFunc(tasks.order, func(t *task) bool { return slices.ContainsFunc(t.writes, shown) }) {
		return
	}
	v.emit(Event{Mode: ModeValues, Data: v.pos.set.read(v.output)})
}

// emitUpdated shows the state if one of the channels that were updated is shown.
func (v *view) emitUpdated(updated []string) {
	if slices.ContainsFunc(updated, v.output.has) {
		v.emitValues(v.pos.tasks)
	}
}

func (v *view) emitTasks(tasks ...*task) {
	for _, t := range tasks {
		if t.hidden() {
			continue
		}
		v.emitDebuggable(ModeTasks, "task", func() any {
			return TaskEvent{ID: t.id, Name: t.name, Input: t.input, Triggers: t.triggers, Kept: len(t.writes) > 0, Metadata: v.run.userMetadata(t)}
		})
	}
}

// emitWrites shows the writes of a task, or its questions.
func (v *view) emitWrites(t *task, writes []write, cached bool) {
	if t.hidden() || len(writes) == 0 {
		return
	}
	switch writes[0].channel {
	case chInterrupt:
		if t.path.callerReports() {
			return
		}
		v.emitInterrupts(answer.Interrupts(writes[0].value))
	case chError:
	default:
		if v.stream.wantsUpdates() {
			v.emit(Event{Mode: ModeUpdates, Data: Update{Node: t.name, Value: updateValue(v.output, writes), Cached: cached}})
		}
	}
	if !cached {
		v.emitDebuggable(ModeTasks, "task_result", func() any { return v.run.taskResult(t, writes) })
	}
}

func (v *view) emitInterrupts(list []Interrupt) {
	v.emit(Event{Mode: ModeUpdates, Data: Update{Node: KeyInterrupt}, Interrupts: list})
	if v.stream.wants(ModeValues) {
		var data any
		if !v.output.Single {
			data = v.pos.set.read(v.output)
		}
		v.emit(Event{Mode: ModeValues, Data: data, Interrupts: list})
	}
}

func (r *runConfig) taskResult(t *task, writes []write) TaskResult {
	out := TaskResult{ID: t.id, Name: t.name, Attempts: t.tries, Took: t.took}
	shown := make([]write, 0, len(writes))
	for _, w := range writes {
		switch {
		case w.channel == chError && out.Err == nil:
			out.Err = w.value
		case w.channel == chInterrupt:
			out.Interrupts = append(out.Interrupts, answer.Interrupts(w.value)...)
		case w.channel == chReturn || r.g.stream.has(w.channel):
			shown = append(shown, w)
		}
	}
	out.Result = foldWrites(shown)
	return out
}

// foldWrites is writes as a map. A channel that was written more than once has
// RepeatedWrites.
func foldWrites(writes []write) map[string]any {
	out := make(map[string]any, len(writes))
	count := map[string]int{}
	for _, w := range writes {
		count[w.channel]++
		switch count[w.channel] {
		case 1:
			out[w.channel] = w.value
		case 2:
			out[w.channel] = RepeatedWrites{Writes: []any{out[w.channel], w.value}}
		default:
			r := out[w.channel].(RepeatedWrites)
			out[w.channel] = RepeatedWrites{Writes: append(r.Writes, w.value)}
		}
	}
	return out
}

// updateValue returns the value of an Update for a task's writes.
func updateValue(output Keys, writes []write) any {
	shown := make([]write, 0, len(writes))
	count := map[string]int{}
	repeated := false
	for _, w := range writes {
		if w.channel == chReturn {
			return w.value
		}
		if output.has(w.channel) {
			shown = append(shown, w)
			count[w.channel]++
			repeated = repeated || count[w.channel] > 1
		}
	}
	switch {
	case len(shown) == 0:
		return nil
	case output.Single && len(shown) == 1:
		return shown[0].value
	case output.Single || repeated:
		list := make([]any, len(shown))
		for i, w := range shown {
			if list[i] = w.value; !output.Single {
				list[i] = map[string]any{w.channel: w.value}
			}
		}
		return list
	}
	m := make(map[string]any, len(shown))
	for _, w := range shown {
		m[w.channel] = w.value
	}
	return m
}

func (v *view) emitCheckpoint() {
	if v.run.saver == nil {
		return
	}
	v.emitDebuggable(ModeCheckpoints, "checkpoint", func() any {
		at := v.pos.here()
		at.Namespace = v.run.ns
		e := CheckpointEvent{Address: addressOf(at, v.pos.md), Values: v.pos.set.read(v.run.g.stream), Metadata: v.pos.md,
			Next: v.pos.tasks.namePerTask(), Tasks: v.run.g.taskStates(v.pos.tasks, v.pos.pending, nil, answer.Given{}, false)}
		if v.pos.cp.id == v.pos.savedID && !v.run.nested() && e.Address.CheckpointMap == nil {
			e.Address.CheckpointMap = maps.Clone(v.run.cpMap) // the run began at a checkpoint of a graph inside
		}
		if v.pos.prev != nil {
			p := addressOf(*v.pos.prev, v.pos.md)
			e.Parent = &p
		}
		return e
	})
}

// emitMessages shows the messages in what t returned, except those in its input and those
// already shown.
func (v *view) emitMessages(t *task) {
	if v.messages == nil || t.hidden() {
		return
	}
	mapMessages(t.returned, func(m channel.Identified) string {
		if v.messages.mark(m.MessageID()) {
			v.custom.emit(Event{NS: graphNS(t), Mode: ModeMessages, Data: MessageEvent{Message: m, Metadata: v.run.messageMetadata(t, v.pos.step, v.run.ns)}})
		}
		return m.MessageID()
	})
	t.returned = nil
}
