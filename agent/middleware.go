package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel/graph"
)

// Middleware is a set of functions around the parts of an agent. All but the Name are optional. The
// functions are called by several runs concurrently.
type Middleware struct {
	// Name names the nodes of the hooks. No two of an agent have the same.
	Name string
	// Tools are tools of the middleware, beside those of the agent.
	Tools []tool.Tool
	// State are keys of the state for the middleware. They are neither part of the input nor of
	// the result. If several middleware have a key, the last one says how it is written.
	State []graph.Field
	// BeforeAgent and AfterAgent run once in a run, BeforeModel and AfterModel around each call
	// of the model.
	BeforeAgent, BeforeModel, AfterModel, AfterAgent Hook
	// Jumps are where the hooks may jump. A jump passes over hooks that are not due: those before a
	// model that is not asked, or an agent that ends. AfterModel hooks behind one that jumps still run,
	// and the last of them that jumps counts.
	Jumps []Jump
	// WrapModel is called in place of each call of the model; next makes it. It may call next
	// with another request, several times, or not at all, and return another response. It must
	// not change what lists and maps of the request hold; it may replace them. An answer of the model that says nothing,
	// and gives no reason, is an error of next: model.ErrNoAnswer.
	WrapModel func(ctx context.Context, r ModelRequest, next ModelHandler) (ModelResponse, error)
	// WrapTool is called in place of each call of a tool, whatever led to it; next runs it, and
	// returns a message.Message, a pregel.Command, or a []any of them. So does WrapTool, or it
	// returns a text. See tool.Options.Wrap. A call with another name goes to the tool with that
	// name, and one with a Tool that the agent does not have to that one. An error of a tool for which
	// Options.Errors has an answer is an answer to it.
	WrapTool func(ctx context.Context, r tool.Request, next tool.Runner) (any, error)

	err   error // the error of its constructor
	gate  gate  // called where tools run; may be nil
	limit *modelLimit
	about []string // the tools that it is for
	// maker is the function of this package that made it; "" if it is the program's own. WrapTool of one of
	// ours runs no tools that the agent does not have.
	maker string
}

// title names m in errors, as the program does: Name is LangChain's name of the nodes.
func (m Middleware) title() string { return cmp.Or(m.maker, m.Name) }

// Hook is a node of a middleware. It gets the state, which it must not change, and returns an
// update, as any node does: nil, a map, pregel.Pairs. With the key "jump_to" the update says where
// the agent goes on, a Jump. It may ask a person, as any node.
type Hook func(ctx context.Context, state map[string]any) (any, error)

// ModelRequest is a call of the model that is about to be made.
type ModelRequest struct {
	Model model.Model
	// System is the system message; the zero Message is none.
	System   message.Message
	Messages []message.Message
	// Tools are those that the model may call: some of the agent's. A middleware that runs a
	// tool by itself, in WrapTool, may add one that the agent does not have.
	Tools      []tool.Definition
	ToolChoice string
	// Response is the form of the answer: that of the agent, or one with some of its forms.
	Response *Response
	Settings map[string]any
	// State is the state of the agent.
	State map[string]any
}

// ModelResponse is the answer of the model.
type ModelResponse struct {
	// Messages are written to the state: the message of the model and, with a structured answer,
	// the tool message that answers it.
	Messages []message.Message
	// Response is the structured answer; nil if there is none.
	Response any
	// Updates are further updates of the state, written after the messages.
	Updates []any
}

// ModelHandler makes a call of the model.
type ModelHandler func(ctx context.Context, r ModelRequest) (ModelResponse, error)

// DynamicPrompt is a Middleware that makes the system prompt of each call of the model, in place of
// Options.System: LangChain's dynamic_prompt.
func DynamicPrompt(prompt func(ctx context.Context, r ModelRequest) (string, error)) Middleware {
	return Middleware{
		Name: "DynamicPrompt",
		WrapModel: func(ctx context.Context, r ModelRequest, next ModelHandler) (ModelResponse, error) {
			text, err := prompt(ctx, r)
			if err != nil {
				return ModelResponse{}, err
			}
			r.System = message.System(text)
			return next(ctx, r)
		},
	}
}

// wrapModel is the call of the model in all its middleware.
func (a *agent) wrapModel(d *door) ModelHandler {
	handler := func(ctx context.Context, r ModelRequest) (ModelResponse, error) { return a.call(ctx, d, r) }
	for i := len(a.opts.Middleware) - 1; i >= 0; i-- {
		if wrap := a.opts.Middleware[i].WrapModel; wrap != nil {
			next := handler
			handler = func(ctx context.Context, r ModelRequest) (ModelResponse, error) { return wrap(ctx, r, next) }
		}
	}
	return handler
}

// wrapTool is a tool.Options.Wrap: the middleware that wrap tools, and the gates behind them all.
func (a *agent) wrapTool() func(context.Context, tool.Request, tool.Runner) (any, error) {
	all := a.gates
	for _, m := range slices.Backward(a.opts.Middleware) {
		if m.WrapTool == nil {
			continue
		}
		inner := all
		all = func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
			out, err := m.WrapTool(m.named(ctx), r, func(ctx context.Context, r tool.Request) (any, error) { return inner(ctx, r, run) })
			if text, ok := out.(string); ok && err == nil {
				return message.ToolResult(r.ToolCall, text), nil
			}
			return out, err
		}
	}
	return a.enter(all)
}

// toolErrors returns Options.Errors, which is not called for errors that concern the run.
func (a *agent) toolErrors() tool.ErrorPolicy {
	policy := a.opts.Errors
	if policy == nil {
		policy = tool.AnswerInvalid
	}
	return func(ctx context.Context, call message.ToolCall, err error) (string, error) {
		if _, ok := err.(*stopError); ok { // as enter returns it: one further down is of an agent inside the tool
			return "", err
		}
		return policy(ctx, call, err)
	}
}

// stopError is an error of a call that neither its tool nor its model caused, such as a limit that
// was reached. It ends the run of the agent that made the call. If that agent runs inside a tool of
// another agent, the other agent sees an ordinary error of that tool.
type stopError struct {
	at  *door
	err error
}

// Error is the cause's text.
func (e *stopError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *stopError) Unwrap() error { return e.err }

// stops reports whether an error stops a call at a door.
func stops(d *door, err error) bool {
	var stop *stopError
	return errors.As(err, &stop) && stop.at == d
}

// found is a call behind all middleware. If one of them gave it another name, it goes to the tool
// with that name, unless it also brought a tool that the agent does not have.
func (a *agent) found(r tool.Request) tool.Request {
	if r.Tool == nil || r.Tool.Definition().Name != r.Name && a.byName[r.Tool.Definition().Name] != nil {
		r.Tool = a.byName[r.Name]
	}
	return r
}
