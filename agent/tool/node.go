package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// Options are options of a Node. The zero value is ready for use.
type Options struct {
	// Key is the state's key of the messages; empty is "messages".
	Key string
	// Errors says what an error of a tool becomes. Nil is AnswerInvalid.
	Errors ErrorPolicy
	// Wrap is called in place of each call; run runs it. It may call run with another
	// request, several times, or not at all, and return another answer: what run returns, or
	// a content as New has it. It runs on the goroutine of the call. An error of it is treated
	// like one of a tool.
	Wrap func(ctx context.Context, r Request, run Runner) (any, error)
}

// Request is a call that a Node is about to run.
type Request struct {
	Call
	// Tool is the tool with the name of the call; nil if there is none.
	Tool Tool
}

// Runner runs a call. It returns a message.Message, a pregel.Command, or a []any of them. An
// error of the tool for which the policy has an answer is an answer here too.
type Runner func(ctx context.Context, r Request) (any, error)

// ErrorPolicy decides what becomes of an error of a tool: a text is the answer to the model, in a
// tool message with message.StatusError, and an error ends the run. It is not asked about an
// interrupt, an answer that pregel.AskFor refuses, a panic, or the end of the context: those
// always end the node.
type ErrorPolicy func(ctx context.Context, call message.ToolCall, err error) (answer string, failure error)

// AnswerInvalid answers an *InvocationError, which a model can mend, and ends the run on others.
func AnswerInvalid(_ context.Context, _ message.ToolCall, err error) (string, error) {
	var invalid *InvocationError
	if errors.As(err, &invalid) {
		return invalid.Error(), nil
	}
	return "", err
}

// AnswerErrors answers every error with its text. It is handle_tool_errors=True of LangGraph.
func AnswerErrors(_ context.Context, _ message.ToolCall, err error) (string, error) {
	return fmt.Sprintf("Error: %v\n Please fix your mistakes.", err), nil
}

// AnswerWith answers every error with a text.
func AnswerWith(text string) ErrorPolicy {
	return func(context.Context, message.ToolCall, error) (string, error) { return text, nil }
}

// StopOnError ends the run on every error.
func StopOnError(_ context.Context, _ message.ToolCall, err error) (string, error) { return "", err }

// Node runs tools: it is LangGraph's ToolNode. Run is its function, for graph.Builder.Node.
//
// It runs the calls of the newest AI message side by side, each on a goroutine of its own, waits
// for all of them, and writes their answers in the order of the calls. If some end the run, the
// error is that of the first of them. A call of a tool that is not there is answered with the
// names of those that are, and one whose arguments cannot be read with a text that says so.
//
// A tool may ask a person with pregel.Ask. Questions are asked in the order of the calls: one
// waits until the calls before it have ended. While a question waits nothing of the node is
// stored, so when it is answered, all calls of the message run again from the start. A graph
// that sends each call to the node, with [Send], asks several questions at once and runs again
// only those that asked.
type Node struct {
	tools  []Tool
	byName map[string]Tool
	opts   Options
}

// NewNode makes a Node with tools. The error is ErrDefinition if two have one name, or one is nil.
func NewNode(o Options, tools ...Tool) (*Node, error) {
	if o.Key == "" {
		o.Key = "messages"
	}
	if o.Errors == nil {
		o.Errors = AnswerInvalid
	}
	n := &Node{tools: tools, byName: map[string]Tool{}, opts: o}
	for i, t := range tools {
		if t == nil {
			return nil, fmt.Errorf("%w: tool %d is nil", ErrDefinition, i)
		}
		name := t.Definition().Name
		if n.byName[name] != nil {
			return nil, fmt.Errorf("%w: two have the name %q", ErrDefinition, name)
		}
		n.byName[name] = t
	}
	return n, nil
}

// Definitions are those of the tools, in their order, for a model.
func (n *Node) Definitions() []Definition {
	out := make([]Definition, len(n.tools))
	for i, t := range n.tools {
		out[i] = t.Definition()
	}
	return out
}

// ErrNoMessage: a state has no messages, or none from a model.
var ErrNoMessage = errors.New("no AI message found in input")

// inputKind is the form of a node's input, and so of its output.
type inputKind int

const (
	stateInput inputKind = iota // a state with a key of messages
	listInput                   // a list of messages
	callInput                   // calls that were sent
)

// Run runs the calls of the newest AI message in a state: a map, a struct, or a list of messages;
// or the calls that Send sent, or that LangGraph stored. It implements pregel.Func.
func (n *Node) Run(ctx context.Context, input any) (any, error) {
	calls, unread, kind, err := n.calls(ctx, input)
	if err != nil {
		return nil, err
	}
	done := make([]chan struct{}, len(calls))
	for i := range done {
		done[i] = make(chan struct{})
	}
	answers, failures := make([]any, len(calls)), make([]error, len(calls))
	var running sync.WaitGroup
	for i, c := range calls {
		running.Add(1)
		go func() {
			defer running.Done()
			defer close(done[i])
			failures[i] = errGoexit // unless it comes to the next line
			answers[i], failures[i] = n.one(pregel.AskAfter(ctx, done[:i]), c, kind)
		}()
	}
	running.Wait()
	for i, err := range failures {
		if err != nil {
			return nil, fmt.Errorf("tool call %d, %q: %w", i, calls[i].Name, err)
		}
	}
	return n.combine(append(answers, unread...), kind), nil
}

var errGoexit = errors.New("the tool ended its goroutine")

// one runs a call. A panic is an error.
func (n *Node) one(ctx context.Context, c Call, kind inputKind) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &pregel.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	run := func(ctx context.Context, r Request) (any, error) { return n.run(ctx, r, kind) }
	r := Request{Call: c, Tool: n.byName[c.Name]}
	if n.opts.Wrap == nil {
		return run(ctx, r)
	}
	answer, err = n.opts.Wrap(ctx, r, run)
	if err == nil {
		answer, err = wrapped(answer, c.ToolCall)
	}
	if err != nil {
		return n.failed(ctx, c.ToolCall, err)
	}
	return answer, nil
}

// run runs the tool of a request, and makes its answer.
func (n *Node) run(ctx context.Context, r Request, kind inputKind) (any, error) {
	if r.Tool == nil {
		names := make([]string, len(n.tools))
		for i, t := range n.tools {
			names[i] = t.Definition().Name
		}
		return failure(r.ToolCall, fmt.Sprintf("Error: %s is not a valid tool, try one of [%s].", r.Name, strings.Join(names, ", "))), nil
	}
	show := func(e pregel.ToolEvent) {
		e.CallID = r.ID
		_ = pregel.EmitTool(ctx, e) // what a tool does counts, whoever sees it
	}
	show(pregel.ToolEvent{Step: pregel.ToolStarted, Name: r.Name, Input: r.Args})
	out, err := r.Tool.Call(context.WithValue(ctx, callKey{}, r.Call), r.Call)
	if err == nil {
		out, err = n.answer(out, r.ToolCall, kind)
	}
	if err != nil {
		if !leaves(ctx, err) {
			show(pregel.ToolEvent{Step: pregel.ToolFailed, Err: err.Error()})
		}
		return n.failed(ctx, r.ToolCall, err)
	}
	show(pregel.ToolEvent{Step: pregel.ToolFinished, Output: out})
	return out, nil
}

// Emit sends a part of what a tool is about to answer to whoever streams in mode tools. ctx is that of the
// tool; with another the error is ErrOutsideCall. It waits while they are far behind. The answer is what the tool
// returns, whatever was sent before.
func Emit(ctx context.Context, part any) error {
	call, ok := CallOf(ctx)
	if !ok {
		return fmt.Errorf("emit a part of an answer: %w", ErrOutsideCall)
	}
	err := pregel.EmitTool(ctx, pregel.ToolEvent{Step: pregel.ToolOutput, CallID: call.ID, Output: part})
	if errors.Is(err, pregel.ErrOutsideTask) { // the node runs without a graph, and nobody looks
		return nil
	}
	return err
}

// leaves reports whether an error ends the node whatever the policy says: the call waits, or goes on elsewhere, or the
// model cannot answer for the person.
func leaves(ctx context.Context, err error) bool {
	var interrupt *pregel.InterruptError
	var parent *pregel.ParentCommandError
	var drained *pregel.DrainedError
	var panicked *pregel.PanicError
	var refused *pregel.AnswerError
	return ctx.Err() != nil || errors.As(err, &interrupt) || errors.As(err, &parent) || errors.As(err, &drained) ||
		errors.As(err, &panicked) || errors.As(err, &refused)
}

// failed asks the policy about an error.
func (n *Node) failed(ctx context.Context, call message.ToolCall, err error) (any, error) {
	if leaves(ctx, err) {
		return nil, err
	}
	text, stop := n.opts.Errors(ctx, call, err)
	if stop != nil {
		return nil, stop
	}
	return failure(call, text), nil
}

// failure is the answer to a call that failed.
func failure(call message.ToolCall, text string) message.Message {
	m := message.ToolResult(call, text)
	m.Status = message.StatusError
	return m
}

// Send sends each call to the node with a name, as a task of its own. It is for the path of a
// conditional edge.
func Send(node string, calls []message.ToolCall) []pregel.Send {
	out := make([]pregel.Send, len(calls))
	for i, c := range calls {
		out[i] = pregel.Send{Node: node, Arg: []any{c}}
	}
	return out
}

// Sent are the calls in what Send sent to a node, also after it was stored.
func Sent(arg any) []message.ToolCall {
	if call, ok := sentWithState(arg); ok {
		return []message.ToolCall{call.ToolCall}
	}
	calls, _ := sentCalls(arg)
	return calls
}

// calls finds the calls to run, and the answers to those that cannot be read.
func (n *Node) calls(ctx context.Context, input any) (calls []Call, unread []any, kind inputKind, err error) {
	if call, ok := sentWithState(input); ok {
		return []Call{call}, nil, callInput, nil
	}
	if sent, ok := sentCalls(input); ok {
		state, err := pregel.ReadState(ctx)
		if err != nil && !errors.Is(err, pregel.ErrOutsideTask) { // the node runs without a graph
			return nil, nil, 0, err
		}
		out := make([]Call, len(sent))
		for i, c := range sent {
			out[i] = Call{ToolCall: c, State: state}
		}
		return out, nil, callInput, nil
	}
	list, isList, err := messagesOf(input, n.opts.Key)
	if err != nil {
		return nil, nil, 0, err
	}
	if kind = stateInput; isList {
		kind = listInput
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Type != message.TypeAI {
			continue
		}
		for _, c := range list[i].ToolCalls {
			calls = append(calls, Call{ToolCall: c, State: input})
		}
		for _, c := range list[i].InvalidToolCalls {
			answered := slices.ContainsFunc(list[i+1:], func(m message.Message) bool { return m.Type == message.TypeTool && m.ToolCallID == c.ID })
			if c.ID != "" && !answered {
				text := fmt.Sprintf("Tool call %s with id %s could not be executed - arguments were malformed or truncated.", cmp.Or(c.Name, "unknown"), c.ID)
				unread = append(unread, failure(message.ToolCall{Name: cmp.Or(c.Name, "unknown"), ID: c.ID}, text))
			}
		}
		return calls, unread, kind, nil
	}
	return nil, nil, 0, ErrNoMessage
}

// sentCalls are the calls that Send sent, also after they were stored.
func sentCalls(input any) ([]message.ToolCall, bool) {
	switch x := input.(type) {
	case message.ToolCall:
		return []message.ToolCall{x}, true
	case []message.ToolCall:
		return x, true
	case []any:
		if len(x) == 0 {
			return nil, false
		}
		out := make([]message.ToolCall, len(x))
		for i, e := range x {
			switch c := e.(type) {
			case message.ToolCall:
				out[i] = c
			case map[string]any:
				if c["type"] != "tool_call" || out[i].DecodeValue(c, func(int64) error { return nil }) != nil {
					return nil, false
				}
			default:
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

// sentWithState is the call that create_react_agent of LangGraph sends, together with the state.
func sentWithState(input any) (call Call, ok bool) {
	in, _ := input.(map[string]any)
	if in["__type"] != "tool_call_with_context" {
		return call, false
	}
	sent, ok := sentCalls([]any{in["tool_call"]})
	if !ok {
		return call, false
	}
	return Call{ToolCall: sent[0], State: in["state"]}, true
}

// messagesOf are the messages in a state: a list of them, or a map or struct with a key of them.
func messagesOf(state any, key string) (list []message.Message, isList bool, err error) {
	var v any
	switch x := state.(type) {
	case nil:
		return nil, false, ErrNoMessage
	case message.List, []message.Message, []any:
		v, isList = x, true
	case map[string]any:
		v = x[key]
	default:
		var ok bool
		if v, ok = fieldOf(reflect.ValueOf(state), key); !ok {
			return nil, false, fmt.Errorf("%w: %T has no %q", ErrNoMessage, state, key)
		}
	}
	list, err = message.FromList(v)
	if err == nil && len(list) == 0 {
		err = ErrNoMessage
	}
	return list, isList, err
}

// fieldOf is the field of a struct that is the key of a state.
func fieldOf(v reflect.Value, key string) (any, bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.IsExported() {
			continue
		}
		name := f.Name
		for _, tag := range []string{"json", "stele"} {
			if text, _, _ := strings.Cut(f.Tag.Get(tag), ","); text != "" {
				name = text
			}
		}
		if name != key {
			continue
		}
		if field, err := v.FieldByIndexErr(f.Index); err == nil {
			return field.Interface(), true
		}
	}
	return nil, false
}

// The names of the places where Condition goes.
const (
	toTools = "tools"
	toEnd   = "__end__"
)

// Condition is the path of a conditional edge behind a model: "tools" if the newest message has
// tool calls, also if none of them can be read, else the end. It is LangGraph's tools_condition,
// which ends on calls that cannot be read. The state has its messages under
// "messages", or is a list of them. The error is ErrNoMessage if there are none.
func Condition(_ context.Context, state any) (any, error) {
	list, _, err := messagesOf(state, "messages")
	if err != nil {
		return nil, err
	}
	if m := list[len(list)-1]; m.Type == message.TypeAI && len(m.ToolCalls)+len(m.InvalidToolCalls) > 0 {
		return toTools, nil
	}
	return toEnd, nil
}
