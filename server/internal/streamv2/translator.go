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
	made    int               // of event
	status  string            // of the run, as lifecycle says it
	graphs  []*graph          // inside, in the order in which they began
	started map[string]*graph // graphs inside that have begun and not ended, by namespace
	asked   map[string]bool   // questions that were emitted, by id
	texts   []*message        // messages that are being written
	written map[string]bool   // messages that were written, by id
	failed  string            // the last error
	held    *heldValues       // values whose checkpoint comes next; nil if there are none
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
	return &Translator{run: r, status: "started", started: map[string]*graph{}, asked: map[string]bool{}, written: map[string]bool{}}
}

// graph is a graph inside, in one run.
type graph struct {
	namespace []string
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
	if h := t.held; h != nil {
		if ev.Kind == runs.Kind(pregel.ModeCheckpoints) && slices.Equal(ev.Namespace, h.namespace) {
			t.checkpoint(data)
			t.release()
			return t.out, nil
		}
		t.release()
	}
	if len(ev.Namespace) > 0 {
		t.begin(ev.Namespace)
	}
	switch ev.Kind {
	case runs.KindAttempt:
		running := map[string]any{"event": "running", "graph_name": t.run.Graph}
		if ev.Attempt > 1 {
			running["attempt"] = ev.Attempt
			t.texts, t.graphs, t.started = nil, nil, map[string]*graph{}
		}
		t.status = "running"
		t.add(methodLifecycle, nil, running)
	case runs.KindError:
		m, _ := data.(map[string]any)
		t.failed, _ = m["message"].(string)
	case runs.KindEnd:
		return t.out, t.end(of)
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
		t.checkpoint(data)
	case runs.Kind(pregel.ModeCustom):
		m, ok := data.(map[string]any)
		if name, named := m["name"].(string); ok && named && len(m) == 2 && m["payload"] != nil {
			t.add(methodCustom, ev.Namespace, map[string]any{"name": name, "payload": m["payload"]})
		} else {
			t.add(methodCustom, ev.Namespace, map[string]any{"payload": data})
		}
	}
	return t.out, nil
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

// begin emits that the graphs at ns and around it have started, once for each.
func (t *Translator) begin(ns []string) {
	for n := 1; n <= len(ns); n++ {
		at := ns[:n]
		if _, ok := t.started[joined(at)]; ok {
			continue
		}
		g := &graph{slices.Clone(at), "started"}
		t.started[joined(at)] = g
		t.graphs = append(t.graphs, g)
		node, task, _ := strings.Cut(at[n-1], ":")
		t.add(methodLifecycle, at, map[string]any{"event": "started", "namespace": slices.Clone(at), "graph_name": node, "trigger_call_id": task})
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
	node, _, _ := strings.Cut(ns[len(ns)-1], ":")
	data := map[string]any{"event": how, "graph_name": node}
	if failure != "" {
		data["error"] = failure
	}
	t.add(methodLifecycle, ns, data)
}

// task ends the graph that a task has run.
func (t *Translator) task(data any) {
	m, _ := data.(map[string]any)
	if _, ended := m["result"]; !ended {
		return
	}
	ns := append(slices.Clone(t.event.Namespace), fmt.Sprintf("%v:%v", m["name"], m["id"]))
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
func (t *Translator) checkpoint(data any) {
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
	t.add(methodCheckpoints, t.event.Namespace, out)
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
		name, _, _ := strings.Cut(g.namespace[len(g.namespace)-1], ":")
		node := map[string]any{"namespace": g.namespace, "status": g.status, "graph_name": name}
		nodes[joined(g.namespace)] = node
		around := nodes[joined(g.namespace[:len(g.namespace)-1])]
		children, _ := around["children"].([]any)
		around["children"] = append(children, node)
	}
	return root
}
