package pregel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// Step is something that a body did and that is stored: a call of a TaskFunc, a child that it started, a sleep, a
// signal that it waited for, a value that it exposed.
type Step struct {
	Kind StepKind `json:"kind"`
	// Node is the node whose body it is in; "" if that does not say so, as of a packet.
	Node string `json:"node,omitempty"`
	// Depth is 0 in the body of a node, 1 in that of a function that it calls, and so on. A call comes before the
	// steps of its own body.
	Depth int `json:"depth,omitempty"`
	// Name is that of the function, the child's graph, the signal, or the value. It is "" for a sleep, and for a call
	// that was stored without a record, as with Options.LangGraph.
	Name  string    `json:"name,omitempty"`
	State StepState `json:"state"`
	// Result is what a call returned, the output of a child, the value of a signal, or what was exposed.
	Result any `json:"result,omitempty"`
	// Error is why a call or a child failed. A call that failed runs again when its body does.
	Error string `json:"error,omitempty"`
	// Questions are those of a call that waits.
	Questions []Interrupt `json:"questions,omitempty"`
	// Until is when a sleep ends, or a wait for a signal or a child times out; zero if none does.
	Until time.Time `json:"until,omitzero"`
	// ThreadID is the thread of a child. Its state there may be newer than State, which is what the body has got.
	ThreadID string `json:"thread_id,omitempty"`
	// Began is when the body first came to it. Attempts is how often a function was called until it returned, and Took how
	// long that lasted in the run in which it did, with the pauses between. Zero is not known: of a call that failed, or
	// whose result came from a cache, and of what earlier releases stored.
	Attempts int           `json:"attempts,omitempty"`
	Began    time.Time     `json:"began,omitzero"`
	Took     time.Duration `json:"took_ns,omitempty"`
}

// StepKind says what a Step is.
type StepKind string

const (
	// StepCall is a call of a TaskFunc.
	StepCall StepKind = "call"
	// StepChild is a Child that was started.
	StepChild StepKind = "child"
	// StepSleep is a Sleep.
	StepSleep StepKind = "sleep"
	// StepSignal is a wait for a Signal.
	StepSignal StepKind = "signal"
	// StepExposed is the newest value of a name that was exposed.
	StepExposed StepKind = "exposed"
)

// StepState says how far a Step is.
type StepState string

const (
	// StepDone: it has ended, and does not run again.
	StepDone StepState = "done"
	// StepFailed: it has ended with an error.
	StepFailed StepState = "failed"
	// StepTimedOut: the body went on without a signal.
	StepTimedOut StepState = "timed out"
	// StepWaiting: it waits, for an answer, an instant, a signal, or the end of a child.
	StepWaiting StepState = "waiting"
	// StepBegun: it has begun, and no end is stored: it is under way, or was cut off. Of a call that is only so if it took
	// an idempotency key, waited, or ran a graph inside: another one is stored when it ends.
	StepBegun StepState = "begun"
)

// Steps lists what the bodies of one superstep did: of the one that begins at a checkpoint, or, without a CheckpointID, of
// the newest one, which is under way or was the last that ended. In a thread of an Entrypoint that is its last run.
// Steps of a body are in the order in which it first came to them.
//
// It reads what is stored, and no graph: nothing runs, and a thread of any program can be read. Under Exit calls that
// ended are stored only when the run stops before its superstep ends. Without the checkpoint there are no steps. An error
// is that of the saver, or that a value cannot be decoded.
func Steps(ctx context.Context, s saver.Saver, at Address) ([]Step, error) {
	tup, err := getTuple(ctx, s, at.place())
	if err != nil || tup == nil {
		return nil, err
	}
	steps, err := stepsAt(s, tup)
	if err != nil || len(steps) > 0 || at.CheckpointID != "" || tup.Parent == nil {
		return steps, err
	}
	if tup, err = getTuple(ctx, s, *tup.Parent); err != nil || tup == nil {
		return nil, err
	}
	return stepsAt(s, tup)
}

// stepsAt are the steps of the superstep that begins at a checkpoint.
func stepsAt(s saver.Saver, tup *saver.Tuple) ([]Step, error) {
	var records, writes []answer.Write
	for _, w := range tup.PendingWrites {
		if w.TaskID == nullTaskID || w.Channel == chStopped {
			continue
		}
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		read := answer.New(w.TaskID, w.TaskPath, w.Channel, v)
		if w.Channel == chCalls || w.Channel == chWaits {
			records = append(records, read)
		} else {
			writes = append(writes, read)
		}
	}
	b := &bodies{of: map[string][]*bodyStep{}, open: map[string]Interrupt{}, ended: map[string]bool{}}
	b.addCalls(records, writes)
	if err := b.addWaits(s, records); err != nil {
		return nil, err
	}
	return b.list(), nil
}

// bodyStep is a step as it is found.
type bodyStep struct {
	Step
	path string // of a call
	n    int    // among those of its kind in the body
}

// bodies are the steps of a superstep, by the path of the task in whose body they are.
type bodies struct {
	of map[string][]*bodyStep
	// open are the interrupts with which tasks wait, by id; ended are the paths of the tasks that ended.
	open  map[string]Interrupt
	ended map[string]bool
}

func (b *bodies) add(body string, s *bodyStep) { b.of[body] = append(b.of[body], s) }

// addCalls adds the calls that have writes, or a record.
func (b *bodies) addCalls(records, writes []answer.Write) {
	calls := map[string]*bodyStep{}
	at := func(path string) *bodyStep {
		body, n, ok := pathOfBody(path)
		if !ok || calls[path] != nil {
			return calls[path]
		}
		calls[path] = &bodyStep{Step: Step{Kind: StepCall, State: StepBegun}, path: path, n: n}
		b.add(strings.TrimPrefix(body, "~"+push+", "), calls[path])
		return calls[path]
	}
	made := noCalls()
	eachRecord(records, func(of answer.Write, record map[string]any) {
		name, asked := record["asked"].(string)
		if c := at(of.Path); asked && c != nil {
			c.Name = name
			micros, _ := record["when"].(int64)
			c.Began = time.UnixMicro(micros).UTC()
		}
	})
	for _, w := range records {
		if w.Channel != chCalls {
			continue
		}
		made.add(w.Path, callsOf(w.Value))
		if c := at(w.Path); c != nil {
			c.timed(w.Value)
		}
	}
	for path, all := range made.at {
		at(path).Name = all[len(all)-1].name // where bodies took different ways, the last one
	}
	paths := map[string]string{}
	for _, w := range writes {
		paths[w.TaskID] = w.Path
		if c := at(w.Path); c != nil && w.Channel == chErrorSource && c.Name == "" {
			c.Name, _ = w.Value.(string)
		}
	}
	outputs := outputsOf(writes)
	statuses, order := answer.Statuses(writes)
	for _, id := range order {
		s, c := statuses[id], at(paths[id])
		for _, in := range s.Pending() {
			b.open[in.ID] = in
		}
		b.ended[paths[id]] = b.ended[paths[id]] || s.Finished
		if c == nil || c.State == StepDone {
			continue
		}
		asks := s.Pending()
		switch {
		case s.Finished:
			c.State, c.Error, c.Questions = StepDone, "", nil
			v, err := returned(outputs[id])
			if c.Result = v; err != nil {
				c.State, c.Error = StepFailed, err.Error()
			}
		case s.Failed:
			c.State, c.Error = StepFailed, storedError(s.Err).Error()
		case len(asks) > 0:
			c.State, c.Questions = StepWaiting, answer.WithoutWaits(asks)
		}
	}
}

// timed reads from a record what it says of the call that it is stored with: see timesOf.
func (s *bodyStep) timed(record any) {
	list, _ := record.([]any)
	for _, x := range list {
		if of, ok := x.([]any); ok && len(of) == 4 {
			tries, _ := of[1].(int64)
			began, _ := of[2].(int64)
			took, _ := of[3].(int64)
			if first := time.UnixMicro(began).UTC(); s.Began.IsZero() || first.Before(s.Began) {
				s.Began = first
			}
			if tries > 0 { // else it had not ended
				s.Attempts, s.Took = int(tries), time.Duration(took)*time.Microsecond
			}
		}
	}
}

// addWaits adds the children, sleeps, signals and exposed values that have records.
func (b *bodies) addWaits(s saver.Saver, records []answer.Write) error {
	_, w := takeWaits(slices.Clone(records))
	children := map[string]*bodyStep{}
	newest := map[string]exposed{}
	shown := map[string]func(){} // adds the newest value of a name
	found := func(of answer.Write, record map[string]any, kind StepKind, name string) *bodyStep {
		x := &bodyStep{Step: Step{Kind: kind, Name: name, State: StepDone}}
		n, _ := record["n"].(int64)
		x.n = int(n)
		if micros, ok := record["when"].(int64); ok {
			x.Began = time.UnixMicro(micros).UTC()
		}
		b.add(of.Path, x)
		return x
	}
	eachRecord(records, func(of answer.Write, record map[string]any) {
		if thread, ok := record["started"].(string); ok {
			graph, _ := record["graph"].(string)
			c := found(of, record, StepChild, graph)
			c.ThreadID, c.State = thread, StepBegun
			children[thread] = c
		}
		if x, ok := exposedOf(record); ok {
			if x.n >= newest[x.name].n {
				newest[x.name] = x
				shown[x.name] = func() { found(of, record, StepExposed, x.name).Result = x.value }
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		shown[name]()
	}
	var failed error
	eachRecord(records, func(of answer.Write, record map[string]any) {
		id, ok := record["id"].(string)
		if !ok {
			return
		}
		what := Wait{ID: id, Until: w.until[id]}
		what.Signal, _ = record["signal"].(string)
		what.Child, _ = record["child"].(string)
		in, open := b.open[id]
		if known, ok := waitOf(in); ok {
			what.Signal, what.Child = known.Signal, known.Child
		}
		how := w.bound[id]
		if how != nil && how.signal != nil {
			what.Signal = how.signal.name
		}
		var c *bodyStep
		switch {
		case what.Child != "":
			if c = children[what.Child]; c == nil { // started by another body
				return
			}
		case what.Signal != "":
			c = found(of, record, StepSignal, what.Signal)
		default:
			c = found(of, record, StepSleep, "")
		}
		if what.Child == "" || open {
			c.Until = what.Until
		}
		switch {
		case how != nil && how.signal != nil:
			v, err := s.Serializer().Decode(how.signal.typed)
			if err != nil && failed == nil {
				failed = fmt.Errorf("read signal %q: %w", how.signal.name, err)
			}
			c.Result, c.State = v, StepDone
		case how != nil && how.end != nil && how.end.How == ChildDone:
			c.Result, c.State = how.end.Output, StepDone
		case how != nil && how.end != nil:
			c.State, c.Error = StepFailed, cmp.Or(how.end.Error, string(how.end.How))
		case how != nil && what.Child != "": // it goes on
		case how != nil:
			c.State = StepTimedOut
		case open && !w.over[id]:
			c.State = StepWaiting
		case !b.ended[of.Path] && !w.over[id] && what.Child == "" && !c.Began.IsZero():
			c.State = StepBegun // unless the body went on: see list
		}
	})
	return failed
}

// eachRecord calls do with the records of waits.
func eachRecord(records []answer.Write, do func(of answer.Write, record map[string]any)) {
	for _, w := range records {
		if record, ok := w.Value.(map[string]any); ok && w.Channel == chWaits {
			do(w, record)
		}
	}
}

// list are all steps: those of a node's body before those of the next, and those of a call's body behind the call.
func (b *bodies) list() []Step {
	var nodes []string
	for path := range b.of {
		if _, _, inCall := pathOfBody(path); !inCall {
			nodes = append(nodes, path)
		}
	}
	slices.Sort(nodes)
	var out []Step
	var body func(path, node string, depth int)
	body = func(path, node string, depth int) {
		steps := b.of[path]
		delete(b.of, path)
		slices.SortStableFunc(steps, func(x, y *bodyStep) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.n, y.n)) })
		// Of one kind the order is known. Kinds are told apart by time, and a step without one comes behind the one before.
		since := make(map[*bodyStep]time.Time, len(steps))
		for i, s := range steps {
			since[s] = s.Began
			if i > 0 && steps[i-1].Kind == s.Kind && since[steps[i-1]].After(s.Began) {
				since[s] = since[steps[i-1]]
			}
		}
		slices.SortStableFunc(steps, func(x, y *bodyStep) int { return since[x].Compare(since[y]) })
		for _, s := range steps {
			s.Node, s.Depth = node, depth
			out = append(out, s.Step)
			if s.path != "" {
				body(s.path, node, depth+1)
			}
		}
	}
	for _, path := range nodes {
		node, ok := strings.CutPrefix(path, "~"+pull+", ")
		if !ok || strings.Contains(node, ", ") {
			node = ""
		}
		body(path, node, 0)
	}
	return out
}
