package streamv2

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// Translator turns the stored events of one run into events of protocol v2, in order. The result
// depends only on these events.
type Translator struct {
	run     runs.Run
	out     []Event
	event   runs.Event
	made    int                     // of event
	status  string                  // of the run, as lifecycle says it
	graphs  []*graph                // inside, in the order in which they began
	early   map[string][]earlyEvent // of graphs inside that have not begun, by namespace
	started map[string]*graph       // graphs inside that have begun and not ended, by namespace
	calls   map[string]string       // tool calls that tasks run, by the id of the task
	asked   map[string]bool         // questions that were emitted, by id
	texts   []*message              // messages that are being written
	written map[string]bool         // messages that were written, by id
	failed  string                  // the last error
	held    *heldValues             // values whose checkpoint comes next; nil if there are none
}

// heldValues are values that are held until the event of their checkpoint, as clients of LangChain
// expect. The graph emits the values first.
type heldValues struct {
	namespace []string
	data      any
	asks      []any
}

// NewTranslator returns a Translator for a run, before its first event.
func NewTranslator(r runs.Run) *Translator {
	return &Translator{run: r, status: "started", early: map[string][]earlyEvent{}, started: map[string]*graph{}, calls: map[string]string{},
		asked: map[string]bool{}, written: map[string]bool{}}
}

// graph is a graph inside, in one run.
type graph struct {
	namespace []string
	name      string // of the agent, or else of the node
	status    string
}

func joined(ns []string) string { return strings.Join(ns, "|") }

// add adds an event about ns.
func (t *Translator) add(method string, ns []string, data any) {
	t.made++
	t.out = append(t.out, Event{ID: fmt.Sprintf("%s-%d.%d", t.run.ID, t.event.Seq, t.made), Method: method,
		Namespace: slices.Clone(ns), At: t.event.Time, Data: data})
}

// translate returns the events that clients see for a stored event. text is its JSON. of returns the
// run as it is now; it is called when the event says that the run has ended. Errors are those of
// decoding the event, and of of.
func (t *Translator) translate(ev runs.Event, text []byte, of func() (runs.Run, error)) ([]Event, error) {
	t.event, t.out, t.made = ev, nil, 0
	if ev.Kind == runs.KindTask { // for operators
		return nil, nil
	}
	data, err := plainJSON(text)
	if err != nil {
		return nil, fmt.Errorf("event %d of run %s: %w", ev.Seq, t.run.ID, err)
	}
	if t.isEarly(ev) && len(t.questions(data)) == 0 {
		t.early[joined(ev.Namespace)] = append(t.early[joined(ev.Namespace)], earlyEvent{ev, data})
		return nil, nil
	}
	t.begin(ev.Namespace, agentOf(data))
	err = t.show(ev, data, of)
	return t.out, err
}

// earlyEvent is one that is held.
type earlyEvent struct {
	event runs.Event
	data  any
}

// isEarly reports whether an event comes before the first task of a graph inside, which says what agent it is. It is held
// until then.
func (t *Translator) isEarly(ev runs.Event) bool {
	_, begun := t.started[joined(ev.Namespace)]
	return len(ev.Namespace) > 0 && !begun && (ev.Kind == runs.Kind(pregel.ModeValues) || ev.Kind == runs.Kind(pregel.ModeCheckpoints))
}

// show adds what clients see of an event to t.out.
func (t *Translator) show(ev runs.Event, data any, of func() (runs.Run, error)) error {
	if h := t.held; h != nil {
		if ev.Kind == runs.Kind(pregel.ModeCheckpoints) && slices.Equal(ev.Namespace, h.namespace) {
			t.checkpoint(ev.Namespace, data)
			t.release()
			return nil
		}
		t.release()
	}
	switch ev.Kind {
	case runs.KindAttempt:
		running := map[string]any{"event": "running", "graph_name": t.run.Graph}
		if ev.Attempt > 1 {
			running["attempt"] = ev.Attempt
			t.texts, t.graphs, t.started, t.early = nil, nil, map[string]*graph{}, map[string][]earlyEvent{}
		}
		t.status = "running"
		t.add(methodLifecycle, nil, running)
	case runs.KindError:
		m, _ := data.(map[string]any)
		t.failed, _ = m["message"].(string)
	case runs.KindEnd:
		return t.end(of)
	case runs.Kind(pregel.ModeValues):
		t.finish(ev.Namespace)
		t.held = &heldValues{namespace: slices.Clone(ev.Namespace), asks: t.questions(data)}
		t.held.data = values(data)
		if !slices.Contains(t.run.Modes, pregel.ModeCheckpoints) { // nothing may come for a long time
			t.release()
		}
	case runs.Kind(pregel.ModeUpdates):
		t.update(data)
	case runs.Kind(pregel.ModeMessages):
		t.message(data)
	case runs.Kind(pregel.ModeTasks):
		t.add(methodTasks, ev.Namespace, values(data))
		t.task(data)
	case runs.Kind(pregel.ModeCheckpoints):
		t.checkpoint(ev.Namespace, data)
	case runs.Kind(pregel.ModeTools):
		t.tool(data)
	case runs.Kind(pregel.ModeCustom):
		t.add(methodCustom, ev.Namespace, data)
	}
	return nil
}

// release emits the values that were held, and the questions in them.
func (t *Translator) release() {
	h := t.held
	t.held = nil
	t.add(methodValues, h.namespace, h.data)
	t.ask(h.namespace, h.asks)
}

// plainJSON is JSON with its numbers as they are written.
func plainJSON(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// begin emits that the graphs at ns and around it have started, once for each. agent is the name of the agent at ns, or
// empty.
func (t *Translator) begin(ns []string, agent string) {
	for n := 1; n <= len(ns); n++ {
		at := ns[:n]
		if _, ok := t.started[joined(at)]; ok {
			continue
		}
		node, task, _ := strings.Cut(at[n-1], ":")
		data := map[string]any{"event": "started", "namespace": slices.Clone(at), "graph_name": node, "trigger_call_id": task}
		g := &graph{slices.Clone(at), node, "started"}
		if n == len(ns) && agent != "" {
			g.name, data["graph_name"] = agent, agent
			if call := t.calls[task]; call != "" {
				data["cause"] = map[string]any{"type": "toolCall", "tool_call_id": call}
			}
		}
		t.started[joined(at)] = g
		t.graphs = append(t.graphs, g)
		t.add(methodLifecycle, at, data)
		early := t.early[joined(at)]
		delete(t.early, joined(at))
		for _, e := range early {
			_ = t.show(e.event, e.data, nil) // of values and checkpoints there is no error
		}
	}
}

// agentOf is the name of the agent that an event of a graph is about: its metadata has it.
func agentOf(data any) string {
	if pair, _ := data.([]any); len(pair) == 2 { // a message and its metadata
		data = map[string]any{"metadata": pair[1]}
	}
	m, _ := data.(map[string]any)
	metadata, _ := m["metadata"].(map[string]any)
	name, _ := metadata["lc_agent_name"].(string)
	return name
}

// called notes the tool call that a task runs: its input is the call, alone or with the state.
func (t *Translator) called(task map[string]any) {
	input := task["input"]
	if list, _ := input.([]any); len(list) > 0 {
		input = map[string]any{"tool_call": list[0]}
	}
	m, _ := input.(map[string]any)
	call, _ := m["tool_call"].(map[string]any)
	id, _ := task["id"].(string)
	if name, ok := call["id"].(string); ok && id != "" {
		t.calls[id] = name
	}
}

// close emits how a graph inside has ended.
func (t *Translator) close(ns []string, how, failure string) {
	g, ok := t.started[joined(ns)]
	if !ok {
		return
	}
	g.status = how
	delete(t.started, joined(ns))
	data := map[string]any{"event": how, "graph_name": g.name}
	if failure != "" {
		data["error"] = failure
	}
	t.add(methodLifecycle, ns, data)
}

// task notes what a task is about to run, or ends the graph that it has run.
func (t *Translator) task(data any) {
	m, _ := data.(map[string]any)
	if _, ended := m["result"]; !ended {
		t.called(m)
		return
	}
	ns := append(slices.Clone(t.event.Namespace), fmt.Sprintf("%v:%v", m["name"], m["id"]))
	if early := t.early[joined(ns)]; early != nil {
		t.begin(ns, "")
	}
	how, failure := "completed", ""
	if asks, _ := m["interrupts"].([]any); len(asks) > 0 {
		how = "interrupted"
	} else if m["error"] != nil {
		how, failure = "failed", fmt.Sprint(m["error"])
	}
	t.close(ns, how, failure)
}

// end emits how the run has ended.
func (t *Translator) end(of func() (runs.Run, error)) error {
	r, err := of()
	if err != nil {
		return err
	}
	how, failure := "completed", ""
	switch {
	case r.Status == runs.Error:
		how, failure = "failed", t.failed
		if failure == "" {
			failure = r.Error
		}
	case r.Status == runs.Interrupted || r.Waiting:
		how = "interrupted"
	}
	for _, ns := range slices.Sorted(maps.Keys(t.early)) { // without a task: they stand where they stood
		t.begin(t.early[ns][0].event.Namespace, "")
	}
	t.finish(nil)
	open := make([][]string, 0, len(t.started))
	for _, g := range t.started {
		open = append(open, g.namespace)
	}
	slices.SortFunc(open, func(a, b []string) int { // the innermost first
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return slices.Compare(a, b)
	})
	for _, ns := range open {
		t.close(ns, how, failure)
	}
	t.status = how
	data := map[string]any{"event": how, "graph_name": t.run.Graph}
	if failure != "" {
		data["error"] = failure
	}
	t.add(methodLifecycle, nil, data)
	return nil
}

// update emits what a node wrote, or its questions.
func (t *Translator) update(data any) {
	m, _ := data.(map[string]any)
	if _, ok := m[pregel.KeyInterrupt]; ok {
		t.ask(t.event.Namespace, t.questions(data))
		return
	}
	for _, node := range slices.Sorted(maps.Keys(m)) {
		written := values(m[node])
		if written == nil {
			written = map[string]any{}
		}
		t.add(methodUpdates, t.event.Namespace, map[string]any{"node": node, "values": written})
	}
}

// questions returns the questions that values or an update report.
func (t *Translator) questions(data any) []any {
	m, _ := data.(map[string]any)
	asks, _ := m[pregel.KeyInterrupt].([]any)
	return asks
}

// ask emits the questions that were not emitted yet. The innermost graph reports a question first.
func (t *Translator) ask(ns []string, asks []any) {
	for _, a := range asks {
		m, _ := a.(map[string]any)
		id, _ := m["id"].(string)
		if id == "" || t.asked[id] {
			continue
		}
		t.asked[id] = true
		data := map[string]any{"interrupt_id": id, "payload": m["value"]}
		if m["response_schema"] != nil {
			data["response_schema"] = m["response_schema"]
		}
		t.add(methodInput, ns, data)
	}
}

// checkpoint emits the place of a checkpoint in the thread's history. It leaves out the step, which
// state.listCheckpoints has: clients of LangChain take values of a lower step for older ones, and after
// a fork would show them beside the values of the old branch.
func (t *Translator) checkpoint(ns []string, data any) {
	m, _ := data.(map[string]any)
	id := func(key string) any {
		config, _ := m[key].(map[string]any)
		configurable, _ := config["configurable"].(map[string]any)
		return configurable["checkpoint_id"]
	}
	metadata, _ := m["metadata"].(map[string]any)
	out := map[string]any{"id": id("config"), "source": metadata["source"]}
	if parent := id("parent_config"); parent != nil {
		out["parent_id"] = parent
	}
	t.add(methodCheckpoints, ns, out)
}

// Values returns the state of a graph in the form of events.
func Values(state any) (any, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	v, err := plainJSON(text)
	return values(v), err
}

// values returns values without the questions, and with messages in the form of the protocol: without
// empty fields.
func values(v any) any {
	switch x := v.(type) {
	case []any:
		for i, e := range x {
			x[i] = values(e)
		}
	case map[string]any:
		delete(x, pregel.KeyInterrupt)
		_, kwargs := x["additional_kwargs"].(map[string]any)
		_, kind := x["type"].(string)
		if kwargs && kind {
			for _, k := range []string{"additional_kwargs", "response_metadata", "name", "tool_calls", "invalid_tool_calls", "usage_metadata"} {
				if isEmpty(x[k]) {
					delete(x, k)
				}
			}
		}
		for k, e := range x {
			x[k] = values(e)
		}
	}
	return v
}

func isEmpty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// Run is the id of the run.
func (t *Translator) Run() string { return t.run.ID }

// Tree is the run with the graphs inside.
func (t *Translator) Tree() map[string]any {
	root := map[string]any{"namespace": []string{}, "status": t.status, "graph_name": t.run.Graph}
	nodes := map[string]map[string]any{"": root}
	for _, g := range t.graphs { // the outer ones began first
		node := map[string]any{"namespace": g.namespace, "status": g.status, "graph_name": g.name}
		nodes[joined(g.namespace)] = node
		around := nodes[joined(g.namespace[:len(g.namespace)-1])]
		children, _ := around["children"].([]any)
		around["children"] = append(children, node)
	}
	return root
}
