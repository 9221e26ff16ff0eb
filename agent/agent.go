package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// Options are options of an agent. The zero value is an agent without tools.
type Options struct {
	// Name is the name of the agent: that of its graph, and of the messages of its model. Events
	// and checkpoints have it in their metadata, as "lc_agent_name", which tells whose words they
	// are where agents run inside one another.
	Name string
	// System is the system prompt. The model gets it before the messages; it is not stored.
	System string
	Tools  []tool.Tool
	// Errors says what an error of a tool becomes. Nil is tool.AnswerInvalid.
	Errors tool.ErrorPolicy
	// Response is the form of the answer; nil is a message.
	Response *Response
	// State are keys of the state beside those of the agent. They are part of its input and its
	// result.
	State []graph.Field
	// Middleware are called in this order; the first is the outermost.
	Middleware []Middleware
	// Defaults are options of all nodes, as those of graph.Builder.Defaults: Timeout bounds each
	// call of the model and of a tool, Retry tries it again.
	Defaults graph.NodeOptions
	// Graph are the options of the graph. Its Name is Options.Name, unless that is empty.
	Graph graph.Options
}

// The keys of an agent's state.
const (
	KeyMessages = "messages"            // a message.List
	KeyResponse = "structured_response" // the structured answer; see Response
	KeyJump     = "jump_to"             // a Jump; see Middleware
)

// The nodes of an agent. Those of middleware have the names "<middleware>.before_agent",
// "<middleware>.before_model", "<middleware>.after_model" and "<middleware>.after_agent".
const (
	NodeModel  = "model"
	NodeTools  = "tools"
	NodeDirect = "direct" // of agents with AfterAgent hooks: decides, behind calls that ran together, whether the agent ends
)

// DefaultRecursionLimit is the number of supersteps that LangChain gives an agent. Set it in
// pregel.RunOptions if a smaller bound is wanted: an agent whose model never stops calling tools
// ends there, with a *pregel.RecursionError.
const DefaultRecursionLimit = 9999

// ErrOptions: an agent cannot be made of these options.
var ErrOptions = errors.New("unusable agent options")

// ErrUnknownTool: a Middleware gave the model a tool that the agent does not have, or the model of an
// agent without tools called one.
var ErrUnknownTool = errors.New("the agent does not have this tool")

// Say returns the input of a run with the text of a person.
func Say(text string) map[string]any {
	return map[string]any{KeyMessages: message.Human(text)}
}

// Messages are the messages in a state: that which a hook gets, that of a snapshot, or the result
// of a run. A state without them has none.
func Messages(state map[string]any) ([]message.Message, error) {
	if state[KeyMessages] == nil {
		return nil, nil
	}
	return message.FromList(state[KeyMessages])
}

// Words is the text that a model says in an event of mode messages. It is empty for any other
// event, and for messages that no model streams, such as answers of tools.
func Words(e pregel.Event) string {
	if m, ok := e.Data.(pregel.MessageEvent); ok {
		if part, ok := m.Message.(message.Chunk); ok {
			return part.Text()
		}
	}
	return ""
}

// ReturnDirect marks a tool whose answer is the answer of the agent: if the model calls no other
// in the same message, it is not asked again. An error of it goes to the model.
func ReturnDirect(t tool.Tool) tool.Tool { return direct{t} }

type direct struct{ tool.Tool }

// Unwrap is the tool that is marked.
func (d direct) Unwrap() tool.Tool { return d.Tool }

// isDirect reports whether ReturnDirect marks a tool, or one that it wraps.
func isDirect(t tool.Tool) bool {
	for {
		if _, ok := t.(direct); ok {
			return true
		}
		wrapper, ok := t.(interface{ Unwrap() tool.Tool })
		if !ok {
			return false
		}
		t = wrapper.Unwrap()
	}
}

// agent has the options and tools that the nodes and edges of a graph use.
type agent struct {
	model  model.Model
	opts   Options
	tools  []tool.Tool
	byName map[string]tool.Tool
	defs   []tool.Definition
	wraps  bool // whether a middleware wraps tools
}

// New makes an agent. The error is ErrOptions, tool.ErrDefinition for two tools with one name, or
// a *pregel.GraphError.
func New(m model.Model, o Options) (*pregel.Graph, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: no model", ErrOptions)
	}
	a := &agent{model: m, opts: o, byName: map[string]tool.Tool{}}
	if err := a.check(); err != nil {
		return nil, err
	}
	node, err := tool.NewNode(tool.Options{Errors: a.toolErrors(), Wrap: a.wrapTool()}, a.tools...)
	if err != nil {
		return nil, err
	}
	a.defs = node.Definitions()
	for i, t := range a.tools {
		if a.opts.Response.has(a.defs[i].Name) {
			return nil, fmt.Errorf("%w: a tool and a form of the answer have the name %q", ErrOptions, a.defs[i].Name)
		}
		a.byName[a.defs[i].Name] = t
	}
	if err := a.checkNames(); err != nil {
		return nil, err
	}
	b := graph.New(a.fields()...).Defaults(o.Defaults)
	b.Input(a.shown(false)...).Output(a.shown(true)...)
	b.Node(NodeModel, a.ask)
	if a.hasTools() {
		b.Node(NodeTools, node.Run)
	}
	a.connect(b)
	metadata := map[string]any{"ls_integration": "langchain_create_agent"}
	if o.Name != "" {
		o.Graph.Name = o.Name
		metadata["lc_agent_name"] = o.Name
	}
	maps.Copy(metadata, o.Graph.Metadata)
	o.Graph.Metadata = metadata
	return b.Compile(o.Graph)
}

// check returns an error for invalid options, and collects the tools.
func (a *agent) check() error {
	if err := a.opts.Response.check(); err != nil {
		return err
	}
	names := map[string]bool{}
	for i, m := range a.opts.Middleware {
		switch {
		case m.err != nil:
			return m.err
		case m.Name == "":
			return fmt.Errorf("%w: middleware %d has no name", ErrOptions, i)
		case names[m.Name]:
			return fmt.Errorf("%w: two middleware (%s) have the name %q; give one another Name", ErrOptions, m.title(), m.Name)
		}
		names[m.Name] = true
		a.tools = append(a.tools, m.Tools...)
		a.wraps = a.wraps || m.WrapTool != nil
	}
	a.tools = append(a.tools, a.opts.Tools...)
	for i, f := range a.opts.State {
		switch f.Name {
		case KeyMessages, KeyResponse, KeyJump, "":
			return fmt.Errorf("%w: the state has a key %q of its own", ErrOptions, f.Name)
		}
		if slices.ContainsFunc(a.opts.State[:i], func(g graph.Field) bool { return g.Name == f.Name }) {
			return fmt.Errorf("%w: the state has the key %q twice", ErrOptions, f.Name)
		}
	}
	return nil
}

// checkNames finds middleware for a tool that is not there: a gate with a mistyped name would let
// all calls pass. A middleware of the program's own may run tools that only it knows.
func (a *agent) checkNames() error {
	if slices.ContainsFunc(a.opts.Middleware, func(m Middleware) bool { return m.WrapTool != nil && m.maker == "" }) {
		return nil
	}
	for _, m := range a.opts.Middleware {
		for _, name := range m.about {
			if a.byName[name] == nil {
				return fmt.Errorf("%w: %s is for a tool %q; the agent has %q", ErrOptions, m.title(), name, slices.Sorted(maps.Keys(a.byName)))
			}
		}
	}
	return nil
}

// hasTools reports whether there is a node of tools. A middleware that wraps them may run some
// that the agent does not have.
func (a *agent) hasTools() bool { return len(a.tools) > 0 || a.wraps }

// fields are the keys of the state. Of several with one name, the program's own counts, then the
// last middleware's.
func (a *agent) fields() []graph.Field {
	out := []graph.Field{
		graph.Key(KeyMessages, message.Channel(nil)),
		graph.Key(KeyJump, channel.Ephemeral[any](channel.Guarded)),
		graph.Key(KeyResponse, channel.LastValue[any]()),
	}
	out = append(out, a.opts.State...)
	own := len(out)
	for _, m := range a.opts.Middleware {
		for _, f := range m.State {
			switch i := slices.IndexFunc(out, func(g graph.Field) bool { return g.Name == f.Name }); {
			case i < 0:
				out = append(out, f)
			case i >= own:
				out[i] = f
			}
		}
	}
	return out
}

// shown are the keys of the input or the result.
func (a *agent) shown(result bool) []string {
	out := []string{KeyMessages}
	if result {
		out = append(out, KeyResponse)
	}
	for _, f := range a.opts.State {
		out = append(out, f.Name)
	}
	return out
}

// keyRepaired is the key of the ResponseMetadata of an answer that says what message.Repair did to
// the conversation before it, where a thread was stored anew.
const keyRepaired = "stele_repaired"

// ask is the node of the model. A conversation in the state that providers would refuse is stored
// repaired, with the answer, by one update: answers to calls that were not run stand where they
// belong, before the input that came in their place. See message.Rules. Of a conversation that a Send brings
// only the answer is stored.
func (a *agent) ask(ctx context.Context, input any) (any, error) {
	state, err := stateOf(input)
	if err != nil {
		return nil, err
	}
	list, err := Messages(state)
	if err != nil {
		return nil, err
	}
	repaired, notes := message.Repair(list, message.Rules{})
	r := ModelRequest{Model: a.model, Messages: repaired, Tools: slices.Clone(a.defs), Response: a.opts.Response, State: state}
	if a.opts.System != "" {
		r.System = message.System(a.opts.System)
	}
	d, err := modelDoor(ctx)
	if err != nil {
		return nil, err
	}
	res, err := a.wrapModel(d)(context.WithValue(ctx, doorKey{}, d), r)
	if err != nil {
		return nil, err
	}
	if err := a.checkAnswer(res); err != nil {
		return nil, err
	}
	messages := res.Messages
	if message.Validate(list, message.Rules{}) != nil {
		stored, err := Messages(d.state)
		if err != nil {
			return nil, err
		}
		if reflect.DeepEqual(list, stored) { // a Send can bring the model a part of it, or another
			if messages, err = message.Add(repaired, noted(messages, notes)); err != nil {
				return nil, err
			}
			messages = append([]message.Message{message.Remove(message.RemoveAllID)}, messages...)
		}
	}
	update := append(lapse(pregel.Pairs{{Key: KeyMessages, Value: messages}}, d.state), a.asks(d)...)
	if res.Response != nil || a.opts.Response != nil || d.state[KeyResponse] != nil { // an old answer must not be taken for a new one
		update = append(update, pregel.Pair{Key: KeyResponse, Value: res.Response})
	}
	out := []any{pregel.Command{Update: update}}
	for _, u := range res.Updates {
		pairs, _ := pregel.PairsOf(u)
		for _, p := range pairs {
			if j, _ := jumpOf(p.Value); p.Key == KeyJump && j == JumpTools { // the hooks behind it would take it for another's
				return nil, &JumpError{NodeModel, p.Value}
			}
		}
		out = append(out, pregel.Command{Update: u})
	}
	return out, nil
}

// modelDoor is the door of a call of the model.
func modelDoor(ctx context.Context) (*door, error) {
	input, err := pregel.ReadState(ctx)
	if err != nil {
		return nil, err
	}
	sends, own, err := pregel.Sent(ctx)
	if err != nil {
		return nil, err
	}
	d := &door{}
	for i, s := range sends {
		if s.Node == NodeModel && i != own {
			d.beside++
			if own < 0 || i < own {
				d.before++
			}
		}
	}
	d.state, err = stateOf(input)
	return d, err
}

// checkAnswer finds an answer of the model with which the agent would end without one: no message, or
// calls that nobody can run.
func (a *agent) checkAnswer(res ModelResponse) error {
	asked, _ := newestCalls(res.Messages)
	switch {
	case asked == nil:
		return fmt.Errorf("%w: no AI message came through the middleware", model.ErrNoAnswer)
	case res.Response == nil && saysNothing(asked):
		return emptyAnswer()
	case a.hasTools() || a.opts.Response.asTools():
		return nil
	case len(asked.ToolCalls) > 0:
		return fmt.Errorf("%w: the model called %q, and the agent has no tools", ErrUnknownTool, asked.ToolCalls[0].Name)
	case len(asked.InvalidToolCalls) > 0:
		return fmt.Errorf("%w: the model called %q, and the agent has no tools", ErrUnknownTool, asked.InvalidToolCalls[0].Name)
	}
	return nil
}

// saysNothing reports whether an answer has no words, no calls and nothing else but thoughts, and the provider gives no
// reason for that. Who says that there are calls, or that there is more to come, gives none.
func saysNothing(m *message.Message) bool {
	if len(m.ToolCalls)+len(m.InvalidToolCalls) > 0 || strings.TrimSpace(m.Text()) != "" {
		return false
	}
	for _, key := range []string{"finish_reason", "stop_reason", "done_reason", "status", "prompt_feedback"} {
		switch m.ResponseMetadata[key] {
		case nil, "", "tool_calls", "function_call", "tool_use", "pause_turn", "MALFORMED_FUNCTION_CALL", "in_progress", "queued":
		default:
			return false
		}
	}
	for key := range m.AdditionalKwargs { // a refusal, for one
		if key != "reasoning_content" {
			return false
		}
	}
	return !slices.ContainsFunc(m.Blocks, func(e any) bool {
		b, isBlock := e.(map[string]any)
		return isBlock && !slices.Contains([]any{"text", "thinking", "redacted_thinking", "reasoning"}, b["type"])
	})
}

func emptyAnswer() error {
	return fmt.Errorf("%w: its message is empty, and it gave no reason", model.ErrNoAnswer)
}

// stateOf is the input of a node as a map.
func stateOf(input any) (map[string]any, error) {
	state, ok := input.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the state of an agent: want an object, got %s", jsontext.Kind(input))
	}
	return state, nil
}

// noted returns the answer of a model with notes about repairs before it.
func noted(list []message.Message, notes []string) []message.Message {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, func(m message.Message) bool { return m.Type == message.TypeAI }); i >= 0 && len(notes) > 0 {
		metadata := map[string]any{keyRepaired: strings.Join(notes, "; ")}
		maps.Copy(metadata, list[i].ResponseMetadata)
		list[i].ResponseMetadata = metadata
	}
	return list
}

// named is an answer whose calls have ids that no call in the states has, and which has the id of no message in them: it would
// take the place of that. They are those of the thread and of the request, which may have a part of the conversation.
func named(answer message.Message, states ...map[string]any) (message.Message, error) {
	var list []message.Message
	there := map[string]bool{}
	for _, state := range states {
		messages, err := Messages(state)
		if err != nil {
			return answer, err
		}
		for _, m := range messages {
			if m.ID == "" || !there[m.ID] {
				list, there[m.ID] = append(list, m), true
			}
		}
	}
	if there[answer.ID] {
		answer.ID = ""
	}
	list, _ = message.Repair(list, message.Rules{})
	list, _ = message.Repair(append(slices.Clip(list), answer), message.Rules{Open: true})
	return list[len(list)-1], nil
}

// failed is the answer to a call that did not succeed.
func failed(call message.ToolCall, text string) message.Message {
	m := message.ToolResult(call, text)
	m.Status = message.StatusError
	return m
}

// call asks the model of a request, and reads its answer.
func (a *agent) call(ctx context.Context, d *door, r ModelRequest) (ModelResponse, error) {
	if !a.wraps {
		for _, t := range r.Tools {
			if a.byName[t.Name] == nil {
				return ModelResponse{}, fmt.Errorf("%w: %q", ErrUnknownTool, t.Name)
			}
		}
	}
	q := model.Request{Messages: r.Messages, Tools: r.Tools, ToolChoice: r.ToolChoice, Settings: r.Settings}
	if !r.System.IsZero() {
		q.Messages = slices.Concat([]message.Message{r.System}, q.Messages)
	}
	strategy, err := r.Response.bind(a.opts.Response, r.Model, &q)
	if err != nil {
		return ModelResponse{}, err
	}
	if text, err := a.mayAsk(d); err != nil {
		return ModelResponse{}, err
	} else if text != "" {
		return ModelResponse{Messages: []message.Message{message.AI(text)}}, nil
	}
	answer, err := model.Call(ctx, r.Model, q)
	if err != nil {
		return ModelResponse{}, err
	}
	if strategy != ByProvider && saysNothing(&answer) { // the form says what is wrong with it
		return ModelResponse{}, emptyAnswer() // inside the middleware, for those that ask again
	}
	if d.beside > 0 {
		answer.ID = ""
	}
	if answer, err = named(answer, d.state, r.State); err != nil {
		return ModelResponse{}, err
	}
	if a.opts.Name != "" {
		answer.Name = a.opts.Name
	}
	switch strategy {
	case ByProvider:
		return r.Response.parse(answer)
	case ByTool:
		return r.Response.called(ctx, answer)
	}
	return ModelResponse{Messages: []message.Message{answer}}, nil
}
