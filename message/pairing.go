package message

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/stele-go/stele/message/pyrepr"
)

// Rules say which conversations are legal. Of the zero Rules those are that every provider takes:
//
//   - Each tool call has a name, and an id that no other call of the conversation has.
//   - JSON can say its arguments: it has no NaN and no infinite number, which Python's JSON reads and writes.
//   - Behind each AI message come the answers to its calls, exactly one to each, before anything else.
//   - No answer lacks its call.
//   - No message is a Remove: LangGraph stores one that follows a removal of all.
//   - No call is a block of type "tool_use" alone, and no answer a block of type "tool_result" of a person's
//     message: Anthropic has calls and answers in them, and other providers do not see them. A tool message may
//     be one such block, of its own call.
//
// Invalid calls count, as providers are sent them too. What one provider alone asks for, such as
// the type of the first message, is the matter of the model that asks it.
//
// A thread can come to hold another conversation in many ways: the run ends between a call and its
// answer, by an error, a cancellation or new input; two parts of a program answer one call; messages
// are cut off or edited. So model.Call and model.Collect repair what they send, whatever led to it,
// and give ids to the calls of an answer. An agent stores the repaired conversation too, together with
// the model's next answer: the checkpoints before it and other branches stay as they are, and what a
// run stores before it asks the model may be illegal.
type Rules struct {
	// Open allows the calls of the last AI message to have no answers yet, if nothing but answers
	// is behind it.
	Open bool
}

// isRemoval is the Reason of a PairingError about no call.
const isRemoval = "is a removal, which is no message for a model"

// PairingError: a conversation that providers refuse; see Rules.
type PairingError struct {
	At     int    // the message
	CallID string // the call that it is about; "" if it is about none
	Reason string
}

// Error names the message, the call and the reason.
func (e *PairingError) Error() string {
	if e.Reason == isRemoval {
		return fmt.Sprintf("message %d %s", e.At, e.Reason)
	}
	return fmt.Sprintf("message %d: tool call %q %s", e.At, e.CallID, e.Reason)
}

// Validate returns nil if a conversation keeps to the rules, and else a *PairingError about the first
// message that does not.
func Validate(list []Message, r Rules) error {
	seen, open := map[string]bool{}, map[string]bool{}
	var calls []call // of the message at asked
	asked := 0
	first := func() string { return calls[slices.IndexFunc(calls, func(c call) bool { return open[c.id] })].id }
	for i, m := range list {
		if m.Type == TypeRemove {
			return &PairingError{At: i, Reason: isRemoval}
		}
		if lone := m.loneCalls(); len(lone) > 0 {
			id, _ := lone[0]["id"].(string)
			return &PairingError{i, id, "is a block alone"}
		}
		for _, id := range m.answers() {
			if m.Type == TypeHuman {
				return &PairingError{i, id, "is answered by a block of a person's message"}
			}
			if !open[id] {
				return &PairingError{i, id, "is answered here, and no call right before it waits for that"}
			}
			delete(open, id)
		}
		if m.Type == TypeTool {
			if id, stray := m.strayResult(); stray {
				return &PairingError{i, id, "is answered by a block inside the answer to another call, or beside other content"}
			}
			continue
		}
		if len(open) > 0 {
			return &PairingError{asked, first(), "has no answer right behind it"}
		}
		asked, calls = i, m.calls()
		if at := m.unsayable(); at >= 0 {
			return &PairingError{i, m.ToolCalls[at].ID, "has arguments that are no JSON"}
		}
		for _, c := range calls {
			switch {
			case c.id == "":
				return &PairingError{i, "", "has no id"}
			case c.name == "":
				return &PairingError{i, c.id, "has no name"}
			case seen[c.id]:
				return &PairingError{i, c.id, "has the id of another call"}
			}
			seen[c.id] = true
			open[c.id] = true
		}
	}
	if len(open) > 0 && !r.Open {
		return &PairingError{asked, first(), "has no answer"}
	}
	return nil
}

// Repair returns a conversation that keeps to the rules, and what had to be done for it; list itself,
// if it keeps to them. It does not change list. The same list is repaired in the same way each time.
//
// Answers are put right behind their calls; of several to one call the last counts. A call without an
// answer gets one, with StatusError, that says so. An answer without a call is left out. A call
// without an id, or with that of a call before it, gets another, and so does its answer: an answer is
// to the newest call before it that has its id. A call that is a block alone becomes one of ToolCalls too,
// or an invalid one if its arguments cannot be read; so does a call whose arguments JSON cannot say. An
// answer that is a block of a person's message becomes a tool message. A block of a tool message that would answer
// another call becomes content. The notes say nothing of answers to invalid calls,
// which say it themselves.
func Repair(list []Message, r Rules) (repaired []Message, notes []string) {
	if Validate(list, r) == nil {
		return list, nil
	}
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	type turn struct {
		Message
		calls   []call
		answers []*Message // to each call; nil: none
	}
	var turns []turn
	type place struct {
		turn     int
		calls    []int // of the turn, all with one id
		answered int
	}
	newest := map[string]*place{} // the calls with an id in the last turn that has one
	answer := func(m Message) {
		at := newest[m.ToolCallID]
		switch {
		case at == nil:
			note("left out an answer to tool call %q, which is not before it", m.ToolCallID)
			return
		case at.answered == len(at.calls):
			note("left out an answer to tool call %q, which has another", m.ToolCallID)
			at.answered--
		case at.turn < len(turns)-1:
			note("moved the answer to tool call %q behind it", m.ToolCallID)
		}
		turns[at.turn].answers[at.calls[at.answered]] = &m
		at.answered++
	}
	for _, m := range list {
		if m.Type == TypeRemove {
			note("left out the removal of message %q", m.ID)
			continue
		}
		if m.Type == TypeTool {
			if id, stray := m.strayResult(); stray {
				note("made content of the answer to tool call %q in that to tool call %q", id, m.ToolCallID)
				m = m.withoutStrayResults()
			}
			answer(m)
			continue
		}
		m, results := m.withoutResults()
		for _, result := range results {
			note("made a tool message of the answer to tool call %q in a person's message", result.ToolCallID)
			if _, stray := result.strayResult(); stray {
				result = result.withoutStrayResults()
			}
			answer(result)
		}
		if lone := m.loneCalls(); len(lone) > 0 {
			note("%d tool calls of an AI message were blocks alone", len(lone))
			m = m.withLoneCalls(lone)
		}
		if m.unsayable() >= 0 {
			note("an AI message had tool calls with arguments that are no JSON")
			m = m.withoutUnsayable()
		}
		if len(results) > 0 && len(m.Blocks) == 0 {
			continue
		}
		t := turn{Message: m, calls: m.calls()}
		t.answers = make([]*Message, len(t.calls))
		for i, c := range t.calls {
			if at := newest[c.id]; at == nil || at.turn < len(turns) {
				newest[c.id] = &place{turn: len(turns)}
			}
			newest[c.id].calls = append(newest[c.id].calls, i)
		}
		turns = append(turns, t)
	}
	used, tried := map[string]bool{}, map[string]int{}
	for i, t := range turns {
		calls := slices.Clone(t.calls)
		for j := range calls {
			c := &calls[j]
			first := c.id
			if first == "" { // not that of a message that was cut off: another run may have named its calls
				h := fnv.New64a()
				h.Write([]byte(t.ID))
				first = fmt.Sprintf("call-%x", h.Sum64())
			}
			for c.id == "" || used[c.id] {
				tried[first]++
				id := fmt.Sprintf("%s-%d", first, tried[first])
				if _, taken := newest[id]; !taken {
					c.id = id
				}
			}
			used[c.id] = true
			if c.name = cmp.Or(c.name, "unknown"); *c != t.calls[j] {
				note("tool call %q of %q is now %q of %q", t.calls[j].id, t.calls[j].name, c.id, c.name)
			}
		}
		repaired = append(repaired, t.withCalls(calls))
		for j, c := range calls {
			switch a := t.answers[j]; {
			case a != nil:
				repaired = append(repaired, a.answering(c.id))
			case !r.Open || i < len(turns)-1:
				repaired = append(repaired, c.unanswered())
				if !c.invalid {
					note("answered tool call %q of %q, which had no answer", c.id, c.name)
				}
			}
		}
	}
	return repaired, notes
}

// call is what pairing needs of a tool call.
type call struct {
	id, name string
	invalid  bool
}

// calls are all calls of an AI message, in the order of their answers.
func (m *Message) calls() []call {
	if m.Type != TypeAI {
		return nil
	}
	var out []call
	for _, c := range m.InvalidToolCalls {
		out = append(out, call{c.ID, c.Name, true})
	}
	for _, c := range m.ToolCalls {
		out = append(out, call{c.ID, c.Name, false})
	}
	return out
}

// loneCalls are the blocks of an AI message that are calls, and stand in no other place.
func (m *Message) loneCalls() (lone []Block) {
	if m.Type != TypeAI {
		return nil
	}
	calls := map[string]int{} // how many have an id
	for _, c := range m.calls() {
		calls[c.id]++
	}
	for _, e := range m.Blocks {
		id, ok := blockID(e, "tool_use", "id")
		if ok && calls[id] > 0 {
			calls[id]--
		} else if ok {
			lone = append(lone, e.(map[string]any)) //nolint:errcheck // it has a type
		}
	}
	return lone
}

// withLoneCalls is m with its lone calls among its calls; those whose arguments cannot be read are invalid.
func (m Message) withLoneCalls(lone []Block) Message {
	m.InvalidToolCalls, m.ToolCalls = slices.Clone(m.InvalidToolCalls), slices.Clone(m.ToolCalls)
	for _, b := range lone {
		id, _ := b["id"].(string)
		name, _ := b["name"].(string)
		args, ok := b["input"].(map[string]any)
		text, _ := b["partial_json"].(string)
		if text != "" && len(args) == 0 { // it was streamed
			v, _ := parseJSON(text, true) //nolint:errcheck // then it is nil
			args, ok = v.(map[string]any)
		}
		if ok {
			m.ToolCalls = append(m.ToolCalls, ToolCall{Name: name, ID: id, Args: args})
		} else {
			m.InvalidToolCalls = append(m.InvalidToolCalls, InvalidToolCall{Name: name, ID: id, Args: text})
		}
	}
	return m
}

// unsayable is the place of the first tool call whose arguments JSON cannot say; -1 if there is none.
func (m *Message) unsayable() int {
	if m.Type != TypeAI {
		return -1
	}
	return slices.IndexFunc(m.ToolCalls, func(c ToolCall) bool { return unsayable(c.Args) })
}

// unsayable reports whether a value has a number that JSON does not have.
func unsayable(v any) bool {
	switch x := v.(type) {
	case float64:
		return math.IsNaN(x) || math.IsInf(x, 0)
	case map[string]any:
		for _, e := range x {
			if unsayable(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, unsayable)
	}
	return false
}

// withoutUnsayable is m with the calls that JSON cannot say among its invalid ones. Their arguments are the
// text that Python shows.
func (m Message) withoutUnsayable() Message {
	calls := m.ToolCalls
	m.InvalidToolCalls, m.ToolCalls = slices.Clone(m.InvalidToolCalls), nil
	for _, c := range calls {
		if unsayable(c.Args) {
			m.InvalidToolCalls = append(m.InvalidToolCalls, InvalidToolCall{Name: c.Name, ID: c.ID, Args: pyrepr.String(c.Args)})
		} else {
			m.ToolCalls = append(m.ToolCalls, c)
		}
	}
	return m
}

// withCalls is m with other ids and names of its calls.
func (m Message) withCalls(calls []call) Message {
	old := m.calls()
	if slices.Equal(old, calls) {
		return m
	}
	m.InvalidToolCalls, m.ToolCalls, m.Blocks = slices.Clone(m.InvalidToolCalls), slices.Clone(m.ToolCalls), slices.Clone(m.Blocks)
	invalid := len(m.InvalidToolCalls)
	for i := range m.InvalidToolCalls {
		m.InvalidToolCalls[i].ID, m.InvalidToolCalls[i].Name = calls[i].id, calls[i].name
	}
	for i := range m.ToolCalls {
		m.ToolCalls[i].ID, m.ToolCalls[i].Name = calls[invalid+i].id, calls[invalid+i].name
	}
	now := map[string][]call{} // by the id before
	for i, c := range old {
		now[c.id] = append(now[c.id], calls[i])
	}
	for i, e := range m.Blocks {
		if id, ok := blockID(e, "tool_use", "id"); ok && len(now[id]) > 0 {
			b := maps.Clone(e.(map[string]any))
			b["id"], b["name"], m.Blocks[i] = now[id][0].id, now[id][0].name, b
			now[id] = now[id][1:]
		}
	}
	return m
}

// unanswered is the answer to a call that has none.
func (c call) unanswered() Message {
	text := fmt.Sprintf("Tool call %s with id %s has no result. It was not run, or was broken off before it ended.", c.name, c.id)
	if c.invalid {
		text = fmt.Sprintf("Tool call %s with id %s could not be executed - arguments were malformed or truncated.", c.name, c.id)
	}
	m := ToolResult(ToolCall{Name: c.name, ID: c.id}, text)
	m.Status = StatusError
	return m
}

// answers are the ids of the calls that m answers.
func (m *Message) answers() []string {
	if m.Type == TypeTool {
		return []string{m.ToolCallID}
	}
	var out []string
	if m.Type == TypeHuman {
		for _, e := range m.Blocks {
			if id, ok := blockID(e, "tool_result", "tool_use_id"); ok {
				out = append(out, id)
			}
		}
	}
	return out
}

// withoutResults is m without blocks that are results of tools, and the tool messages that stand for
// them.
func (m Message) withoutResults() (rest Message, results []Message) {
	if len(m.answers()) == 0 || m.Type == TypeTool {
		return m, nil
	}
	blocks := m.Blocks
	m.Blocks = []any{}
	for _, e := range blocks {
		if id, ok := blockID(e, "tool_result", "tool_use_id"); ok {
			result, block := ToolResult(ToolCall{ID: id}, ""), e.(map[string]any)
			result.setContent(block["content"]) // or none
			if block["is_error"] == true {
				result.Status = StatusError
			}
			results = append(results, result)
		} else {
			m.Blocks = append(m.Blocks, e)
		}
	}
	return m, results
}

// strayResult is the id of a block of a tool message that providers would read as the answer to another call, or as a
// second one.
func (m *Message) strayResult() (id string, stray bool) {
	for _, e := range m.Blocks {
		if id, ok := blockID(e, "tool_result", "tool_use_id"); ok && (id != m.ToolCallID || len(m.Blocks) > 1) {
			return id, true
		}
	}
	return "", false
}

// hasResults reports whether a block of a message is a result.
func (m *Message) hasResults() bool {
	return slices.ContainsFunc(m.Blocks, func(e any) bool { _, ok := blockID(e, "tool_result", "tool_use_id"); return ok })
}

// withoutStrayResults is a tool message with the content of its blocks that are results.
func (m Message) withoutStrayResults() Message {
	blocks := m.Blocks
	m.Blocks = []any{}
	for _, e := range blocks {
		if _, ok := blockID(e, "tool_result", "tool_use_id"); !ok {
			m.Blocks = append(m.Blocks, e)
			continue
		}
		var inner Message
		block := e.(map[string]any)        //nolint:errcheck // it has a type
		inner.setContent(block["content"]) // or none
		if inner.Content != "" {
			inner.Blocks = []any{TextBlock(inner.Content)}
		}
		if inner.hasResults() {
			inner = inner.withoutStrayResults()
		}
		m.Blocks = append(m.Blocks, inner.Blocks...)
		if block["is_error"] == true || inner.Status == StatusError {
			m.Status = StatusError
		}
	}
	return m
}

// answering is an answer as that to the call with an id.
func (m Message) answering(id string) Message {
	if m.ToolCallID == id {
		return m
	}
	m.Blocks = slices.Clone(m.Blocks)
	for i, e := range m.Blocks {
		if old, ok := blockID(e, "tool_result", "tool_use_id"); ok && old == m.ToolCallID {
			b := maps.Clone(e.(map[string]any))
			b["tool_use_id"], m.Blocks[i] = id, b
		}
	}
	m.ToolCallID = id
	return m
}

// blockID is the id in a block of a type; ok is false if it is of another.
func blockID(block any, kind, key string) (id string, ok bool) {
	b, _ := block.(map[string]any)
	id, _ = b[key].(string)
	return id, b["type"] == kind
}
