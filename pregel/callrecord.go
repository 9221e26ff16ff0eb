package pregel

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// A body that runs again makes its calls again, and each finds what it did before by its position
// (callPath). A body that was changed meanwhile would find the results of other calls, or run calls
// again that ended, with new idempotency keys. So stele keeps which function was called at which
// position, and with which input, of every call that
//
//   - ended, or has a call inside that did,
//   - took an idempotency key: its effect may be known under that key, or
//   - ran a graph inside that stores checkpoints,
//
// and of the calls that the same body had made before it. What a body does once it has seen an error, of
// a call, a question or a graph inside, it may leave out when it runs again and sees none. So a record of a
// call made by then also says from which position on that is so, and of what the error was. If a body sees all
// these errors again, it has no reason to make other calls. The record of a call that ended is one of its
// writes. Any other is that of a task that does not exist, as with endings: a task with a write that
// is neither a question nor a failure counts as ended. LangGraph ignores both.

// chCalls is the pseudo channel of records of calls.
const chCalls = "__stele_calls__"

// madeCall is one call in a record.
type madeCall struct {
	number int // its position in the body
	name   string
	input  string // hash of the input; "" if it does not count
}

// fromHere, as the name of a call, says that from its position on the body had seen an error. What the error was
// of stands in place of the input; earlier builds recorded the first error alone, as "", which is none that is seen again.
const fromHere = ""

// sawError is an error that a body has seen.
type sawError struct {
	at int    // the calls that it had made by then
	of string // see task.seesError; anotherWay is none that is seen again
}

// anotherWay stands for the error of an attempt of the body that was tried again, and took another way.
const anotherWay = "attempt"

// sawErrors are the errors that an attempt of a body has seen, each once.
type sawErrors struct {
	mu   sync.Mutex
	list []sawError
	has  map[string]bool
}

func (s *sawErrors) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.has = nil, nil
}

func (s *sawErrors) add(e sawError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[e.of] {
		return
	}
	if s.has == nil {
		s.has = map[string]bool{}
	}
	s.has[e.of] = true
	s.list = append(s.list, e)
}

// by are the errors that a call at position n is behind. Each record has them, as those before it may not be stored. Of
// more than mostErrors only the first place is kept: the body is then free from there on.
func (s *sawErrors) by(n int) []sawError {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := 0
	for end < len(s.list) && s.list[end].at <= n {
		end++
	}
	if end > mostErrors {
		return []sawError{{at: s.list[0].at}}
	}
	return s.list[:end:end]
}

const mostErrors = 16

// again reports whether an error that a record has was seen again.
func (s *sawErrors) again(e sawError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.of != anotherWay && s.has[e.of]
}

// callsMade are the calls that tasks of a superstep have made, in this and in earlier runs.
type callsMade struct {
	at map[string][]madeCall // by path; several where bodies took different ways
	// most is the last recorded call of each body, and errors those that it had seen, by pathOfBody.
	most   map[string]madeCall
	errors map[string]map[string]sawError // each where it was seen first
	// updated: a Command has changed the state that the superstep starts from, and inputs with it.
	updated bool
}

func noCalls() callsMade {
	return callsMade{at: map[string][]madeCall{}, most: map[string]madeCall{}, errors: map[string]map[string]sawError{}}
}

// takeCalls reads the records of calls from pending writes, and returns the others.
func takeCalls(pending []answer.Write) (rest []answer.Write, made callsMade) {
	made = noCalls()
	rest = pending[:0]
	for _, w := range pending {
		if w.Channel == chCalls {
			made.add(w.Path, callsOf(w.Value))
		} else {
			rest = append(rest, w)
		}
	}
	return rest, made
}

// add adds the calls of a record that is stored with a call at path.
func (m *callsMade) add(path string, calls []madeCall) {
	body, _, ok := pathOfBody(path)
	if !ok {
		return
	}
	for _, c := range calls {
		if c.name == fromHere {
			if m.errors[body] == nil {
				m.errors[body] = map[string]sawError{}
			}
			if first, known := m.errors[body][c.input]; !known || c.number < first.at {
				m.errors[body][c.input] = sawError{c.number, c.input}
			}
			continue
		}
		at := body + callSuffix(c.number)
		m.at[at] = append(m.at[at], c)
		if last, known := m.most[body]; !known || c.number > last.number {
			m.most[body] = c
		}
	}
}

// forget forgets the calls of the superstep that ended.
func (m *callsMade) forget() {
	clear(m.at)
	clear(m.most)
	clear(m.errors)
	m.updated = false
}

// check reports whether a body may make the call t where it makes it. known: t is recorded there.
func (m *callsMade) check(t *task) (known bool, err error) {
	before := m.at[t.pathStr]
	if len(before) == 0 {
		return false, nil
	}
	e := &CallMismatchError{Node: t.caller.name, Position: t.number + 1, Call: t.name, Before: before[len(before)-1].name}
	for _, c := range before {
		switch {
		case c.name != t.name:
		case m.updated || c.input == t.call.hash || c.input == "" || t.call.hash == "":
			return true, nil
		default:
			e.Before = c.name
		}
	}
	if body, n, _ := pathOfBody(t.pathStr); m.isFree(body, n, &t.caller.saw) {
		return false, nil
	}
	return false, e
}

// isFree reports whether a body may make another call at position n: before, it saw an error there that it has
// not seen now.
func (m *callsMade) isFree(body string, n int, saw *sawErrors) bool {
	for _, e := range m.errors[body] {
		if n >= e.at && !saw.again(e) {
			return true
		}
	}
	return false
}

// checkEnd reports whether the body of t, which ended, has made all calls that are recorded.
func (m *callsMade) checkEnd(t *task) error {
	if len(m.most) == 0 {
		return nil
	}
	body := callPath(t.where(), 0).String()
	body = body[:len(body)-len(callSuffix(0))]
	last, ok := m.most[body]
	if !ok || int64(last.number) < t.calls.Load() {
		return nil
	}
	for _, e := range m.errors[body] { // a body that ends sooner than it did behind an error does nothing twice
		if last.number >= e.at {
			return nil
		}
	}
	return &CallMismatchError{Node: t.name, Position: last.number + 1, Before: last.name}
}

// firstOf is the first recorded call of the body of t; "" if none is recorded.
func (m *callsMade) firstOf(t *task) string {
	if len(m.most) == 0 {
		return ""
	}
	first := m.at[callPath(t.where(), 0).String()]
	if len(first) == 0 {
		return ""
	}
	return first[len(first)-1].name
}

// mayRun reports whether the task that runs this graph inside has run it there before, where something is stored: saved is
// not that of another graph, also where the body saw an error before: it would go on from what the other stored. Graphs
// without a name, or of one name, are told apart by their order alone. A node that is a graph is known by its own
// name, and so is a history that outlives its superstep.
func (r *runConfig) mayRun(saved *saver.Tuple) error {
	if !r.nested() || r.policy.langGraph || r.saver == nil {
		return nil
	}
	t, n := r.parent.task, r.parent.task.node
	e := &CallMismatchError{Node: t.name, Position: r.nth + 1, Call: r.g.opts.Name, Graph: true}
	switch {
	case n != nil && n.IsGraph:
	case saved == nil || saved.Note == nil || r.g.name == "" || r.g.opts.Checkpointing == Stable:
		return nil
	default:
		if e.Before = saved.Note.Graph; e.Before == "" || e.Before == r.g.name {
			return nil
		}
	}
	step := r.parent.step.Get()
	return step.ask(request{kind: reqInside, task: t, inside: e, stored: make(chan error, 1)})
}

// mayRunInside returns what is wrong with a graph that t runs. The node of t may be a graph that was a body: it does
// not make the calls of that.
func (l *loop) mayRunInside(t *task, e *CallMismatchError) error {
	if e.Before == "" {
		if e.Before, e.Graph = l.pos.calls.firstOf(t), false; e.Before == "" {
			return nil
		}
	}
	return e
}

// callSuffix ends the stored path of the n-th call of a body.
func callSuffix(n int) string {
	var b strings.Builder
	b.WriteString(", ")
	writePadded(&b, n)
	b.WriteString(", ")
	writePadded(&b, 1)
	return b.String()
}

// pathOfBody splits the stored path of a call into what it shares with the other calls of the body, and
// its position. ok is false for the path of another task.
func pathOfBody(path string) (body string, n int, ok bool) {
	cut := len(path) - len(callSuffix(0))
	if cut < 0 || !strings.HasPrefix(path, "~"+push+", ~") {
		return "", 0, false
	}
	digits, _, _ := strings.Cut(path[cut+2:], ",")
	n, err := strconv.Atoi(digits)
	return path[:cut], n, err == nil && callSuffix(n) == path[cut:]
}

// callsOf reads the value of a record. What another program stored in its place counts as no record.
func callsOf(v any) (calls []madeCall) {
	list, _ := v.([]any)
	for _, x := range list {
		call, _ := x.([]any)
		if len(call) != 3 {
			continue
		}
		n, isNumber := call[0].(int64)
		name, isName := call[1].(string)
		if hash, isHash := call[2].(string); isNumber && isName && isHash && n >= 0 && n < 1e9 {
			calls = append(calls, madeCall{int(n), name, hash})
		}
	}
	return calls
}

// inputHash tells the inputs of calls apart; it is "" for one that cannot be stored. A value and what
// becomes of it in a store have the same hash.
func inputHash(input any) (hash string) {
	_ = guard(func() error { // a marshaler of the program
		codec := serde.Default()
		typed, err := codec.Encode(input)
		if err != nil {
			return err
		}
		read, err := codec.Decode(typed)
		if err != nil {
			return err
		}
		if typed, err = codec.Encode(read); err != nil {
			return err
		}
		sum := xxh3.Hash128(append(typed.Data, typed.Kind...)).Bytes()
		hash = hex.EncodeToString(sum[:])
		return nil
	})
	return hash
}

// recordsCalls reports whether the run keeps records of calls.
func (r *runConfig) recordsCalls() bool { return r.saver != nil && !r.policy.langGraph }

// recordOf is the record to store with the call t: of t, and of the calls before it that no record has yet.
func (p *position) recordOf(t *task) write {
	calls := []madeCall{{t.number, t.name, t.call.hash}}
	without := t.caller.unrecorded
	for len(without) > 0 && without[0].number <= t.number {
		if x := without[0]; x.number < t.number { // its input counts once it ends
			calls = append(calls, madeCall{number: x.number, name: x.name})
		}
		without = without[1:]
	}
	t.caller.unrecorded = without
	for _, e := range t.caller.saw.by(t.number) {
		calls = append(calls, madeCall{number: e.at, name: fromHere, input: e.of})
	}
	stored := make([]any, len(calls))
	for i, c := range calls {
		stored[i] = []any{int64(c.number), c.name, c.input}
	}
	return write{chCalls, stored}
}

// timesOf is what the record of a call has for Steps: how often it was tried, 0 if it has not ended, when it began, and how
// long it took, in microseconds. Being of four elements, it is no call to releases that do not know it.
func (p *position) timesOf(number, tries int, took time.Duration) []any {
	return []any{int64(number), int64(tries), p.run.env().Now().Add(-took).UnixMicro(), took.Microseconds()}
}

// recordCall stores the record of a call that has not ended, and of the calls around it. now: also under
// Exit, because something outside may know of the call.
func (l *loop) recordCall(t *task, now bool) error {
	for ; l.run.recordsCalls() && t != nil && t.call != nil; t = t.caller {
		id, err := uuid5(t.id, chCalls)
		if err != nil {
			return err
		}
		if !t.recorded {
			t.recorded, t.record = true, l.pos.recordOf(t)
			t.record.value = append(t.record.value.([]any), l.pos.timesOf(t.number, 0, 0))
			if err := l.putWrites(t, id, []write{t.record}); err != nil {
				return err
			}
		}
		if now && l.run.exits() && t.record.value != nil {
			kept := answer.New(id, t.pathStr, t.record.channel, t.record.value)
			if err := l.submitKept(nil, id, []answer.Write{kept}); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordAsked stores for Steps which function asks, if the call t has no record. It is no record of a call: a body that
// was changed may ask elsewhere.
func (l *loop) recordAsked(t *task) error {
	if t.call == nil || t.recorded || !l.run.recordsCalls() {
		return nil
	}
	return l.recordWait(t, "asked", map[string]any{"asked": t.name, "when": l.run.now().UnixMicro()})
}

// CallMismatchError: a body that runs again does not make the calls that it made before, because it was
// changed, or depends on something that differs from run to run. It matches ErrCallMismatch. Nothing was
// run at or behind that position, the thread is as it was, and a graph with the former body can go on.
type CallMismatchError struct {
	Node     string // whose body it is
	Position int    // of the call in the body, from 1
	Call     string // what the body calls now; "" if it ended without that call
	Before   string // what it called there before; the same name if the input differs
	Child    bool   // what is called is a Child, by its graph
	Graph    bool   // what is called is a graph inside, by its name
}

// Error names node, position and both calls.
func (e *CallMismatchError) Error() string {
	what, of := "call", ""
	if e.Child {
		what, of = "child", "of graph "
	} else if e.Graph {
		what = "graph inside"
	}
	s := fmt.Sprintf("node %q: %v: %s %d ", e.Node, ErrCallMismatch, what, e.Position)
	switch e.Call {
	case "":
		return s + fmt.Sprintf("was %s%q, and is not made any more", of, e.Before)
	case e.Before:
		if e.Child {
			return s + fmt.Sprintf("of graph %q has another input", e.Call)
		}
		return s + fmt.Sprintf("of %q has another input; TaskOptions.IgnoreInput allows that", e.Call)
	}
	return s + fmt.Sprintf("is now %s%q, before it was %s%q", of, e.Call, of, e.Before)
}

// Is makes every CallMismatchError match ErrCallMismatch.
func (e *CallMismatchError) Is(target error) bool { return target == ErrCallMismatch }
