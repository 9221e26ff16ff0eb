package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pyrepr"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// Review is the options of AskPerson.
type Review struct {
	// Tools are the tools whose calls a person decides, by name. Other calls run unasked.
	Tools map[string]Gate
	// Prefix begins the description of a call that its Gate does not describe; empty is "Tool
	// execution requires approval".
	Prefix string
	// Notice is put before the answer to a call that a person edited, so that the model does not
	// try the first one again. Empty is LangChain's text.
	Notice string
	// NoNotice leaves the answer as it is.
	NoNotice bool
	// PerCall asks one question about each call, when it starts, in place of one about all calls of a
	// message: LangChain's interrupt_mode "per_call". See Approval. List AskPerson before middleware
	// that tries tools again or answers their errors. Middleware listed before AskPerson runs again, up
	// to the question, when the answer comes.
	PerCall bool
}

// Gate says how a person decides calls of a tool. The zero Gate allows every decision.
type Gate struct {
	// Decisions are those that are allowed; nil allows all, and a list of none is refused.
	Decisions []DecisionType
	// Describe describes a call to the person. Nil shows its name and arguments.
	Describe func(ctx context.Context, call message.ToolCall, state map[string]any) (string, error)
	// When says which calls need a decision; nil is all. It is called again on the answer, and must
	// say the same then. It is called again, too, each time that a call starts which it let pass, as a
	// WrapTool may have changed the call.
	When func(ctx context.Context, call message.ToolCall, state map[string]any) (bool, error)
}

// DecisionType is the kind of a Decision.
type DecisionType string

// The decisions.
const (
	Approve DecisionType = "approve" // the call runs
	Edit    DecisionType = "edit"    // another call runs in its place
	Reject  DecisionType = "reject"  // it does not run, and the model is told so
	Respond DecisionType = "respond" // it does not run; the person answers in its place
)

var allDecisions = []DecisionType{Approve, Edit, Reject, Respond}

// ReviewRequest is the question of AskPerson, in LangChain's form. Of an interrupt's value
// channel.Convert[ReviewRequest] makes one.
type ReviewRequest struct {
	Actions []ActionRequest `json:"action_requests"`
	Configs []ReviewConfig  `json:"review_configs"`
}

// ActionRequest is a call that a person decides.
type ActionRequest struct {
	Name        string         `json:"name"`
	Args        map[string]any `json:"args"`
	Description string         `json:"description"`
}

// ReviewConfig says which decisions are allowed for the call at the same place of the list.
type ReviewConfig struct {
	Name      string         `json:"action_name"`
	Decisions []DecisionType `json:"allowed_decisions"`
}

// ReviewAnswer is the answer to a ReviewRequest: a decision for each call, in their order. Resume with
// it: pregel.Command{Resume: ReviewAnswer{…}}.
type ReviewAnswer struct {
	Decisions []Decision `json:"decisions"`
}

// Decide makes the Command that answers a question of AskPerson: decide is called for each call
// that the question is about. The error is a *channel.TypeError if it is another question.
func Decide(question pregel.Interrupt, decide func(ActionRequest) Decision) (pregel.Command, error) {
	request, err := channel.Convert[ReviewRequest](question.Value)
	if err != nil {
		return pregel.Command{}, err
	}
	answer := ReviewAnswer{Decisions: make([]Decision, len(request.Actions))}
	for i, a := range request.Actions {
		answer.Decisions[i] = decide(a)
	}
	return pregel.Command{Resume: map[string]any{question.ID: answer}}, nil
}

// Decision is a person's decision about a call.
type Decision struct {
	Type DecisionType `json:"type"`
	// Message is, for Reject, why; for Respond, the answer.
	Message string `json:"message,omitempty"`
	// Edited is, for Edit, the call that runs.
	Edited *Action `json:"edited_action,omitempty"`
}

// Action is a tool call without its id.
type Action struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// ErrDecision: an answer does not decide the calls that AskPerson asked about. It is within a
// *pregel.AnswerError: the run fails, nothing runs, and the question waits for another answer.
var ErrDecision = errors.New("unusable decision")

const editNotice = "Note: a human reviewer replaced this tool call before it ran. The call recorded in " +
	"your message is the one you produced, not the one that executed. This was " +
	"intentional and authorized. Do not re-issue your original call."

const keyEdited = "hitl_edited_tool_calls"

// AskPerson is a Middleware that asks a person before tools run: LangChain's HumanInTheLoopMiddleware.
// After each answer of the model it asks one question about all calls that need a decision, an
// interrupt whose value is a ReviewRequest, and waits for a ReviewAnswer. The graph needs a saver. A
// call that was edited is stored as the model made it. If a call needs a decision and has none when it
// starts, because it was changed or came another way, a question about it is asked then. Of several
// AskPerson, each under a Name of its own, each asks, and all have to let a call run; one that asks
// after an edit asks about the edited call. A WrapTool may change the arguments of a call that was
// approved, but not its tool. A Command that answers and changes a call by its Update decides the changed call.
func AskPerson(o Review) Middleware {
	h := &human{o}
	if h.Prefix == "" {
		h.Prefix = "Tool execution requires approval"
	}
	if h.Notice == "" {
		h.Notice = editNotice
	}
	m := Middleware{
		Name:       "HumanInTheLoopMiddleware",
		maker:      "AskPerson",
		State:      []graph.Field{graph.Key(keyEdited, channel.LastValue[map[string]any]()), passedField()},
		AfterModel: h.afterModel,
		WrapTool:   h.wrapTool,
		about:      slices.Sorted(maps.Keys(o.Tools)),
		gate:       h,
	}
	if h.PerCall {
		m.AfterModel = func(context.Context, map[string]any) (any, error) { return nil, nil }
		m.WrapTool = h.wrapEach
	}
	for _, name := range m.about {
		if list := o.Tools[name].Decisions; list != nil && len(list) == 0 {
			m.err = fmt.Errorf("%w: tool %q: no decision is allowed", ErrOptions, name)
		}
		for _, d := range o.Tools[name].Decisions {
			if !slices.Contains(allDecisions, d) {
				m.err = fmt.Errorf("%w: tool %q: there is no decision %q", ErrOptions, name, d)
			}
		}
	}
	return m
}

type human struct{ Review }

// gated are the calls that need a decision, by their place in the list.
func (h *human) gated(ctx context.Context, calls []message.ToolCall, state map[string]any) (places []int, q ReviewRequest, err error) {
	for i, c := range calls {
		gate, needed, err := h.needs(ctx, c, state)
		if err != nil {
			return nil, q, err
		}
		if !needed {
			continue
		}
		args, text, err := h.describe(ctx, gate, c, state)
		if err != nil {
			return nil, q, err
		}
		places = append(places, i)
		q.Actions = append(q.Actions, ActionRequest{c.Name, args, text})
		q.Configs = append(q.Configs, ReviewConfig{c.Name, gate.decisions()})
	}
	return places, q, nil
}

// needs reports whether a call needs a decision, by the gate of its tool.
func (h *human) needs(ctx context.Context, c message.ToolCall, state map[string]any) (gate Gate, needed bool, err error) {
	gate, needed = h.Tools[c.Name]
	if needed && gate.When != nil {
		needed, err = gate.When(ctx, c, state)
	}
	return gate, needed, err
}

// describe returns the arguments and the text that a person is shown of a call.
func (h *human) describe(ctx context.Context, gate Gate, c message.ToolCall, state map[string]any) (args map[string]any, text string, err error) {
	if args = c.Args; args == nil {
		args = map[string]any{}
	}
	if gate.Describe != nil {
		text, err = gate.Describe(ctx, c, state)
		return args, text, err
	}
	return args, fmt.Sprintf("%s\n\nTool: %s\nArgs: %s", h.Prefix, c.Name, pyrepr.String(args)), nil
}

func (g Gate) decisions() []DecisionType {
	if g.Decisions == nil {
		return allDecisions
	}
	return g.Decisions
}

func (h *human) afterModel(ctx context.Context, state map[string]any) (any, error) {
	asked, answers, err := lastCalls(state)
	if err != nil || asked == nil || len(asked.ToolCalls) == 0 || jumpsElsewhere(state) {
		return nil, err
	}
	gate := middlewareOf(ctx)
	var made, all []message.ToolCall // that this gate has not decided: as the model made them, and as they stand
	edited := map[string]any{}       // the edits that stand
	for _, c := range waiting(asked, answers) {
		before, ok, err := decided(state, asked, c, gate)
		if err != nil {
			return nil, err
		}
		if before.Type == Edit {
			edited[c.ID] = map[string]any{"name": before.Edited.Name, "args": before.Edited.Args}
		}
		if !ok {
			made = append(made, c)
			c.Name, c.Args = before.Edited.Name, before.Edited.Args
			all = append(all, c)
		}
	}
	places, q, err := h.gated(ctx, all, state)
	if err != nil {
		return nil, err
	}
	if len(places) == 0 {
		if old, _ := state[keyEdited].(map[string]any); len(old) > len(edited) {
			return map[string]any{keyEdited: edited}, nil
		}
		return nil, nil
	}
	var notes []string
	pass := func(gate string, call message.ToolCall, as Action) error {
		n, err := personNote(gate, asked, call, as)
		notes = append(notes, n)
		return err
	}
	calls := make([]message.ToolCall, len(places))
	for i, place := range places {
		calls[i] = all[place]
	}
	answer, err := q.ask(ctx, calls)
	if err != nil {
		return nil, err
	}
	messages := []message.Message{*asked}
	for i, d := range answer.Decisions {
		as := Action{calls[i].Name, calls[i].Args}
		switch d.Type {
		case Reject, Respond:
			messages = append(messages, d.answer(made[places[i]]))
			delete(edited, calls[i].ID)
			continue
		case Edit:
			as = d.Edited.filled()
			edited[calls[i].ID] = map[string]any{"name": as.Name, "args": as.Args}
			if err := pass(anyGate, made[places[i]], as); err != nil {
				return nil, err
			}
		}
		if err := pass(gate, made[places[i]], as); err != nil {
			return nil, err
		}
	}
	return withNotes(pregel.Pairs{{Key: KeyMessages, Value: messages}, {Key: keyEdited, Value: edited}}, state, asked, notes), nil
}

// answerForm is for who answers without the types of this package.
const answerForm = `an answer is {"decisions": [{"type": "approve"}]}, with one decision for each call, in their order`

// ask asks q about calls. The answer fits them.
func (q ReviewRequest) ask(ctx context.Context, calls []message.ToolCall) (a ReviewAnswer, err error) {
	_, err = pregel.Ask(ctx, q, pregel.AskOptions{Check: func(answer any) (err error) {
		var mistyped *channel.TypeError
		if a, err = channel.Convert[ReviewAnswer](answer); errors.As(err, &mistyped) {
			return fmt.Errorf("%w: %s; %s", ErrDecision, mistyped.Plain(), answerForm)
		}
		return q.check(calls, a)
	}})
	return a, err
}

// check returns an error if an answer does not fit the question about calls.
func (q ReviewRequest) check(calls []message.ToolCall, a ReviewAnswer) error {
	if len(a.Decisions) != len(calls) {
		return fmt.Errorf("%w: %d decisions for %d calls; %s", ErrDecision, len(a.Decisions), len(calls), answerForm)
	}
	for i, d := range a.Decisions {
		call, allowed := calls[i], q.Configs[i].Decisions
		switch {
		case !slices.Contains(allowed, d.Type):
			return fmt.Errorf("%w: %q is not among %q for a call of %q", ErrDecision, d.Type, allowed, call.Name)
		case d.Type == Edit && (d.Edited == nil || d.Edited.Name == ""):
			return editWithout(call.Name, d.Edited)
		case d.Type == Edit && call.ID == "":
			return fmt.Errorf("%w: an edit of a call of %q that has no id", ErrDecision, call.Name)
		}
	}
	return nil
}

// editWithout is the error of an edit that does not name its call.
func editWithout(call string, edited *Action) error {
	field := "edited_action"
	if edited != nil {
		field += ".name"
	}
	return fmt.Errorf(`%w: the edit of a call of %q has no %s; it is {"type": "edit", "edited_action": {"name": %q, "args": {…}}}`, ErrDecision, call, field, call)
}

// answer is what the model gets in place of the tool's answer, marked as a person's.
func (d Decision) answer(call message.ToolCall) message.Message {
	var m message.Message
	switch {
	case d.Type == Respond:
		m = message.ToolResult(call, d.Message)
	case d.Message == "":
		m = failed(call, fmt.Sprintf("User rejected the tool call for `%s` with id %s. The tool was not executed. Do not retry this tool call unless the user explicitly requests it.", call.Name, call.ID))
	default:
		m = failed(call, fmt.Sprintf("User rejected the tool call for `%s` with reason: %s", call.Name, d.Message))
	}
	return m.Notice("hitl_interrupt_decision", map[string]any{"decision": string(d.Type)})
}

// decided returns the decision that a gate noted for a call of the newest AI message: Edit if a person
// edited it, otherwise Approve. ok is false if that gate did not decide, or if the call was changed
// since.
func decided(state map[string]any, asked *message.Message, call message.ToolCall, gate string) (decision Decision, ok bool, err error) {
	decision = Decision{Type: Approve, Edited: &Action{call.Name, call.Args}}
	if edited, _ := state[keyEdited].(map[string]any); edited[call.ID] != nil && call.ID != "" {
		action, err := channel.Convert[Action](edited[call.ID])
		if err != nil {
			return decision, false, fmt.Errorf("edited call: %w", err)
		}
		n, err := personNote(anyGate, asked, call, action)
		if err != nil {
			return decision, false, err
		}
		if hasNote(state, n) {
			decision = Decision{Type: Edit, Edited: &action}
		}
	}
	n, err := personNote(gate, asked, call, *decision.Edited)
	return decision, err == nil && hasNote(state, n), err
}

// anyGate is the gate in the note of an edit, which is for all gates: each decides about the edited
// call.
const anyGate = ""

// personNote notes that a gate, by its name, lets a call run as an action. Another AskPerson has to let it
// run too.
func personNote(gate string, asked *message.Message, call message.ToolCall, as Action) (string, error) {
	return note("person", asked, gate, call.ID, call.Name, Action{Args: call.Args}.filled().Args, as.Name, as.filled().Args)
}

// wrapTool runs the call that a person made of one.
func (h *human) wrapTool(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
	d := doorOf(ctx)
	if d == nil {
		return next(ctx, r)
	}
	decision, ok, err := decided(d.state, d.asked, d.call, middlewareOf(ctx))
	if err != nil {
		return nil, err
	}
	if ok && decision.Type == Edit {
		return h.instead(ctx, r, next, *decision.Edited)
	}
	return next(ctx, r)
}

// notes implements gate.
func (h *human) notes(name string, d *door) ([]string, error) {
	decision, _, err := decided(d.state, d.asked, d.call, name)
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, gate := range []string{name, anyGate} {
		n, err := personNote(gate, d.asked, d.call, *decision.Edited)
		if err != nil {
			return nil, err
		}
		notes = append(notes, n)
	}
	return notes, nil
}

// pass implements gate: if a call needs a decision and has none, it asks before the call runs.
func (h *human) pass(ctx context.Context, d *door, r tool.Request, next tool.Runner) (any, error) {
	if !h.PerCall {
		decision, ok, err := decided(d.state, d.asked, d.call, middlewareOf(ctx))
		if err != nil {
			return nil, err
		}
		if ok && decision.Edited.Name == r.Name {
			return next(ctx, r)
		}
	}
	key := decidedKey{middlewareOf(ctx), r.Name}
	d.mu.Lock()
	decision, ok := d.decided[key]
	d.mu.Unlock()
	if !ok {
		gate, needed, err := h.needs(ctx, r.ToolCall, d.state)
		if err != nil {
			return nil, err
		}
		if !needed {
			return next(ctx, r)
		}
		if decision, err = h.ask(ctx, gate, d.state, r); err != nil {
			return nil, err
		}
		d.decide(key, decision)
		if decision.Type == Edit && decision.Edited.Name != r.Name { // it comes here again, as a call of that tool
			d.decide(decidedKey{key.gate, decision.Edited.Name}, Decision{Type: Approve})
		}
	}
	return h.obey(ctx, r, next, decision)
}

// obey carries out a person's decision about a call.
func (h *human) obey(ctx context.Context, r tool.Request, next tool.Runner, decision Decision) (any, error) {
	switch decision.Type {
	case Approve:
		return next(ctx, r)
	case Edit:
		return h.instead(ctx, r, next, decision.Edited.filled())
	}
	return decision.answer(r.ToolCall), nil
}

func (d *door) decide(key decidedKey, decision Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decided[key] = decision
}

// ask asks about one call, in the form of the Review.
func (h *human) ask(ctx context.Context, gate Gate, state map[string]any, r tool.Request) (Decision, error) {
	args, text, err := h.describe(ctx, gate, r.ToolCall, state)
	if err != nil {
		return Decision{}, err
	}
	if h.PerCall {
		return pregel.AskFor[Decision](ctx, Approval{"tool_approval", r.ID, r.Name, args, text}, pregel.AskOptions{
			ResponseSchema: gate.schema(r),
			Check:          func(answer any) error { return gate.check(r, answer) },
		})
	}
	q := ReviewRequest{[]ActionRequest{{r.Name, args, text}}, []ReviewConfig{{r.Name, gate.decisions()}}}
	answer, err := q.ask(ctx, []message.ToolCall{r.ToolCall})
	if err != nil {
		return Decision{}, err
	}
	return answer.Decisions[0], nil
}

// instead runs the call to which a person changed one, and tells the model so.
func (h *human) instead(ctx context.Context, r tool.Request, next tool.Runner, action Action) (any, error) {
	r.Name, r.Args = action.Name, action.Args
	out, err := next(ctx, r)
	if err != nil || h.NoNotice {
		return out, err
	}
	var args bytes.Buffer
	enc := json.NewEncoder(&args)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(action.Args); err != nil {
		return nil, fmt.Errorf("edited call: %w", err)
	}
	return notice(out, r.ID, fmt.Sprintf("%s Executed instead: %s with arguments %s.", h.Notice, action.Name, spaced(bytes.TrimSpace(args.Bytes()))))
}

// spaced is a JSON text with the spaces that Python puts into it.
func spaced(text []byte) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, c := range text {
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// notice puts a text before the answer to a call.
func notice(answer any, id, text string) (any, error) {
	switch x := answer.(type) {
	case message.Message:
		if x.Type != message.TypeTool || x.ToolCallID != id {
			return x, nil
		}
		if strings.Contains(x.Text(), text) {
			return x, nil
		}
		if x.Blocks != nil {
			if len(x.Blocks) > 0 {
				text += "\n\nTool response:"
			}
			var first any = message.TextBlock(text)
			if len(x.Blocks) > 0 && !slices.ContainsFunc(x.Blocks, func(b any) bool { _, ok := b.(string); return !ok }) {
				first = text // providers refuse lists of both
			}
			x.Blocks = slices.Concat([]any{first}, x.Blocks)
		} else if x.Content != "" {
			x.Content = text + "\n\nTool response:\n" + x.Content
		} else {
			x.Content = text
		}
		return x, nil
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			var err error
			if out[i], err = notice(e, id, text); err != nil {
				return nil, err
			}
		}
		return out, nil
	case pregel.Command:
		update, ok := pregel.PairsOf(x.Update)
		if !ok {
			return x, nil
		}
		update = slices.Clone(update)
		for i, p := range update {
			if p.Key != KeyMessages {
				continue
			}
			list, err := message.FromList(p.Value)
			if err != nil {
				return nil, err
			}
			list = slices.Clone(list)
			for j, m := range list {
				named, err := notice(m, id, text)
				if err != nil {
					return nil, err
				}
				list[j] = named.(message.Message)
			}
			update[i].Value = list
		}
		x.Update = update
		return x, nil
	}
	return answer, nil
}
